import pytest

from transformer_lib.data import english_number, german_number, load_pairs
from transformer_lib.data.number_words import LIMIT, number_pairs


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (21, "twenty one", "ein und zwanzig"),
        (47, "forty seven", "sieben und vierzig"),
        (100, "one hundred", "ein hundert"),
        (101, "one hundred one", "ein hundert eins"),
        (447, "four hundred forty seven", "vier hundert sieben und vierzig"),
        (1001, "one thousand one", "ein tausend eins"),
        (101_000, "one hundred one thousand", "ein hundert ein tausend"),
        (
            999_999,
            "nine hundred ninety nine thousand nine hundred ninety nine",
            "neun hundert neun und neunzig tausend neun hundert neun und neunzig",
        ),
    ],
)
def test_numbers_have_their_names(number, english, german):
    assert english_number(number) == english
    assert german_number(number) == german


def test_each_word_has_its_place():
    english = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    english += "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
    german = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    german += "siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
    numbers = [*range(20), *range(20, 100, 10)]
    assert [english_number(number) for number in numbers] == english.split()
    assert [german_number(number) for number in numbers] == german.split()


@pytest.mark.parametrize("number", [-1, LIMIT])
def test_a_number_without_a_name_is_refused(number):
    for name in (english_number, german_number):
        with pytest.raises(ValueError, match=f"{number}.*999999"):
            name(number)


@pytest.mark.usefixtures("unchecked")  # 44,000 names are made: a check of each takes most of the time
def test_no_number_is_in_two_splits():
    splits = {split: set(number_pairs(split)) for split in ("train", "val", "test")}
    assert [len(splits[s]) for s in ("train", "val", "test")] == [20_000, 1000, 1000]
    assert not splits["train"] & splits["test"]
    assert not splits["train"] & splits["val"]
    assert not splits["val"] & splits["test"]


@pytest.mark.usefixtures("unchecked")
def test_the_corpus_is_the_same_every_time_and_reads_both_ways():
    assert number_pairs("test") == number_pairs("test")
    forth = load_pairs("number_words", "val", "en", "de")
    back = load_pairs("number_words", "val", "de", "en")
    assert [(b, a) for a, b in back] == forth


def test_splits_and_sizes_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="valid"):
        number_pairs("valid")
    with pytest.raises(ValueError, match="500000"):
        number_pairs("train", train_size=1_000_000)
