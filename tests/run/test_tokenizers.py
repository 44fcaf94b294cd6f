import gzip
import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from transformer_lib import reference
from transformer_lib.data import (
    SubwordTokenizer,
    Vocabulary,
    WordTokenizer,
    german_number,
    load_tokenizer,
    train_tokenizer,
)
from transformer_lib.data.tokenizers import (
    BOS_ID,
    EOS_ID,
    LEAST_COUNT,
    PAD_ID,
    SPECIALS,
    UNK_ID,
    warned_of_unseen,
)
from transformer_lib.evaluation import bleu
from transformer_run.translator import Translator

TEXTS = ["Der Hund schläft .", "Ein Hund rennt , ein Hund schläft .", "Zwei Hunde rennen ."]
FIXTURE = json.loads((Path(__file__).parents[1] / "fixtures/torchtext_0_18.json").read_text("utf-8"))


def test_a_vocabulary_is_ordered_by_frequency_then_alphabet():
    vocabulary = Vocabulary.build([["b", "a", "c"], ["b", "a", "<eos>"], ["z"]], min_frequency=1)
    assert vocabulary.tokens == [*SPECIALS, "a", "b", "c", "z"]
    assert len(Vocabulary.build([["b", "a"], ["b"]], min_frequency=2)) == 5


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_vocabulary_equals_that_of_torchtext_0_18(multi30k, language):
    packed = (multi30k / f"train.{language}.gz").read_bytes()
    text = gzip.decompress(packed).decode("utf-8").removesuffix("\n")
    sentences = [line.strip().lower().split() for line in text.split("\n")]
    vocabulary = Vocabulary.build(sentences, FIXTURE["min_freq"])
    recorded = FIXTURE["vocabularies"][language]
    assert len(vocabulary) == recorded["size"]
    assert vocabulary.tokens[:40] == recorded["first_40"]
    digest = hashlib.sha256("\n".join(vocabulary.tokens).encode()).hexdigest()
    assert digest == recorded["sha256_of_newline_joined"]


def test_words_round_trip_and_unknown_ones_are_marked():
    tokenizer = WordTokenizer.train(TEXTS)
    ids = tokenizer.encode("Zwei Hunde schläft .")
    assert tokenizer.decode([*ids, EOS_ID, *ids]) == "Zwei Hunde schläft ."
    assert tokenizer.tokens(tokenizer.encode("Zwei Katzen <eos>")) == ["Zwei", "<unk>", "<unk>"]
    assert tokenizer.normalize("  Zwei   Hunde ") == "Zwei Hunde"
    assert tokenizer.encode("") == []


def test_spacy_splits_off_punctuation_and_clitics():
    tokenizer = train_tokenizer("spacy", ["A dog's ball.", "a dog's Ball.  "], "en", 0)
    assert tokenizer.normalize("A dog's ball.\n") == "a dog 's ball ."
    assert UNK_ID not in tokenizer.encode("A dog's ball.")


def test_subwords_round_trip_unseen_words():
    tokenizer = SubwordTokenizer.train(TEXTS * 5, 50)
    text = "Hunde schläft , Hund Zwei ein ."
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode([*tokenizer.encode("Hund"), EOS_ID, *tokenizer.encode("Zwei")]) == "Hund"
    assert "".join(tokenizer.tokens(tokenizer.encode("Ein Hund"))) == "▁Ein▁Hund"
    assert len(tokenizer) == 50
    assert UNK_ID in tokenizer.encode("Hund 犬")


def test_a_word_has_the_same_pieces_before_a_punctuation_mark():
    texts = ["Ein Hund schläft .", "Der Hund bellt, dann schläft der Hund."] * 3
    tokenizer = SubwordTokenizer.train(texts, 45)
    assert tokenizer.tokens(tokenizer.encode("Hund,")) == [*tokenizer.tokens(tokenizer.encode("Hund")), ","]
    pieces = tokenizer.to_json()["model"]["model"]["vocab"]
    assert [piece for piece in pieces if len(piece) > 1 and {",", "."} & set(piece)] == []


@pytest.mark.parametrize(
    "text", ["Er rief: „Komm (schnell)!“ – und ging...", "a's z.B. 3,5 % -x", "...", '"', "¿qué?  ¡sí!"]
)
def test_punctuation_round_trips(text):
    tokenizer = SubwordTokenizer.train([text, *TEXTS], 40)
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text)


@pytest.mark.parametrize("size", [40, 120])
def test_subwords_equal_the_loops(size):
    learned = [german_number(n).replace(" ", "") for n in range(0, 10_000, 17)]
    unseen = [german_number(n).replace(" ", "") for n in range(5, 10_000, 171)]
    tokenizer = SubwordTokenizer.train(learned, size)
    words = ["▁" + word for word in learned]  # the library marks the beginning of a word
    characters = {character for word in words for character in word}
    merges = reference.byte_pair_merges(words, size - len(SPECIALS) - len(characters))
    found = tokenizer.to_json()["model"]["model"]["merges"]
    assert [tuple(merge) for merge in found] == merges
    for word in unseen:
        assert tokenizer.tokens(tokenizer.encode(word)) == reference.byte_pair_pieces("▁" + word, merges)


@pytest.mark.parametrize("text", ["<eos>", "<pad> Hund <bos>", "<unk>"])
def test_the_written_name_of_a_special_token_is_ordinary_text(text):
    for tokenizer in (SubwordTokenizer.train(TEXTS, 40), WordTokenizer.train([*TEXTS, text])):
        assert not {PAD_ID, BOS_ID, EOS_ID} & set(tokenizer.encode(text))


@pytest.mark.parametrize("text", ["\u2028", "a\u0085b\u000bc", "🙂👩‍👩‍👧", "\x00\x01", "x" * 5000, "ﷺ e\u0301"])
def test_odd_text_is_encoded_and_decoded_to_one_line(text):
    for tokenizer in (SubwordTokenizer.train(TEXTS, 40), WordTokenizer.train(TEXTS, "de", lowercase=True)):
        assert "\n" not in tokenizer.decode(tokenizer.encode(text))


@pytest.mark.parametrize("kind", ["bpe", "spacy", "space"])
def test_a_tokenizer_comes_back_from_its_json(kind):
    tokenizer = train_tokenizer(kind, TEXTS * 2, "de", 40)
    again = load_tokenizer(json.loads(json.dumps(tokenizer.to_json())))
    assert again.encode(TEXTS[1]) == tokenizer.encode(TEXTS[1])
    assert len(again) == len(tokenizer)


def test_unknown_names_and_sizes_are_refused():
    with pytest.raises(ValueError, match="<unk>"):
        Vocabulary(["a", "b"])
    with pytest.raises(ValueError, match="wordpiece"):
        train_tokenizer("wordpiece", TEXTS, "de", 100)
    with pytest.raises(ValueError, match="'x'"):
        load_tokenizer({"kind": "x"})
    with pytest.raises(ValueError, match="5000"):
        SubwordTokenizer.train(TEXTS, 5000)


def test_the_size_that_an_error_asks_for_is_one_that_works():
    many = ["".join(map(chr, range(0x4E00, 0x4E00 + 9000)))] * 2
    for texts in (many, TEXTS * 2):
        with pytest.raises(ValueError, match="vocabulary_size") as error:
            train_tokenizer("bpe", texts, None, 8000)
        [size] = map(int, re.findall(r"(?<![\d,])\d+(?![\d,])", str(error.value)))
        assert len(train_tokenizer("bpe", texts, None, size)) == size


def test_without_a_size_asked_for_few_texts_give_a_small_vocabulary():
    smaller = train_tokenizer("bpe", TEXTS * 2, None, None)
    with pytest.raises(ValueError, match=f" {len(smaller)} "):
        train_tokenizer("bpe", TEXTS * 2, None, len(smaller) + 1)


@pytest.mark.parametrize("texts", [TEXTS * 2 + ["Ein Hund 犬 ."], iter(TEXTS * 2 + ["Ein Hund 犬 ."])])
def test_a_rare_character_is_unk_in_training_so_that_its_row_is_learned(texts):
    tokenizer = train_tokenizer("bpe", texts, None, 40)
    assert UNK_ID in tokenizer.encode("Ein Hund 犬 .")
    assert UNK_ID not in [i for text in TEXTS for i in tokenizer.encode(text)]
    assert UNK_ID not in train_tokenizer("bpe", [*TEXTS * 2, *["犬"] * LEAST_COUNT], None, 40).encode("犬")


@pytest.mark.parametrize("text", ["a▁b", "▁a", "▁", "a ▁▁ b▁ a"])
def test_the_mark_of_a_word_is_a_character_like_any_other(text):
    tokenizer = SubwordTokenizer.train([*TEXTS, text], 40)
    assert tokenizer.decode(tokenizer.encode(text)) == text == tokenizer.normalize(text)
    assert tokenizer.unseen(text) == []
    assert "▁" in SubwordTokenizer.train(TEXTS, 30).unseen(text)


def test_what_the_vocabulary_does_not_have_is_named():
    subwords, words = SubwordTokenizer.train(TEXTS, 40), WordTokenizer.train(TEXTS)
    assert subwords.unseen("Hund 漢字 😀\u200b 漢\x01") == ["漢", "字", "😀", "\x01"]
    assert words.unseen("Ein Hund, ein  Hund <eos>") == ["Hund,", "<eos>"]
    assert subwords.unseen("") == words.unseen("\u00ad") == []


def test_at_most_ten_lines_are_warned_of():
    tokenizer = SubwordTokenizer.train(TEXTS, 40)
    lines = ["Ein Hund .", *["漢字 Hund 漢", "Zwei Hunde ."] * 12]
    with pytest.warns(UserWarning, match="漢") as warned:
        assert list(warned_of_unseen(lines, tokenizer)) == lines
    said = [str(warning.message) for warning in warned]
    assert len(said) == 10
    assert ["line 2:" in said[0], "line 20:" in said[9]] == [True, True]
    with pytest.warns(UserWarning, match="CR"):
        list(warned_of_unseen(["Ein Hund .\rZwei Hunde ."], tokenizer))


def test_capitals_that_are_cut_into_letters_are_warned_of():
    tatoeba = Translator.load("tatoeba_de_en").source_tokenizer
    with pytest.warns(UserWarning, match="capitals"):
        list(warned_of_unseen(["HILFE! ICH BRAUCHE EINEN ARZT!"], tatoeba))
    list(warned_of_unseen(["Hilfe! Ich brauche einen Arzt!", "OK.", "17!", "Z.B.", ""], tatoeba))
    known = train_tokenizer("bpe", ["EIN HUND SCHLÄFT UND EIN HUND RENNT"] * 5, None, 30)
    list(warned_of_unseen(["EIN HUND RENNT"], known))


@pytest.mark.parametrize(
    ("package", "make"),
    [("spacy", lambda: WordTokenizer.train(TEXTS, "de")), ("tokenizers", lambda: SubwordTokenizer.train(TEXTS, 40))],
)
def test_a_missing_package_is_named(monkeypatch, package, make):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=package):
        make()


def test_words_keep_their_capitals_unless_asked():
    tokenizer = WordTokenizer.train(["Der Hund"])
    assert tokenizer.tokens(tokenizer.encode("Der Hund")) == ["Der", "Hund"]
    assert not WordTokenizer(tokenizer.vocabulary).lowercase
    assert train_tokenizer("space", ["Der Hund"], None, 0).normalize("Der Hund") == "Der Hund"


def test_spacy_words_are_lower_cased_split_by_their_language_and_seen_twice():
    tokenizer = train_tokenizer("spacy", ["Ca. 3 Hunde", "ca. 4 Hunde"], "de", 0)
    assert tokenizer.vocabulary.tokens == [*SPECIALS, "ca.", "hunde"]  # by English rules "ca" and "."


def test_bleu_splits_plain_text_and_leaves_words_as_they_are():
    subwords, words = SubwordTokenizer.train(TEXTS, 45), WordTokenizer.train(TEXTS)
    signatures = [bleu(TEXTS, TEXTS, t.lowercase, t.bleu_tokenization).signature for t in (subwords, words)]
    assert ["|tok:13a|" in signatures[0], "|tok:none|" in signatures[1]] == [True, True]
