"""The cells of *Training on a GPU* that train in the reader's minutes and score the result, on a CPU and small."""

import json
from pathlib import Path
from typing import Any

import pytest

from workshop.site.book_index import read_page

PAGE = Path(__file__).parents[2] / "book" / "gpu_training.md"
SMALL = "num_layers=1 d_model=16 d_ff=32 num_heads=2 p_drop=0.1"
OURS = {"MINUTES = 12": "MINUTES = 2.05", "TRAIN = GPU": "TRAIN = True"}
OURS |= {"num_layers=2 d_model=256 d_ff=512 num_heads=4 p_drop=0.3": SMALL}


def visit() -> None:
    """The imports of the page, then the cells from the reader's settings to the score, of twenty captions."""
    blocks = [block for block in read_page(PAGE).blocks if block.name == "code-cell"]
    codes = ["\n".join(block.body) for block in blocks if "remove-cell" not in block.options.get("tags", ())]
    [at] = [i for i, code in enumerate(codes) if code.startswith("MINUTES = ")]
    imports, settings, *rest = codes[0], *codes[at : at + 3]
    for theirs, own in OURS.items():
        assert theirs in settings
        settings = settings.replace(theirs, own)
    namespace: dict[str, Any] = {}
    exec(imports, namespace)
    every_pair = namespace["load_pairs"]
    namespace["load_pairs"] = lambda *split: every_pair(*split)[:20]
    for code in (settings, *rest):
        exec(code, namespace)


def steps(run: Path) -> list[int]:
    """The updates on record."""
    lines = (run / "metrics.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["step_num"] for line in lines]


def checkpoints(run: Path) -> list[int]:
    """The updates after which there is a checkpoint."""
    return sorted(int(path.stem.removeprefix("step-")) for path in run.glob("checkpoints/*"))


@pytest.mark.deep
@pytest.mark.usefixtures("multi30k")
def test_a_reader_with_few_minutes_gets_a_score_and_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my captions"
    made = []
    for _ in range(2):  # all cells, also those that name the folder
        visit()
        made.append(steps(folder))
        said = capsys.readouterr().out
        assert f"yours: {len(made[-1])} updates" in said
        assert "BLEU" in said
        assert "nrefs:1|case:mixed" in said
    first, both = made
    assert both == [*range(1, len(both) + 1)], "the second visit goes on where the first ended"
    # The two minutes of the score are kept, whatever preparing took: with them it would train for a hundred updates.
    assert 2 <= len(first) < len(both) < 40
    assert checkpoints(folder) == [1, first[-1], both[-1]]
