"""Texts that look alike count as one, wherever the library reads a text."""

import unicodedata

import pytest
from command_line import two_files, written
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib.data import load_pairs, train_tokenizer
from transformer_lib.data.normalization import letters, normalized
from transformer_lib.data.text_files import TextPairs
from transformer_run.own_corpus import Corpus, Limits
from transformer_run.translator import Translator

# Soft hyphen, zero-width space, word joiner, byte order mark, marks of direction, variation selectors.
INVISIBLE = [*"\u00ad\u200b\u2060\ufeff\u200e\u200f\u061c\u202a\u202e\u2066\u2069\ufe00\ufe0f\U000e0100\U000e01ef"]
PAIRS = [(f"Ä{i} été  ñandú", f"böse\u00a0Kühe {i}") for i in range(40)]


def decomposed(pairs):
    """The same pairs in NFD, with other spaces and invisible marks."""

    def other(text):
        return unicodedata.normalize("NFD", text).replace(" ", " \u2003")

    return [(f"\u202f{other(source)}\u200b", f" {other(target)}\u3000") for source, target in pairs]


@given(st.text())
def test_a_normalized_text_is_composed_has_single_spaces_and_stays_as_it_is(text):
    found = normalized(text)
    assert found == normalized(found) == normalized(unicodedata.normalize("NFD", text)) == " ".join(found.split())
    assert unicodedata.is_normalized("NFC", found)
    assert not set(INVISIBLE) & set(found)


def test_joiners_stay_and_what_is_left_of_marks_is_empty():
    for text in ("می\u200cخواهم", "👩\u200d👩\u200d👧", "क्\u200dष"):
        assert normalized(text) == text
    assert normalized("".join(INVISIBLE) + " \u2028\x1c\t") == ""
    assert normalized("e\u200b\u0301") == "é"


def test_half_a_character_is_a_character_that_is_not_known():
    assert normalized("a\ud83d \ud83d\ude00\udc00") == "a\ufffd 😀\ufffd"
    assert normalized("a\ufdd0b\ufdef") == "ab"
    assert len(Corpus([(f"a \ud800 {i}", f"b {i}") for i in range(20)], None)) == 19
    tokenizer = Translator.load("tatoeba_de_en").source_tokenizer
    assert tokenizer.unseen("Hallo \ud83d!") == ["\ufffd"]
    assert tokenizer.encode("Hallo \ud83d!") == tokenizer.encode("Hallo \ufffd!")


def test_what_is_no_text_is_named():
    for value in (None, b"a", float("nan")):
        with pytest.raises(TypeError, match=str(value)):
            normalized(value)


@pytest.mark.parametrize("name", ["tatoeba_de_en", "tatoeba_en_de", "number_words_en_de"])
def test_a_translator_reads_a_sentence_with_invisible_marks_as_the_sentence(name):
    encode = Translator.load(name).source_tokenizer.encode
    for sentence in ("Hallo.", "Ich schäme mich.", "seven hundred"):
        wanted = encode(sentence)
        for mark in INVISIBLE:
            for place in range(len(sentence) + 1):
                assert encode(sentence[:place] + mark + sentence[place:]) == wanted, (mark, place)
        assert encode(unicodedata.normalize("NFD", f"\u202f{sentence}")) == wanted


@pytest.mark.parametrize("kind", ["bpe", "spacy", "space"])
def test_a_vocabulary_of_decomposed_texts_is_that_of_the_texts(kind):
    texts, others = ([side for pair in some for side in pair] * 2 for some in (PAIRS, decomposed(PAIRS)))
    one, other = (train_tokenizer(kind, some, "de", 30) for some in (texts, others))
    assert one.to_json() == other.to_json()
    assert [one.encode(text) for text in texts] == [one.encode(text) for text in others]
    assert [one.normalize(text) for text in texts] == [one.normalize(text) for text in others]


def test_a_corpus_and_its_decomposed_copy_are_one(tmp_path):
    files = [two_files(tmp_path, some, (f"{i}.fr", f"{i}.cs")) for i, some in enumerate((PAIRS, decomposed(PAIRS)))]
    one, other = (TextPairs(some) for some in files)
    assert list(one) == list(other) == [(normalized(source), normalized(target)) for source, target in PAIRS]
    assert Corpus(one, None).digest == Corpus(other, None).digest == Corpus(decomposed(PAIRS), None).digest
    assert Corpus(one, TextPairs(files[1])).shared == Corpus(PAIRS, decomposed(PAIRS[:4])).shared + 36 == 40
    cleaned = Corpus([*PAIRS, *decomposed(PAIRS)], decomposed(PAIRS[:4]), Limits(100, 4.0))
    assert cleaned.dropped == {"seen before": 40, "shared with held-out pairs": 4}
    assert len(set(cleaned)) == len(cleaned) == 36
    assert letters("Ä\u200b b!") == letters("a\u0308B")


def test_a_line_of_marks_alone_is_an_empty_line(tmp_path):
    two = [written(tmp_path, "a", ["eins", "\u200b"]), written(tmp_path, "b", ["one", "two"])]
    with pytest.raises(ValueError, match="a, line 2"):
        list(TextPairs(two))
    assert list(TextPairs([written(tmp_path, "c", ["\ufeff\u00ad", "a\tb"])], empty=True)) == [("", ""), ("a", "b")]


@pytest.mark.usefixtures("multi30k")
def test_a_corpus_by_name_is_normalized():
    pairs = load_pairs("multi30k", "test_2017_flickr", "de", "en")
    assert pairs == [tuple(map(normalized, pair)) for pair in pairs]
