"""The translators that come with the package: what was recorded of them still holds."""

import json
from pathlib import Path

import pytest

from transformer_lib import cli
from transformer_lib.translator import PRETRAINED, Translator, pretrained_names

RESULTS = Path(__file__).parents[1] / "experiments" / "results"


def test_both_directions_come_with_the_package():
    assert pretrained_names() == ["tatoeba_de_en", "tatoeba_en_de"]


@pytest.mark.parametrize("name", pretrained_names())
def test_a_translator_is_a_small_file_with_a_card(name):
    sizes = [path.stat().st_size for path in (PRETRAINED / name).iterdir()]
    assert sum(sizes) <= 5_000_000
    card = (PRETRAINED / name / "README.md").read_text("utf-8")
    recorded = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    for part in ("CC-BY 2.0", "tatoeba.org", "python experiments/tatoeba.py", "## Limits"):
        assert part in card
    for split in ("val", "test"):
        assert all(f"{score['bleu']:.2f}" in card for score in recorded[split].values())


@pytest.mark.parametrize("name", pretrained_names())
def test_the_recorded_translations_come_out_again(name):
    examples = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["examples"]
    assert len(examples) == 100
    translations = Translator.load(name).translate([example["source"] for example in examples])
    assert translations == [example["hypothesis"] for example in examples]


def test_a_shipped_translator_is_used_by_its_name(monkeypatch, capsys, tmp_path):
    class Lines:
        buffer = iter([b"Wie alt bist du?\n"])

        def isatty(self):
            return False

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Lines())
    assert cli.main(["translate", "tatoeba_de_en", "--device", "cpu"]) == 0
    assert capsys.readouterr().out == "How old are you?\n"
