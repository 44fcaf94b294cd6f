"""The settings of a run: written and read, what a resumed run may change, and the languages that files name."""

import json
import os
from dataclasses import asdict, fields

import pytest
from command_line import SMALL, run, two_files, written

from transformer_lib import TrainingConfig
from transformer_run.settings import CHANGEABLE, RunConfig, check_languages, digest, named_language

PAIRS = [("forty seven", "sieben und vierzig"), ("six", "sechs"), ("five", "fünf"), ("two", "zwei")]
BASE = "number_words_en_de"  # from en to de
RUN = RunConfig(model={"d_model": 16, "p_drop": 0.2}, training=TrainingConfig(num_steps=9, seed=3))


def test_a_run_reads_as_it_was_written(tmp_path):
    RUN.write(tmp_path)
    assert RunConfig.read(tmp_path) == RUN
    content = json.loads((tmp_path / "training.json").read_text())
    assert content == {"format": 3, **asdict(RUN), "sha256": content["sha256"]}


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('"seed": 3', '"seed": 4', "settings"),
        ('"patience": null, ', "", "settings"),
        ('"format": 3, ', "", "format"),
    ],
)
def test_a_value_that_was_changed_or_left_out_is_refused(tmp_path, old, new, word):
    RUN.write(tmp_path)
    path = tmp_path / "training.json"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=rf"training\.json.*{word}"):
        RunConfig.read(tmp_path)


def sealed(settings):
    return {"format": 3, **settings, "sha256": digest(settings)}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (sealed({**asdict(RUN), "colour": "blue"}), "colour"),
        (sealed({**asdict(RUN), "training": {**asdict(RUN.training), "colour": "blue"}}), "colour"),
        (sealed({**asdict(RUN), "model": {"colour": "blue"}}), "colour"),
        (sealed(asdict(RUN)) | {"format": 2}, "format = 2"),
        (asdict(RUN), "format = None"),
    ],
)
def test_what_another_version_wrote_is_refused_by_its_name(tmp_path, content, word):
    (tmp_path / "training.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"other version.*{word}"):
        RunConfig.read(tmp_path)


def test_names_of_files_in_any_bytes_are_kept(tmp_path):
    run = RunConfig(source="x", target="y", data=[os.fsdecode(b"caf\xe9"), "köln"])
    run.write(tmp_path)
    assert RunConfig.read(tmp_path) == run


@pytest.mark.parametrize(("data", "tokenizer"), [("number_words", "space"), ("multi30k", "bpe"), ("tatoeba", "bpe")])
def test_a_corpus_has_its_tokenizer(data, tokenizer):
    assert RunConfig(data=data).tokenizer == tokenizer
    assert RunConfig(data=data, tokenizer="spacy").tokenizer == "spacy"


def test_a_resumed_run_may_change_how_far_it_goes_and_what_it_keeps():
    changed = RUN.changed({"validate_every": 7, "keep_last": 2, "patience": 4}, {}, {"num_steps": 99})
    assert RUN.resumed(changed) is changed
    assert (changed.keep_last, changed.training.num_steps, changed.training.seed) == (2, 99, 3)


def test_a_resumed_run_accepts_its_own_settings_and_defaults():
    same = RUN.changed({"data": "number_words"}, {"d_model": 16, "num_heads": 8}, {"seed": 3, "beta1": 0.9})
    assert RUN.resumed(same) == same


def test_a_resumed_run_finds_its_own_files_where_they_have_moved():
    run = RunConfig(data=["a.en", "a.de"], validation=["v.en", "v.de"], digest="what is in them")
    moved = run.changed({"data": ["b/a.en", "b/a.de"], "validation": ["b/v.en", "b/v.de"]}, {}, {})
    assert run.resumed(moved) is moved


OTHERS = [
    {"data": "multi30k", "source": "fr", "target": "fr", "tokenizer": "bpe", "vocabulary_size": 101},
    {"num_layers": 7, "d_ff": 9, "d_k": 65, "p_drop": 0.1},  # also where the default was taken
    {"precision": "bf16", "compile": True, "r_drop": 5.0, "max_grad_norm": 1.0}
    | dict.fromkeys(["batch_tokens", "accumulate", "warmup_steps", "seed"], 7)
    | dict.fromkeys(["rate_factor", "beta1", "beta2", "epsilon", "epsilon_ls"], 0.5),
]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, values in enumerate(OTHERS) for name in values])
def test_a_resumed_run_keeps_every_other_setting(kind, name):
    given = [{}, {}, {}]
    given[kind] = {name: OTHERS[kind][name]}
    with pytest.raises(ValueError, match=f"{name} = {OTHERS[kind][name]!r} "):
        RUN.resumed(RUN.changed(*given))
    assert {f.name for f in fields(TrainingConfig)} <= OTHERS[2].keys() | set(CHANGEABLE)


def test_a_resumed_run_keeps_the_precision_that_auto_chose():
    begun = RunConfig(precision="fp16")
    assert begun.resumed(begun.changed({}, {}, {"precision": "auto"})).precision == "fp16"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep_last": 0}, "keep_last"),
        ({"patience": 0}, "patience"),
        ({"model": {"pad_id": 3}}, "pad_id"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        RunConfig(**settings)


# The languages that files name by their endings, and the order in which they are given.


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


@pytest.mark.parametrize(("given", "said"), [([], "en"), (["--source", "english"], "english")])
def test_a_run_says_its_languages_first(tmp_path, files, capsys, given, said):
    steps = [*SMALL, "--tokenizer", "space", "--training", "num_steps=1", "batch_tokens=100"]
    assert run("train", tmp_path / "run", "--data", *files, "--validation", *files, *given, *steps) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"{tmp_path / 'run'}: {said} to de"


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
