"""Train, score and pack the translators that come with the package: German to English, English to German.

    TRANSFORMER_LIB_DATA=... python experiments/tatoeba.py --source de --target en --minutes 90

A small model on 166,760 pairs of everyday sentences, through the command line's own `train`. If a run is cut, the same
command goes on from its last checkpoint; the minutes count from the start of each command. Then the mean of the last
checkpoints is packed into transformer_run/pretrained/, with a card, and scored as it was packed. Without checkpoints,
`--minutes 0` packs the weights that the package holds once more, and keeps what the record says of their training.
"""

import json
import time
from pathlib import Path
from typing import Any

import torch

from experiments.by_command import precision_on, steps_of, train, validations
from experiments.sentence_length import by_length
from transformer_lib import count_parameters
from transformer_lib.data import load_pairs
from transformer_run.translator import PRETRAINED, Translator
from workshop.lab.experiment import record, recorded
from workshop.lab.provenance import provenance

# The recipe of multi30k.py with less dropout: the corpus is six times as large.
MODEL = ["d_model=256", "d_ff=512", "num_layers=2", "num_heads=4", "d_k=64", "d_v=64", "p_drop=0.1"]
TRAINING = ["num_steps=100000", "batch_tokens=2500", "warmup_steps=1500"]
VOCABULARY = 6000
BITS = 6  # of a weight: gzipped, as the page loads it, a file is a quarter smaller than with 8
LIMITS = ["--vocabulary-size", str(VOCABULARY), "--validate-every", "250", "--keep-last", "10"]
BEAM, ALPHAS = 4, (0.6, 1.0, 1.4, 1.8)  # the exponent is chosen on the validation set
SHOWN = 100  # test sentences whose translations are written down
FAILURES = 5  # of these, in the card
BANDS = (1, 6, 9, 13, 100)  # words of the source sentence, from each to the next
LANGUAGES = {"de": "German", "en": "English"}


def trained(folder: Path, source: str, target: str, minutes: float, seed: int, device: str) -> None:
    """Train for so many minutes, and note beside the checkpoints where they come from."""
    started, note = time.monotonic(), folder / "trained.json"
    where = ["--device", device, "--minutes", str(minutes)]
    what = ["--data", "tatoeba", "--source", source, "--target", target, *LIMITS]
    settings = ["--model", *MODEL, "--training", *TRAINING, f"seed={seed}", f"precision={precision_on(device)}"]
    train(folder, *where, *what, *settings)
    before = json.loads(note.read_text("utf-8")) if note.exists() else []
    note.write_text(json.dumps([*before, provenance(seed, time.monotonic() - started)], indent=1), "utf-8")


def ship(folder: Path, name: str, source: str, target: str) -> dict[str, Any]:
    """Pack the mean of the last checkpoints; score what was packed beside what it was packed from."""
    again = not (folder / "metrics.jsonl").exists()
    full = Translator.load(name) if again else Translator.load(folder, "cpu", "average")
    full.pack(PRETRAINED / name, BITS)
    packed = Translator.load(PRETRAINED / name)
    sizes = {path.name: path.stat().st_size for path in sorted((PRETRAINED / name).glob("*.[js]*"))}
    result: dict[str, Any] = {
        "what": f"the translator {name} that comes with the package: {LANGUAGES[source]} to "
        f"{LANGUAGES[target]}, trained on Tatoeba",
        "data": "ManyThings/Tatoeba 2018-05-13, CC-BY 2.0; split by English sentence; test scored after training "
        "and after each packing",
        "model": MODEL,
        "training": TRAINING,
        "limits": LIMITS,
        "parameters": count_parameters(packed.model),
        "bits": BITS,
        "bytes": sizes,
    }
    result |= training_on_record(name) if again else training_of(folder)
    validation = load_pairs("tatoeba", "val", source, target)
    by_alpha = {alpha: round(packed.score(validation, BEAM, alpha).bleu.score, 2) for alpha in ALPHAS}
    alpha = max(by_alpha, key=lambda each: by_alpha[each])
    result |= {"alpha": alpha, "val_by_alpha": by_alpha}
    for split in ("val", "test"):
        pairs = load_pairs("tatoeba", split, source, target)
        ways = {
            "before packing, greedy": (full, 1, alpha),
            "packed, greedy": (packed, 1, alpha),
            f"packed, beam {BEAM}, alpha {alpha}": (packed, BEAM, alpha),
        }
        scores_of = {way: translator.score(pairs, beam, exponent) for way, (translator, beam, exponent) in ways.items()}
        result[split] = {
            way: {
                "bleu": round(scores.bleu.score, 2),
                "signature": scores.bleu.signature,
                "exact_match": round(scores.exact_match, 4),
            }
            for way, scores in scores_of.items()
        }
        if split == "test":
            hypotheses = scores_of["packed, greedy"].hypotheses
            sources, references = map(list, zip(*pairs, strict=True))
            result["test_by_length"] = by_length(sources, hypotheses, references, BANDS, str.split)
            result["examples"] = [
                {"source": source, "reference": target, "hypothesis": hypothesis}
                for (source, target), hypothesis in zip(pairs, hypotheses, strict=True)
            ][:: len(pairs) // SHOWN][:SHOWN]
    return result


def training_of(folder: Path) -> dict[str, Any]:
    """What the run wrote down about its training."""
    lines = steps_of(folder)
    return {
        "before_packing": "float32",
        "steps": lines[-1]["step_num"],
        "target_tokens_seen": sum(step["target_tokens"] for step in lines),
        "validation": validations(lines),
        # The last call, with the seconds of all steps: a call that was cut left no note.
        "trained": json.loads((folder / "trained.json").read_text("utf-8"))[-1]
        | {"seconds": round(sum(step["seconds"] for step in lines), 1)},
    }


def training_on_record(name: str) -> dict[str, Any]:
    """The same of weights whose checkpoints are gone, from the record of their training."""
    before = recorded(name)
    keys = ("model", "training", "limits", "steps", "target_tokens_seen", "validation", "trained")
    packed = f"the integers of {before.get('bits', 8)} bits, recorded at commit {before['commit']}"
    return {"before_packing": packed} | {key: before[key] for key in keys}


def card(name: str, result: dict[str, Any]) -> str:
    """What a user of the weights must know, from the result."""
    from sacrebleu import sentence_chrf

    example = result["examples"]
    worst = sorted(example, key=lambda e: sentence_chrf(e["hypothesis"], [e["reference"]]).score)[:FAILURES]
    rows = "\n".join(
        f"| {split} | {way} | {score['bleu']:.2f} | {100 * score['exact_match']:.1f} % |"
        for split in ("val", "test")
        for way, score in result[split].items()
    )
    lengths = "\n".join(
        f"| {band['words'][0]} to {band['words'][1]} | {band['sentences']} | {band['bleu']:.2f} |"
        for band in result["test_by_length"]
    )
    failures = "\n".join(f"| {e['source']} | {e['hypothesis']} | {e['reference']} |" for e in worst)
    trained = result["trained"]
    source, target = (LANGUAGES[code] for code in name.split("_")[1:])
    return f"""# {name}

A small Transformer that translates everyday sentences from {source} to {target}. It comes with `transformer_lib`, so
that readers of the book can translate without training. This card is written by `experiments/tatoeba.py`.

    echo "..." | python -m transformer_run translate {name}

## Data and terms

Trained on 166,760 sentence pairs of [Tatoeba](https://tatoeba.org), in the selection of
[ManyThings](https://www.manythings.org/anki/) of 2018-05-13, under
[CC-BY 2.0](https://creativecommons.org/licenses/by/2.0/). The weights may be passed on with this attribution. Training,
validation and test sentences are split by the English sentence, and no test sentence's German stands in the training
part.

## Model and training

{result["parameters"]:,} parameters, {result["bits"]} bits of each weight in a byte, a scale for each row:
{sum(result["bytes"].values()) / 1e6:.2f} MB with the tokenizer. {", ".join(result["model"])}; shared byte-pair
vocabulary of {VOCABULARY:,}. {result["steps"]:,} steps, {result["target_tokens_seen"] / 1e6:.1f} million target tokens,
{trained["seconds"] / 60:.0f} minutes of steps on {trained["device"]}, {trained["threads"]} thread(s), beside
other work; commit {trained["commit"]}. The mean of the last ten checkpoints. The last of one
or more calls:

    {trained["command"]}

## Scores

Packed from {result["before_packing"]}.
BLEU by sacreBLEU on detokenized text, `{result["test"]["packed, greedy"]["signature"]}`.

| split | decoding | BLEU | equal to the reference |
| --- | --- | ---: | ---: |
{rows}

By the length of the source sentence (test, packed, greedy):

| words | sentences | BLEU |
| --- | ---: | ---: |
{lengths}

## Limits

It knows short, everyday sentences of the kind that people write for language learners: many are about Tom and Mary. It
does not know the words of news, law or science, and it has no notion of who "you" or "sie" is. It never says that it
does not know. Do not rely on it for anything that matters.

Of {len(example)} test sentences, spread evenly over the split, the {len(worst)} whose translation shares least with the
reference:

| source | translation | reference |
| --- | --- | --- |
{failures}
"""


def measured(source: str, target: str, minutes: float, seed: int, device: str) -> dict[str, Any]:
    """Train one direction, then score and pack it."""
    name = f"tatoeba_{source}_{target}"
    folder = Path("checkpoints") / name
    if minutes > 0:
        trained(folder, source, target, minutes, seed, device)
    result = ship(folder, name, source, target)
    (PRETRAINED / name / "README.md").write_text(card(name, result), encoding="utf-8")
    return result


if __name__ == "__main__":
    record(
        "tatoeba_{source}_{target}",
        __doc__,
        measured,
        torch_threads=None,
        source={"choices": list(LANGUAGES), "default": "de"},
        target={"choices": list(LANGUAGES), "default": "en"},
        minutes={"type": float, "default": 90.0, "help": "of training (default: 90); 0 only packs"},
        seed=0,
        device="cuda" if torch.cuda.is_available() else "cpu",
    )
