"""A translator from French to Czech, made of a reader's own files by the command lines of the book.

    python experiments/own_corpus.py --files multi30k

The library has no name for these files: train, val and test_2016_flickr of Multi30k, task 1, each as NAME.fr.gz and
NAME.cs.gz (https://github.com/multi30k/dataset, data/task1/raw). The settings were fixed before the run, and the test
files are read once, at its end.
"""

import contextlib
import hashlib
import io
import shlex
from pathlib import Path
from typing import Any

from experiments.by_command import command, steps_of, validations
from transformer_lib.data.corpora import data_folder
from transformer_run.preparation import read_corpus
from transformer_run.settings import RunConfig
from transformer_run.translator import Translator
from workshop.lab.experiment import record
from workshop.lab.provenance import RESULTS

NAME = "own_corpus"
TRAIN = (
    "--data train.fr.gz train.cs.gz --validation val.fr.gz val.cs.gz --source fr --target cs --clean "
    "--vocabulary-size 6000 --model num_layers=2 d_model=256 d_ff=512 num_heads=4 d_k=64 d_v=64 p_drop=0.1 "
    "--training num_steps=2000 batch_tokens=2500 warmup_steps=800"
)
EVALUATE = "--data test_2016_flickr.fr.gz test_2016_flickr.cs.gz --checkpoint average --beam-size 4"
# Written for this record: three like the captions, and two that no caption resembles.
SENTENCES = [
    "Deux chiens jouent dans la neige.",
    "Un homme en chemise bleue répare un vélo.",
    "Une femme qui porte un chapeau rouge lit un livre dans le parc.",
    "Je voudrais une tasse de café.",
    "Le ministre a refusé la loi.",
]


def printed(line: str, files: Path) -> str:
    """What a command of the library prints, in the folder of the files."""
    said = io.StringIO()
    with contextlib.chdir(files), contextlib.redirect_stdout(said):
        command(*shlex.split(line))
    return said.getvalue().replace(f"{files.resolve()}/", "")


def make_translator(folder: Path, files: Path, train: str = TRAIN) -> dict[str, Any]:
    """Train, or go on with it, and evaluate."""
    resume = " --resume" if (folder / "checkpoints").exists() else ""
    hypotheses = folder / "hypotheses.txt"
    hypotheses.unlink(missing_ok=True)  # of an earlier call
    where = shlex.quote(str(folder.resolve()))
    output = f"--output {shlex.quote(str(hypotheses.resolve()))}"
    printed(f"train {where} {train}{resume}", files)
    evaluated = printed(f"evaluate {where} {EVALUATE} {output}", files)
    corpus = read_corpus(RunConfig.read(folder))
    steps = steps_of(folder)
    translations = Translator.load(folder, checkpoint="average").translate(SENTENCES, beam_size=4)
    return {
        "commands": [
            f"train runs/mine {train}",
            f"evaluate runs/mine {EVALUATE}",
            "translate runs/mine --checkpoint average --beam-size 4",
        ],
        "evaluated": evaluated.splitlines(),
        "pairs": {"training": len(corpus), "validation": len(corpus.held_out), "left out": corpus.dropped},
        "steps": steps[-1]["step_num"],
        "seconds_in_steps": round(sum(step["seconds"] for step in steps)),
        "validation": validations(steps),
        "translations": dict(zip(SENTENCES, translations, strict=True)),
    }


def measured(files: Path | None, folder: Path) -> dict[str, Any]:
    """Make the translator; the record, and beside it the translations of the test file."""
    files = files or data_folder() / "multi30k"
    folder.mkdir(parents=True, exist_ok=True)
    made = make_translator(folder, files)
    names = [f"{split}.{language}.gz" for split in ("train", "val", "test_2016_flickr") for language in ("fr", "cs")]
    (RESULTS / NAME).mkdir(exist_ok=True)
    (RESULTS / NAME / "hypotheses.cs.txt").write_bytes((folder / "hypotheses.txt").read_bytes())
    return {
        "what": "a translator from French to Czech, from six text files by three command lines",
        "data": "Multi30k task 1 raw: train to learn, val to watch, test_2016_flickr scored once, after training",
        "sha256": {name: hashlib.sha256((files / name).read_bytes()).hexdigest() for name in names},
        "vocabulary": len(Translator.load(folder).target_tokenizer),
        **made,
    }


if __name__ == "__main__":
    where = {"type": Path, "help": "their folder (default: multi30k among the corpora)"}
    run = {"type": Path, "default": Path(f"checkpoints/{NAME}"), "help": "of the run"}
    record(NAME, __doc__, measured, torch_threads=None, files=where, folder=run)
