import pytest

from transformer_lib.data import english_number, german_number, load_pairs
from transformer_lib.data.number_words import LIMIT, number_pairs


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (11, "eleven", "elf"),
        (16, "sixteen", "sechzehn"),
        (21, "twenty one", "ein und zwanzig"),
        (30, "thirty", "dreißig"),
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


VALUES = {
    word: i for i, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
VALUES |= {
    word: i for i, word in enumerate("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())
}
VALUES |= {"ein": 1, "sixteen": 16, "sechzehn": 16, "seventeen": 17, "siebzehn": 17}
VALUES |= {f"{w}teen": 10 + i for i, w in [(3, "thir"), (4, "four"), (5, "fif"), (8, "eigh"), (9, "nine")]}
VALUES |= {f"{w}zehn": 10 + i for i, w in [(3, "drei"), (4, "vier"), (5, "fünf"), (8, "acht"), (9, "neun")]}
VALUES |= {f"{w}ty": 10 * i for i, w in enumerate("twen thir for fif six seven eigh nine".split(), start=2)}
VALUES |= {f"{w}zig": 10 * i for i, w in enumerate("zwan drei vier fünf sech sieb acht neun".split(), start=2)}
VALUES |= {"dreißig": 30}


def value(words):
    """Read a number's words back by adding up, without the generator's own recursion."""
    total = group = 0
    for word in words.split():
        if word in ("hundred", "hundert"):
            group *= 100
        elif word in ("thousand", "tausend"):
            total, group = 1000 * group, 0
        elif word != "und":
            group += VALUES[word]
    return total + group


@pytest.mark.slow
def test_every_name_reads_back_as_its_number():
    # Every number below 10,000 and every 97th above it.
    for number in [*range(10_000), *range(10_000, LIMIT, 97)]:
        assert value(english_number(number)) == number
        assert value(german_number(number)) == number


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
