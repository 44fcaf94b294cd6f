"""Numbers in English and German words: a small translation task with an exact answer.

The order of the words differs: "forty seven" is "sieben und vierzig", seven and forty. The German is
written with spaces between its parts ("vier hundert sieben und vierzig"), so that a word is a token.
"""

import random

LIMIT = 1_000_000  # the first number that has no name here

ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
).split()
GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def english_number(number: int) -> str:
    """The number in English words, as in "four hundred forty seven".

    Raises:
        ValueError: a number below 0 or above 999,999.
    """
    _check(number)
    if number < 20:
        return ENGLISH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _join(ENGLISH_TENS[tens - 2], english_number(ones) if ones else "")
    unit, word = (100, "hundred") if number < 1000 else (1000, "thousand")
    many, rest = divmod(number, unit)
    return _join(english_number(many), word, english_number(rest) if rest else "")


def german_number(number: int) -> str:
    """The number in German words, as in "vier hundert sieben und vierzig".

    "eins" stands only at the end of a number: "ein hundert eins", "ein tausend", "ein und zwanzig".

    Raises:
        ValueError: a number below 0 or above 999,999.
    """
    _check(number)
    if number < 20:
        return GERMAN[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _join(f"{_before_noun(ones)} und" if ones else "", GERMAN_TENS[tens - 2])
    unit, word = (100, "hundert") if number < 1000 else (1000, "tausend")
    many, rest = divmod(number, unit)
    return _join(_before_noun(many), word, german_number(rest) if rest else "")


def number_pairs(split: str, train_size: int = 20_000, held_out: int = 1000) -> list[tuple[str, str]]:
    """English and German for the numbers of one split; no number is in two splits.

    The number of digits is drawn evenly from one to six, then the number, without repetition.

    Args:
        split: "train", or "val" and "test" with `held_out` numbers each.

    Raises:
        ValueError: another split, or more than half of the numbers that have a name.
    """
    if split not in ("train", "val", "test"):
        raise ValueError(f"split = {split!r} is not one of 'train', 'val', 'test'")
    if train_size + 2 * held_out > LIMIT // 2:
        raise ValueError(f"train_size = {train_size}, held_out = {held_out}: together at most {LIMIT // 2} numbers")
    generator = random.Random(0)
    numbers: dict[int, None] = {}  # a dict, because it keeps the order of drawing
    while len(numbers) < train_size + 2 * held_out:
        digits = generator.randint(1, 6)
        numbers[generator.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)] = None
    drawn = list(numbers)
    generator.shuffle(drawn)
    bounds = {"test": (0, held_out), "val": (held_out, 2 * held_out), "train": (2 * held_out, len(drawn))}
    start, stop = bounds[split]
    return [(english_number(n), german_number(n)) for n in drawn[start:stop]]


def _before_noun(number: int) -> str:
    words = german_number(number)
    return words[:-1] if words.endswith("eins") else words


def _join(*words: str) -> str:
    return " ".join(word for word in words if word)


def _check(number: int) -> None:
    if not 0 <= number < LIMIT:
        raise ValueError(f"number = {number} is out of range: number words go from 0 to {LIMIT - 1}")
