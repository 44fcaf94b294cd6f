"""The command `translate` with its columns and files, and the scores of `evaluate`."""

import re

import pytest
import sacrebleu
from command_line import run, written

from transformer_lib.evaluation import ter
from transformer_run import Translator, lines

SENTENCES = ["forty seven", "", "two thousand and six"]
TRANSLATE = ["translate", "number_words_en_de"]


@pytest.fixture
def source(tmp_path):
    return written(tmp_path, "source.en", SENTENCES)


def test_a_line_that_is_no_utf_8_keeps_what_can_be_read_and_is_named(capsys):
    given = [b"one\n", b"\xff two\n", b"\xef\xbb\xbfthree\r\n"]
    assert list(lines.read_lines(given)) == ["one", "\ufffd two", "three"]
    assert "line 2" in capsys.readouterr().err


def test_several_translations_come_with_the_number_of_their_line_and_their_scores(numbers, source, capsys):
    assert run(*TRANSLATE, "--input", source, "--beam-size", 2, "--n-best", 2, "--scores") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    ranked = numbers.translate(SENTENCES, beam_size=2, n_best=2, return_scores=True)
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert [row[2] for row in rows] == [text for found in ranked for text, _ in found]
    assert [float(row[1]) for row in rows] == pytest.approx([s for found in ranked for _, s in found], abs=1e-3)


def test_lines_are_numbered_through_all_chunks(source, capsys, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK", 2)
    assert run(*TRANSLATE, "--input", source, "--beam-size", 2, "--n-best", 1) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2", "3"]


def test_an_alignment_is_a_last_column_of_pairs(numbers, source, capsys):
    assert run(*TRANSLATE, "--input", source, "--alignment", "--scores") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    found = numbers.attention(SENTENCES[0])
    assert rows[0][1:] == [found.translation, " ".join(f"{i}-{j}" for i, j in found.alignment)]
    assert float(rows[0][0]) == pytest.approx(found.score, abs=1e-3)
    assert re.fullmatch(r"\d-0 \d-1 \d-2", rows[0][2])
    assert rows[1] == ["0.0000", "", ""]


@pytest.mark.parametrize("options", [[], ["--beam-size", 3, "--n-best", 3]])
@pytest.mark.parametrize("left", [0.3, 0.7, 1.0])
def test_an_interrupted_file_goes_on_to_the_same_end(source, tmp_path, options, left, refused):
    assert run(*TRANSLATE, "--input", source, "--output", tmp_path / "whole", *options) == 0
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut.part").write_bytes(whole[: int(left * len(whole))])
    given = [*TRANSLATE, "--input", source, "--output", tmp_path / "cut", *options]
    assert "--resume" in refused(*given)
    assert run(*given, "--resume") == 0
    assert (tmp_path / "cut").read_bytes() == whole
    assert not (tmp_path / "cut.part").exists()


def test_ctrl_c_leaves_what_was_translated(source, tmp_path, capsys, monkeypatch):
    real, calls = Translator.translate, []

    def impatient(*arguments, **options):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(Translator, "translate", impatient)
    monkeypatch.setattr(lines, "CHUNK", 2)
    assert run(*TRANSLATE, "--input", source, "--output", tmp_path / "out") == 130
    assert "--resume" in capsys.readouterr().err
    assert (tmp_path / "out.part").read_text("utf-8") == "sieben und vierzig\n\n"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--n-best", 2], "beam_size"),
        (["--n-best", 2, "--beam-size", 2, "--alignment"], "--alignment"),
        (["--scores", "--engine", "ctranslate2"], "--engine"),
        (["--resume"], "--output"),
        (["--input", "nowhere"], "nowhere"),
        (["--output", __file__], "already"),
    ],
)
def test_options_that_do_not_fit_are_named(options, named, refused):
    assert named in refused(*TRANSLATE, *options)


def test_each_metric_comes_with_its_signature(tmp_path, printed):
    given = ["--data", written(tmp_path, "pairs.tsv", ["forty seven\tsieben vierzig", "five\tfünf"])]
    out = printed("evaluate", "number_words_en_de", *given, "--metrics", "ter", "chrf")
    hypotheses, references = ["sieben und vierzig", "fünf"], [["sieben vierzig", "fünf"]]
    assert f"TER = {sacrebleu.corpus_ter(hypotheses, references).score:.2f} " in out
    assert f"chrF = {sacrebleu.corpus_chrf(hypotheses, references).score:.2f} " in out
    assert out.count("signature = ") == 2
    assert "BLEU" not in out


def test_ter_counts_edits_for_a_hundred_words():
    found = ter(["a b x d"], ["a b c d"])
    assert (found.score, "case" in found.signature) == (25.0, True)
    with pytest.raises(ValueError, match="hypotheses"):
        ter(["a"], [])
