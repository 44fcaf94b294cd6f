"""One form for texts that a reader cannot tell apart."""

import functools
import re
import sys
import unicodedata

# Soft hyphen, zero-width space, word joiner, byte order mark, marks of direction, variation selectors; and what Unicode
# says are no characters (U+FDD0 to U+FDEF). U+200C and U+200D stay: Persian, the scripts of India and emoji need them.
INVISIBLE = re.compile(
    "[\u00ad\u061c\u180b-\u180d\u180f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufdd0-\ufdef\ufe00-\ufe0f\ufeff"
    "\U000e0100-\U000e01ef]+"
)


def normalized(text: str) -> str:
    """The text in Unicode's form NFC, with single spaces between its words.

    Invisible characters go. Half a character of UTF-16, as of an emoji that was
    cut in two, becomes U+FFFD.

    Raises:
        TypeError: no text, such as the NaN of an empty cell of a table.
    """
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no text; a sentence is a str")
    if not text.isascii():
        units = text.encode("utf-16-le", "surrogatepass")
        text = units.decode("utf-16-le", "replace")
        text = unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    return " ".join(text.split())


def letters(sentence: str) -> str:
    """Its letters, with their marks, and digits, without case: "Hi." and "hi!" are one sentence.

    Without any letter it is the sentence, normalized: "7 + 2" and "7 - 2" are two.
    """
    sentence = normalized(sentence)
    kept = _other_signs().sub("", sentence.casefold())
    return kept if any(map(str.isalpha, kept)) else sentence


@functools.cache
def _other_signs() -> re.Pattern[str]:
    # In \w are no marks, such as the vowel signs of Hindi: without them, words of other sense would be one.
    marks = "".join(sign for sign in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(sign) in ("Mn", "Mc"))
    return re.compile(rf"[^\w{marks}]+|_+")
