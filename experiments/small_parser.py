"""Train, score and pack the parser that comes with the package: short English sentences to their trees.

    python experiments/small_parser.py

The sentences and their trees come from a small grammar and go into text files. The command line's own `train` takes the
files like those of any two languages. The book's page with the models in the browser uses what is packed here: run
workshop/site/export_onnx.py after it.
"""

import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from experiments import by_command, number_words
from transformer_lib.data.trees import Tree, linearize
from transformer_run.translator import PRETRAINED, Translator
from workshop.lab.experiment import record

NAME = "parser_en_en"
MODEL = ["d_model=64", "d_ff=128", "num_layers=2", "num_heads=4", "d_k=16", "d_v=16", "p_drop=0.0", "norm_order=pre"]
TRAINING = ["num_steps=3000", "batch_tokens=1000", "warmup_steps=800", "epsilon_ls=0.0"]
LONGEST = 16  # words
SHOWN = 100  # test sentences whose trees are written down
PARTS = {"train": 5000, "val": 200, "test": 500}  # sentences
PEOPLE, TOOLS, WORN = "girl boy king queen doctor baker", "telescope camera lens", "hat beard coat"
SLEPT, SAW = "slept laughed sang", "saw watched found"


def noun_phrase(rng: random.Random, nouns: str) -> Tree:
    """Such as (NP (DT the) (NN king))."""
    article, noun = rng.choice(["the", "a"]), rng.choice(nouns.split())
    return Tree("NP", (Tree("DT", (article,)), Tree("NN", (noun,))))


def with_phrase(rng: random.Random, nouns: str) -> Tree:
    """Such as (PP (IN with) (NP (DT a) (NN beard)))."""
    return Tree("PP", (Tree("IN", ("with",)), noun_phrase(rng, nouns)))


def person(rng: random.Random, depth: int) -> Tree:
    """Somebody, somebody with something on, or somebody who did something."""
    somebody, draw = noun_phrase(rng, PEOPLE), rng.random()
    if draw < 0.5:
        return somebody
    if draw < 0.75 or not depth:
        return Tree("NP", (somebody, with_phrase(rng, WORN)))
    return Tree("NP", (somebody, Tree("SBAR", (Tree("WP", ("who",)), deed(rng, depth - 1)))))


def deed(rng: random.Random, depth: int) -> Tree:
    """What somebody did: alone, to somebody, or to somebody with a tool. A tool belongs to the nearest deed."""
    draw, did = rng.random(), Tree("VBD", (rng.choice(SAW.split()),))
    if draw < 0.2:
        return Tree("VP", (Tree("VBD", (rng.choice(SLEPT.split()),)),))
    if draw < 0.6:
        return Tree("VP", (did, person(rng, depth)))
    return Tree("VP", (did, person(rng, 0), with_phrase(rng, TOOLS)))


def sentences(seed: int = 0) -> Iterator[Tree]:
    """Trees of sentences of at most 16 words, none twice, without end."""
    rng, known = random.Random(seed), set()
    while True:
        tree = Tree("S", (person(rng, 1), deed(rng, 1)))
        words = tuple(tree.words())
        if len(words) <= LONGEST and words not in known:
            known.add(words)
            yield tree


@cache
def pairs(part: str) -> list[tuple[str, str]]:
    """The sentences of "train", "val" or "test" with their trees as tokens. No sentence stands in two parts."""
    drawn, trees = sentences(), {}
    for name, number in PARTS.items():
        trees[name] = [next(drawn) for _ in range(number)]
    return [(" ".join(tree.words()), " ".join(linearize(tree))) for tree in trees[part]]


def train(folder: Path, seed: int) -> None:
    """By the command that takes any two text files."""
    for part in ("train", "val"):
        for side, lines in zip(("sentences", "trees"), zip(*pairs(part), strict=True), strict=True):
            (folder / f"{part}.{side}").write_text("\n".join(lines) + "\n", "utf-8")
    files = ["--data", *(str(folder / f"train.{side}") for side in ("sentences", "trees"))]
    files += ["--validation", *(str(folder / f"val.{side}") for side in ("sentences", "trees"))]
    languages = ["--source", "sentences", "--target", "trees", "--tokenizer", "space"]
    settings = ["--model", *MODEL, "--training", *TRAINING, f"seed={seed}"]
    by_command.train(folder / "run", *files, *languages, "--device", "cpu", *settings)


def card(result: dict[str, Any]) -> str:
    """What a user of the weights must know, from the result."""
    return f"""# {NAME}

A small Transformer that reads a short English sentence and writes its tree: "the king sang" becomes
"(S (NP XX XX )NP (VP XX )VP )S", with XX for each word. It comes with `transformer_lib`. This card is written by
`experiments/small_parser.py`.

    echo "the girl saw the king with a telescope" | python -m transformer_run translate {NAME}

{number_words.origin(result, "vocabularies")}

Of {PARTS["test"]} sentences that training never saw, {100 * result["exact_match"]["test"]:.1f} % get exactly their tree
(recorded {result["date"]}).

It knows {result["words"]} words and sentences of up to {LONGEST} words from a grammar of its own, nothing else of
English. In that grammar what one wears belongs to a person and a tool to what is done; real English leaves both open.
"""


def measured(seed: int) -> dict[str, Any]:
    """Train, score and pack; the record of all three, with what the parser writes for some test sentences."""
    with tempfile.TemporaryDirectory() as name:
        train(Path(name), seed)
        result = {
            "what": f"the parser {NAME} that comes with the package: short sentences of a small grammar",
            "data": "drawn from the grammar in experiments/small_parser.py; test scored once, after training",
            "sentences": PARTS,
            "model": MODEL,
            "training": TRAINING,
            **number_words.ship(Path(name, "run"), NAME, {part: pairs(part) for part in ("val", "test")}),
        }
    packed, shown = Translator.load(PRETRAINED / NAME), pairs("test")[:SHOWN]
    result["words"] = len({word for words, _ in pairs("train") for word in words.split()})
    result["examples"] = [
        {"source": source, "reference": tree, "hypothesis": written}
        for (source, tree), written in zip(shown, packed.translate([source for source, _ in shown]), strict=True)
    ]
    return result


if __name__ == "__main__":
    recorded = record(NAME, __doc__, measured, seed=0)
    (PRETRAINED / NAME / "README.md").write_text(card(recorded), encoding="utf-8")
