"""Files of one's own: read, cleaned and split; and through the command line to a translator."""

import gzip
import itertools
import os
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from command_line import SMALL, files_of, raising, run, two_files, written
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import reference
from transformer_lib.data.normalization import normalized
from transformer_lib.data.number_words import number_pairs
from transformer_lib.data.text_files import TextPairs
from transformer_run import Translator
from transformer_run.own_corpus import MOST_HELD_OUT, SHARE, Corpus, Limits, letters
from transformer_run.preparation import EncodedPairs
from transformer_run.settings import RunConfig

PAIRS = [("un chien", "pes"), ("deux chiens", "dva psi"), ("été", "léto")]
STEPS = ["--vocabulary-size", 60, "--training", "batch_tokens=300", "warmup_steps=10", "num_steps=2"]
LANGUAGES = ["--source", "fr", "--target", "x-roman"]


@pytest.mark.posix
def test_one_file_for_both_languages_is_refused(tmp_path):
    source, target = two_files(tmp_path, PAIRS)
    (tmp_path / "link").symlink_to(source)
    for other in (source, tmp_path / "link"):
        with pytest.raises(ValueError, match="train.fr"):
            TextPairs([source, other])
    target.write_bytes(source.read_bytes())
    with pytest.raises(ValueError, match="same text"):
        Corpus(TextPairs([source, target]), None)
    with pytest.raises(ValueError, match="3 files"):
        TextPairs([source, target, source])


def test_without_validation_files_a_seeded_part_is_held_out(tmp_path):
    pairs = [(f"mot {i}", f"slovo {i}") for i in range(SHARE * 40)]
    corpora = [Corpus(TextPairs(two_files(tmp_path, pairs)), None) for _ in range(2)]
    assert corpora[0].held_out == corpora[1].held_out
    assert len(corpora[0].held_out) == 40
    assert list(corpora[0]) == [pair for pair in pairs if pair not in corpora[0].held_out]
    assert len(corpora[0]) == len(pairs) - 40
    assert corpora[0].held_out not in (pairs[:40], pairs[-40:])
    assert len(Corpus([(str(i), f"{i}!") for i in range(SHARE * MOST_HELD_OUT * 2)], None).held_out) == MOST_HELD_OUT


def test_no_pair_that_was_drawn_is_trained_on():
    pairs = [(f"mot {i // 3}", f"Slovo {i // 3}{'!' * (i % 3)}") for i in range(1200)]
    corpus = Corpus(pairs, None)
    held_out = {(source, letters(target)) for source, target in corpus.held_out}
    assert held_out.isdisjoint((source, letters(target)) for source, target in corpus)
    assert corpus.dropped == {"held out": 60, "shared with held-out pairs": 1200 - 60 - len(corpus)}
    assert 60 < corpus.dropped["shared with held-out pairs"] <= 120


@pytest.mark.parametrize(
    "pairs",
    [
        [(f"{'larger' if i > 50 else 'smaller'}", f"than {i}") for i in range(200)],
        [(f"{i} and {j}", "larger" if i > j else "smaller") for i in range(20) for j in range(10)],
        [("🍎" * (1 + i % 20) + "🍐" * (i // 20), "➕" * (i + 1)) for i in range(200)],
    ],
    ids=["sources of two values", "targets of two values", "emoji"],
)
def test_a_corpus_of_signs_or_of_two_values_is_trained_on(pairs):
    corpus = Corpus(pairs, None)
    assert len(corpus.held_out) == len(pairs) // SHARE
    assert len(corpus) == len(pairs) - len(corpus.held_out)
    assert set(corpus).isdisjoint(corpus.held_out)


def test_a_pair_is_shared_when_both_of_its_sides_are():
    pairs = [("Un chat.", "kočka!"), ("un chat", "pes"), ("chien", "Kočka")]
    corpus = Corpus(pairs, [("un chat", "kočka")], Limits(100, 9.0))
    assert list(corpus) == pairs[1:]
    assert corpus.dropped == {"shared with held-out pairs": 1}
    assert corpus.shared == 0  # of those that are left
    assert corpus.half_shared == 2
    assert "2 pairs" in corpus.report()
    assert Corpus([*pairs, ("un chat", "kočka")], [("un chat", "kočka")], Limits(100, 9.0)).shared == 0
    assert "also trained on" not in " ".join(corpus.described())
    assert "1 of the validation pairs are also trained on" in " ".join(Corpus(PAIRS, PAIRS[:1]).described())


def test_letters_keep_the_marks_that_make_another_word():
    assert letters("Hi, it's_me 2!") == "hiitsme2"
    assert letters("\u0935\u0939 \u0939\u0948।") == "\u0935\u0939\u0939\u0948"  # a Hindi sentence keeps its vowel sign
    assert letters("กิน") != letters("กัน")
    assert letters("Thanks \u2764\ufe0f") == letters("thanks")  # a heart, as a picture


SIDE = st.text("aA! 7\u0939\u0948\u4e2d", max_size=7).map(normalized)


@given(st.lists(st.tuples(SIDE, SIDE), max_size=12), st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_cleaning_equals_the_loops(pairs, held_out):
    pairs = [*pairs, ("ok", "ok")]
    faults = reference.faults_of_pairs(pairs, held_out, max_length=6, max_ratio=2)
    if all(faults):
        with pytest.raises(ValueError, match="pairs"):
            Corpus(pairs, held_out, Limits(6, 2))
        return
    corpus = Corpus(pairs, held_out, Limits(6, 2))
    assert list(corpus) == [pair for pair, fault in zip(pairs, faults, strict=True) if not fault]
    assert corpus.dropped == Counter(fault for fault in faults if fault)


MARKED = [
    ("Er sagt: &quot;Ja&quot;.", "He&#39;s saying &quot;yes&quot;."),
    ("&lt;Auto&gt; &amp; Haus&#x21;", "car &amp; house!"),
    ('<seg id="1">Das Haus ist alt.</seg>', '<seg id="1">The house isn&apos;t new.</seg>'),
    ("AT&T; R&D &unknown; <b>ja</b> nein", "a < b > c"),
]
MENDED = [
    ('Er sagt: "Ja".', 'He\'s saying "yes".'),
    ("<Auto> & Haus!", "car & house!"),
    ("Das Haus ist alt.", "The house isn't new."),
    MARKED[3],
]


def test_cleaning_mends_what_other_formats_left_behind(tmp_path):
    corpus = Corpus(TextPairs(two_files(tmp_path, MARKED), True), PAIRS, Limits(100, 9.0))
    assert list(corpus) == list(corpus) == MENDED
    assert corpus.mended == {"with character references": 3, "within a tag": 1}
    assert "mended: 3 with character references, 1 within a tag" in corpus.report()
    assert list(Corpus(TextPairs(two_files(tmp_path, MARKED)), PAIRS)) == MARKED
    held_out = Corpus([*MARKED, *PAIRS], MARKED[:1], Limits(100, 9.0))
    assert held_out.held_out == MENDED[:1]
    assert MENDED[0] not in list(held_out), "it is known again"
    assert Corpus([("<p></p>", "<p> </p>"), *PAIRS], PAIRS[:1], Limits(100, 9.0)).dropped["empty"] == 1


def test_cleaning_leaves_out_what_nobody_translated():
    same = ["Das hat niemand übersetzt.", "我今天去学校了。", "วันนี้อากาศดีมาก"]
    names = ["Coca-Cola", "Rio Grande", "東京大学", "https://example.org/a-long-address-that-stays-as-it-is"]
    pairs = [*((text, text) for text in same), *((name, name) for name in names), *PAIRS]
    corpus = Corpus(pairs, [("x", "y")], Limits(100, 9.0))
    assert corpus.dropped == {"untranslated": 3}
    assert "3 untranslated" in corpus.report()
    assert list(corpus) == pairs[3:]
    assert reference.faults_of_pairs(pairs, [("x", "y")], 100, 9.0) == [*["untranslated"] * 3, *[""] * 7]


def test_a_column_of_numbers_is_named():
    ids = [(str(1276 + i), target) for i, (_, target) in enumerate(PAIRS)]
    assert "every source is a number" in Corpus(ids, PAIRS).report()
    assert "every target is a number" in Corpus([(target, "0.98") for _, target in PAIRS], PAIRS).report()
    assert "number" not in Corpus([*ids, PAIRS[0]], PAIRS).report()


def test_a_digest_is_of_the_pairs_and_not_of_their_files(tmp_path):
    plain, packed = two_files(tmp_path, PAIRS), two_files(tmp_path, PAIRS, ("a.gz", "b.gz"))
    digests = {Corpus(TextPairs(files), PAIRS[:1]).digest for files in (plain, packed)}
    assert len(digests) == 1
    assert len(digests | {Corpus(PAIRS[:2], PAIRS[:1]).digest, Corpus(PAIRS, PAIRS[1:]).digest}) == 3


@pytest.mark.parametrize("limits", [Limits(100, 4.0), None])
@pytest.mark.parametrize(("pairs", "held_out"), [([], None), ([], PAIRS), (PAIRS[:1], None), (PAIRS, [])])
def test_too_few_pairs_are_refused(pairs, held_out, limits):
    with pytest.raises(ValueError, match="--validation"):
        Corpus(pairs, held_out, limits)
    with pytest.raises(ValueError, match="--validation"):
        Corpus([("", "x")], PAIRS, Limits(100, 4.0))  # cleaning leaves none


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Numbers in files of two languages that the library does not know."""
    pairs = [(german, english[::-1].upper()) for english, german in number_pairs("val")]
    return two_files(tmp_path_factory.mktemp("numbers"), pairs[:400], ("train.fr", "train.roman"))


@pytest.fixture(scope="module")
def trained(numbers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "own"
    assert run("train", folder, "--data", *numbers, *LANGUAGES, "--clean", *SMALL, *STEPS) == 0
    return folder


@pytest.mark.slow
def test_two_files_become_a_translator(trained, numbers, tmp_path, capsys, stdin, refused, printed):
    few = [written(tmp_path, file.name, file.read_text("utf-8").splitlines()[:20]) for file in numbers]
    found = Translator.load(trained)
    assert (found.source, found.target) == ("fr", "x-roman")
    assert RunConfig.read(trained).data == [str(file) for file in numbers]
    stdin(b"eins\nzwei\n")
    assert run("translate", trained) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert "x-roman" in printed("evaluate", trained)
    said = printed("evaluate", trained, "--data", *few)
    assert all(str(file) in said for file in few)
    assert "--data" in refused("evaluate", trained, "--split", "val")


def test_a_run_says_what_was_left_out_and_held_out(numbers, tmp_path, capsys):
    twice = [written(tmp_path, file.name, file.read_text("utf-8").splitlines() * 2) for file in numbers]
    assert run("train", tmp_path / "run", "--data", *twice, *LANGUAGES, "--clean", *SMALL, *STEPS) == 0
    said = capsys.readouterr().err
    assert "seen before" in said
    assert "20 held out" in said
    assert "drawn with seed" in said
    assert "20 for validation" in said


def test_a_resumed_run_notices_changed_files_and_follows_moved_ones(trained, numbers, tmp_path, refused):
    folder = shutil.copytree(trained, tmp_path / "run")
    moved = [written(tmp_path, f"{file.name}.gz", file.read_text("utf-8").splitlines()) for file in numbers]
    more = ["--resume", "--training"]
    assert run("train", folder, "--data", *moved, *more, "num_steps=3") == 0
    assert RunConfig.read(folder).data == [str(file) for file in moved]
    before = files_of(folder)
    lines = gzip.decompress(moved[1].read_bytes()).splitlines()
    moved[1].write_bytes(gzip.compress(b"\n".join([*lines[1:], lines[0]])))
    said = refused("train", folder, *more, "num_steps=4")
    assert str(moved[1]) in said
    assert "sha256" in said
    assert run("evaluate", folder) == 2
    assert "max_ratio" in refused("train", folder, *more, "num_steps=4", "--clean", "--max-ratio", 3)
    assert "number_words" in refused("train", folder, *more, "num_steps=4", "--data", "number_words")
    assert files_of(folder) == before


def test_files_that_were_moved_are_named_with_the_remedy(trained, numbers, tmp_path, refused):
    folder = shutil.copytree(trained, tmp_path / "run")
    config = RunConfig.read(folder)
    replace(config, data=[config.data[0], str(tmp_path / "gone.roman")]).write(folder)
    for command in (["evaluate", folder], ["train", folder, "--resume"]):
        assert "gone.roman" in refused(*command)


def test_a_full_disk_while_encoding_leaves_nothing_half_written(numbers, tmp_path, monkeypatch, refused):
    monkeypatch.setattr(EncodedPairs, "write", raising(OSError(28, "No space left on device")))
    assert "No space left" in refused("train", tmp_path / "run", "--data", *numbers, *LANGUAGES, *SMALL, *STEPS)
    assert list((tmp_path / "run").glob("encoded*")) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--source": ["cs"], "--target": ["cs"]}, "cs"),
        ({"--vocabulary-size": [8000]}, "8000"),
        ({"--tokenizer": ["spacy"]}, "'x-roman'"),
        ({"--validation": ["number_words"]}, "number_words"),
        ({"--data": ["multi30k"], "--validation": [__file__]}, "--validation"),
        ({"--data": ["nowhere"]}, "'nowhere'"),
        ({"--data": ["nowhere"], "--validation": [__file__]}, "'nowhere'"),
        ({"--data": ["multi30k", "mine"]}, "--data"),
        ({"--data": ["/"]}, "folder"),
        ({"--max-ratio": [0.5]}, "max_ratio"),
        ({"--max-length": [0]}, "max_length"),
        ({"--max-length": [9]}, "--clean"),
    ],
)
def test_settings_that_do_not_fit_the_files_leave_nothing_behind(numbers, tmp_path, changes, message, refused):
    options = {"--data": numbers, "--source": ["fr"], "--target": ["x-roman"]} | changes
    given = itertools.chain(*([name, *values] for name, values in options.items() if values))
    assert message in refused("train", tmp_path / "runs" / "new", *given)
    assert not (tmp_path / "runs").exists()


def test_the_remedy_for_an_empty_line_is_one_that_helps(trained, numbers, tmp_path, refused):
    gaps = [written(tmp_path, "gaps.fr", ["eins", ""]), written(tmp_path, "gaps.roman", ["ENO", "OWT"])]
    train = ["train", tmp_path / "run", *LANGUAGES, "--data"]
    assert "--clean" in refused(*train, *gaps)
    for command in ([*train, *numbers, "--clean", "--validation"], ["evaluate", trained, "--data"]):
        said = refused(*command, *gaps)
        assert ["gaps.fr, line 2" in said, "--clean" in said] == [True, False]
    assert not (tmp_path / "run").exists()


def test_one_language_on_both_sides_is_refused_wherever_pairs_are_read(trained, numbers, tmp_path, refused):
    same = [numbers[0], written(tmp_path, "same.roman", numbers[0].read_text("utf-8").splitlines())]
    train = ["train", tmp_path / "run", *LANGUAGES, "--data"]
    for command in ([*train], [*train, *numbers, "--validation"], ["evaluate", trained, "--data"]):
        assert str(same[1]) in refused(*command, *same)
    assert not (tmp_path / "run").exists()


@pytest.mark.posix
def test_a_pipe_is_no_corpus(tmp_path, refused):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in refused("train", tmp_path / "run", "--data", tmp_path / "pipe", *LANGUAGES)


def test_translate_names_what_the_vocabulary_lacks(capsys, stdin):
    stdin("forty seven\nforty 漢字\n\u200bseven\u00ad\n".encode())
    assert run("translate", "number_words_en_de") == 0
    found = capsys.readouterr()
    assert found.out.splitlines()[::2] == ["sieben und vierzig", "sieben"]
    assert "line 2" in found.err
    assert "漢字" in found.err
    assert len(found.err.splitlines()) == 1


def test_a_target_without_spaces_is_scored_by_its_script(tmp_path, monkeypatch, refused, printed):
    pairs = [("one", "阿拉伯联合酋长国"), ("two", "列支敦士登公国")]
    monkeypatch.setattr(Translator, "translate", lambda *_, **__: [target for _, target in pairs])
    evaluate = ["evaluate", "number_words_en_de", "--data", *two_files(tmp_path, pairs, ("1.txt", "2.txt"))]
    said = printed(*evaluate)
    assert ["BLEU = 100.00" in said, "|tok:zh|" in said] == [True, True]
    said = printed(*evaluate, "--bleu-tokenize", "none")
    assert ["BLEU = 0.00" in said, "|tok:none|" in said, "four words" in said] == [True, True, True]
    assert "|tok:char|" in printed(*evaluate, "--bleu-tokenize", "char")
    assert "no-such" in refused(*evaluate, "--bleu-tokenize", "no-such")
