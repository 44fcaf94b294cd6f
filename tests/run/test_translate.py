"""The command `translate` with its columns and files, and the scores of `evaluate`."""

import gzip
import os
from dataclasses import replace

import pytest
import sacrebleu
from command_line import run, written

from transformer_lib.data import WordTokenizer
from transformer_run import Translator
from transformer_run.commands import translate as command

SENTENCES = ["forty seven", "", "two thousand and six"]
TRANSLATE = ["translate", "number_words_en_de"]


@pytest.fixture
def source(tmp_path):
    return written(tmp_path, "source.en", SENTENCES)


@pytest.mark.parametrize("how", ["--input", "standard input", pytest.param("pipe", marks=pytest.mark.posix)])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_same_text_is_read_from_wherever_it_comes(how, pack, tmp_path, stdin, capsys):
    content = pack("".join(f"{sentence}\r\n" for sentence in SENTENCES).encode("utf-8-sig"))
    given = []
    if how == "standard input":
        stdin(content)
    elif how == "pipe":
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        given = ["--input", f"/dev/fd/{reading}"]
    else:
        (tmp_path / "text").write_bytes(content)
        given = ["--input", tmp_path / "text"]
    assert run(*TRANSLATE, *given) == 0
    assert capsys.readouterr().out == "sieben und vierzig\n\nzwei tausend sechs\n"


@pytest.mark.parametrize(
    ("content", "named"), [(b"\x00" * 257 + b"ustar\x00", "tar -x"), (b"one\ntwo\x00\n", "line 2 has a zero byte")]
)
def test_what_is_no_text_is_named_and_not_translated(content, named, tmp_path, stdin, capsys):
    (tmp_path / "in").write_bytes(content)
    stdin(content)
    for given in ([], ["--input", tmp_path / "in"], ["--input", tmp_path / "in", "--output", tmp_path / "out"]):
        assert run(*TRANSLATE, *given) == 2
        found = capsys.readouterr()
        assert named in found.err
        assert found.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_several_translations_come_with_the_number_of_their_line_and_their_scores(numbers, source, capsys, monkeypatch):
    monkeypatch.setattr(command, "CHUNK", 2)  # the numbers go on through the chunks
    assert run(*TRANSLATE, "--input", source, "--beam-size", 2, "--n-best", 2, "--scores") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    ranked = numbers.translate(SENTENCES, beam_size=2, n_best=2, return_scores=True)
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert [row[2] for row in rows] == [text for found in ranked for text, _ in found]
    assert [float(row[1]) for row in rows] == pytest.approx([s for found in ranked for _, s in found], abs=1e-3)


def test_columns_that_hold_the_same_text_stay_apart(capsys, stdin):
    stdin(b"one\n")
    assert run(*TRANSLATE, "--n-best", 1, "--scores") == 0
    number, score, text = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (number, text) == ("1", "ein")
    assert float(score) < 0


def test_a_file_of_translations_is_what_standard_output_would_get(source, tmp_path):
    (tmp_path / "out.part").mkdir()  # of somebody else
    assert run(*TRANSLATE, "--input", source, "--output", tmp_path / "out") == 0
    assert (tmp_path / "out").read_text("utf-8") == "sieben und vierzig\n\nzwei tausend sechs\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.part", "source.en"]


@pytest.mark.parametrize(("stop", "status"), [(KeyboardInterrupt, 130), (OSError(28, "No space left"), 2)])
def test_a_file_that_is_not_whole_is_not_there(source, tmp_path, capsys, monkeypatch, stop, status):
    real, calls = Translator.translate, []

    def stopped(*arguments, **options):
        calls.append(1)
        if len(calls) > 1:
            raise stop
        return real(*arguments, **options)

    monkeypatch.setattr(Translator, "translate", stopped)
    monkeypatch.setattr(command, "CHUNK", 2)
    assert run(*TRANSLATE, "--input", source, "--output", tmp_path / "out") == status
    assert f"{tmp_path / 'out'} is not written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["source.en"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--n-best", 2], "--beam-size"),
        (["--n-best", 0], "n_best"),
        (["--scores", "--engine", "ctranslate2"], "--engine"),
        (["--output", "nowhere/out"], "nowhere"),
        (["--input", "nowhere"], "nowhere"),
        (["--output", __file__], "already"),
    ],
)
def test_options_that_do_not_fit_are_named(options, named, refused):
    assert named in refused(*TRANSLATE, *options)


def test_each_metric_comes_with_its_signature(tmp_path, printed):
    given = ["--data", written(tmp_path, "pairs.tsv", ["forty seven\tsieben vierzig", "five\tfünf"])]
    out = printed("evaluate", "number_words_en_de", *given, "--metrics", "bleu", "chrf")
    hypotheses, references = ["sieben und vierzig", "fünf"], [["sieben vierzig", "fünf"]]
    assert f"chrF = {sacrebleu.corpus_chrf(hypotheses, references).score:.2f} " in out
    assert out.count("signature = ") == 2
    assert "BLEU" not in printed("evaluate", "number_words_en_de", *given, "--metrics", "chrf")


def test_each_metric_says_what_words_it_is_of(tmp_path, printed, refused):
    hint, given = "own words", ["--data", written(tmp_path, "pairs.tsv", ["forty seven\tsieben vierzig"])]
    out = printed("evaluate", "number_words_en_de", *given, "--metrics", "bleu", "chrf")
    assert out.count(hint) == 3  # the third is exact match
    pieces = written(tmp_path, "pieces.tsv", ["Wie alt bist du?\tHow old are you?"])
    assert hint not in printed("evaluate", "tatoeba_de_en", "--data", pieces)
    given += ["--metrics", "chrf", "--bleu-tokenize", "zh"]
    assert "--bleu-tokenize" in refused("evaluate", "number_words_en_de", *given)


def test_chrf_of_a_translator_without_capitals_says_so(numbers, tmp_path, printed):
    sides = numbers.source_tokenizer.vocabulary, numbers.target_tokenizer.vocabulary
    lower = [WordTokenizer(vocabulary, lowercase=True) for vocabulary in sides]
    replace(numbers, source_tokenizer=lower[0], target_tokenizer=lower[1]).save(tmp_path / "lower")
    given = ["--data", written(tmp_path, "pairs.tsv", ["Forty seven\tSieben und vierzig"])]
    out = printed("evaluate", tmp_path / "lower", *given, "--metrics", "chrf")
    assert "chrF = 100.00 " in out
    assert "|case:lc|" in out
