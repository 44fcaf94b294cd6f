"""The languages that files name by their endings, and the order in which they are given."""

import pytest
from command_line import SMALL, run, two_files, written

from transformer_run.settings import check_languages, named_language

PAIRS = [("forty seven", "sieben und vierzig"), ("six", "sechs"), ("five", "fünf"), ("two", "zwei")]
BASE = "number_words_en_de"  # from en to de


@pytest.mark.parametrize(
    ("file", "said"),
    [
        *((f"a.{code}", code) for code in ("de", "pt_BR", "zh-CN", "sr_Latn", "es-419", "x-roman", "tokens")),
        ("a.de.gz", "de"),
        *((name, "") for name in ("a", "a.txt", "b.1", "c.v1.0", "i.de.bak", "i.en.old", "l.2019-10", "a.deu", "a.gz")),
    ],
)
def test_a_language_is_a_code_or_a_name_that_is_known(file, said):
    assert named_language(file, {"x-roman", "tokens"}) == said


@pytest.mark.parametrize(
    ("files", "direction", "wrong"),
    [
        (("a.de", "a.en"), ("de", "en"), ""),
        (("a.en", "a.de"), ("de", "en"), "a.en"),
        (("a.EN", "a.DE"), ("de", "en"), "a.EN"),
        (("a.fr", "a.cs"), ("de", "en"), "a.fr"),
        (("a.txt", "a.de"), ("de", "en"), "a.de"),
        (("a.txt", "a.tsv"), ("de", "en"), ""),
        (("a.de_AT", "a.en-GB"), ("de", "en"), ""),
        (("a.zh-CN", "a.zh-TW"), ("zh-CN", "zh-TW"), ""),
        (("a.zh-TW", "a.zh-CN"), ("zh-CN", "zh-TW"), "a.zh-TW"),
        (("a.roman", "a.fr"), ("fr", "roman"), "a.roman"),
        (("a.de", "a.en"), ("German", "English"), ""),
        (("a.de",), ("en", "de"), ""),
    ],
)
def test_endings_must_not_contradict_the_direction(files, direction, wrong):
    if not wrong:
        check_languages(files, *direction)
        return
    with pytest.raises(ValueError, match=wrong):
        check_languages(files, *direction)


@pytest.fixture
def swapped(tmp_path):
    return two_files(tmp_path, [(german, english) for english, german in PAIRS], ("x.de", "x.en"))


@pytest.mark.parametrize("others", [None, ("x.fr", "x.cs")])
def test_files_in_the_wrong_order_or_language_are_refused_wherever_they_are_named(
    swapped, tmp_path, others, files, refused
):
    wrong = two_files(tmp_path, PAIRS, others) if others else swapped
    new = ["train", tmp_path / "run"]
    for command in (
        [*new, "--from", BASE, "--data", *wrong],
        [*new, "--from", BASE, "--data", *files, "--validation", *wrong],
        [*new, "--data", *files, "--validation", *wrong],
        [*new, "--data", *wrong, "--source", "en", "--target", "de"],
        ["evaluate", BASE, "--data", *wrong],
        ["export", BASE, tmp_path / "out", "--to", "ctranslate2", "--int8", "--data", *wrong],
    ):
        assert str(wrong[0]) in refused(*command)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in [*files, *swapped, *wrong]}


def test_a_finished_translator_keeps_its_direction(tmp_path, swapped, files, refused):
    given = ["train", tmp_path / "run", "--from", BASE, "--data"]
    assert "--source de" in refused(*given, *swapped, "--source", "de", "--target", "en")
    assert "--target cs" in refused(*given, *files, "--target", "cs")
    assert not (tmp_path / "run").exists()


def test_a_run_says_its_languages_first(tmp_path, files, capsys):
    steps = [*SMALL, "--tokenizer", "space", "--training", "num_steps=1", "batch_tokens=100"]
    assert run("train", tmp_path / "run", "--data", *files, "--validation", *files, *steps) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"{tmp_path / 'run'}: en to de"


def test_endings_that_are_no_languages_are_asked_for(tmp_path, refused, printed):
    for names in (("b.1", "b.2"), ("c.de.bak", "c.en.old"), ("a.de.txt", "a.en.txt"), ("d.de", "d.old")):
        said = refused("train", tmp_path / "run", "--data", *two_files(tmp_path, PAIRS, names))
        assert ["--source" in said, "--target" in said] == [True, True]
    assert "en to de" in printed("evaluate", BASE, "--data", *two_files(tmp_path, PAIRS, ("b.1", "b.2")))


@pytest.mark.posix
def test_a_link_keeps_its_own_ending(tmp_path, refused):
    blobs = [written(tmp_path, name, side) for name, side in zip("01", zip(*PAIRS, strict=True), strict=True)]
    links = [tmp_path / "x.de", tmp_path / "x.en"]
    for link, blob in zip(links, blobs, strict=True):
        link.symlink_to(blob)
    assert "x.de ends in de" in refused("evaluate", BASE, "--data", *links)
