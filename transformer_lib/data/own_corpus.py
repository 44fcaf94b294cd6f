"""A corpus in text files of any two languages: read with errors that name file and line, cleaned, and split."""

import functools
import gzip
import hashlib
import itertools
import random
import re
import sys
import unicodedata
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .normalization import normalized

Pair = tuple[str, str]
MOST_HELD_OUT, SHARE, SPLIT_SEED = 1000, 20, 0  # pairs held out for validation: at most so many, and one of so many
OTHER_FORMATS = {  # by the first bytes of a file
    b"\xff\xfe": "is UTF-16; convert the file: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "is UTF-16; convert the file: iconv -f UTF-16 -t UTF-8",
    b"\x1f\x8b": "is packed by gzip; give the file a name that ends in .gz",
    b"PK\x03\x04": "belongs to a zip archive; unpack it",
    b"\xfd7zXZ": "is packed by xz; unpack it: xz -d",
    b"BZh": "is packed by bzip2; unpack it: bzip2 -d",
    b"\x28\xb5\x2f\xfd": "is packed by zstd; unpack it: zstd -d",
    b"%PDF-": "is a PDF; write its sentences into a text file",
    b"<?xml": "is XML; write the text of its segments into a text file, one a line",
    b"<srcset": "is SGML; write the text of its segments into a text file, one a line",
    b"<refset": "is SGML; write the text of its segments into a text file, one a line",
    b"version https://git-lfs": "is a pointer of Git LFS; fetch the file: git lfs pull",
}


def lines(file: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 text. Only a line feed ends one: str.splitlines would also cut inside sentences.

    Raises:
        ValueError: another encoding, or line ends of CR alone; the message names the line and its byte.
    """
    for number, line in enumerate(file, start=1):
        if number == 1 and b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):
            raise ValueError(f"{name} has no line feed, and CR ends its lines; convert it: tr '\\r' '\\n' < in > out")
        if (number == 1 or b"\0" in line) and (found := _other_format(line, number == 1)):
            raise ValueError(f"{name}, line {number} {found}")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            start = error.start + len(line) - len(error.object)  # the mark at the beginning of a file counts, too
            problem = f"{name}, line {number}, byte {start + 1}: {line[start]:#04x} is not UTF-8"
            raise ValueError(f"{problem}; convert the file, as with iconv -f WINDOWS-1252 -t UTF-8") from None


def _other_format(line: bytes, first: bool) -> str:
    for mark, problem in OTHER_FORMATS.items():
        if first and line.startswith(mark):
            return problem
    if b"\0" not in line:
        return ""
    remedy = "convert a file of UTF-16: iconv -f UTF-16LE -t UTF-8" if first else "delete it: tr -d '\\000' < in > out"
    return f"has a zero byte; {remedy}"


def columns(texts: Iterable[str], name: str | Path) -> Iterator[Pair]:
    """The two sides of each line, normalized; both are empty where it is blank.

    Raises:
        ValueError: another line without one tab.
    """
    for number, line in enumerate(texts, start=1):
        sides = line.split("\t") if normalized(line) else ["", ""]
        if len(sides) != 2:
            problem = f"{name}, line {number} has {len(sides) - 1} tabs, not one"
            raise ValueError(f"{problem}; write the source, a tab, the target: cut -f 1,2 takes the first two columns")
        yield normalized(sides[0]), normalized(sides[1])


@dataclass(frozen=True)
class TextPairs:
    """Normalized pairs of two text files of equal line count, or of one with a tab between the sides; plain or .gz.

    The files are read anew each time, line by line: a corpus need not fit into memory.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another number of files; while reading, also sides of different line counts, an empty side,
            another encoding, a damaged .gz, the same text on both sides of every pair. The message names the file
            and the line.
    """

    files: Sequence[str | Path]
    empty: bool = False  # whether a side may be empty
    remedy: str = "delete the pair"  # what to do about one that is empty and may not be

    def __post_init__(self):
        if len(self.files) not in (1, 2):
            raise ValueError(f"{len(self.files)} files; give two, line by line translations, or one with a tab a line")
        if len(self.files) == 2 and Path(self.files[0]).samefile(self.files[1]):
            raise ValueError(f"{self}: one file for both languages; name the file of each")

    def __str__(self) -> str:
        return " and ".join(map(str, self.files))

    def __iter__(self) -> Iterator[Pair]:
        pairs = self._columns(self.files[0]) if len(self.files) == 1 else self._partners()
        number = differing = 0
        for number, pair in enumerate(pairs, start=1):
            if not self.empty and not all(pair):
                name = f"{self.files[0 if pair[1] else -1]}, line {number}"
                where = name if len(self.files) == 2 else f"{name}, {'target' if pair[0] else 'source'}"
                raise ValueError(f"{where} is empty; {self.remedy}")
            differing += pair[0] != pair[1]
            yield pair
        if number and not differing:
            raise ValueError(f"{self}: both sides of every pair are the same text; name the file of each language")

    def _columns(self, file: str | Path) -> Iterator[Pair]:
        return columns(self._lines(file), file)

    def _partners(self) -> Iterator[Pair]:
        sides = [self._lines(file) for file in self.files]
        for number, (source, target) in enumerate(itertools.zip_longest(*sides), start=1):
            if source is None or target is None:
                longer = self.files[source is None]
                counts = [number - 1, number + sum(1 for side in sides for _ in side)]
                counts = counts if source is None else counts[::-1]
                problem = ", ".join(f"{count:,} in {file}" for file, count in zip(self.files, counts, strict=True))
                which = f"line {number:,} of {longer} has no partner"
                raise ValueError(f"lines: {problem}; line i of one must translate line i of the other, but {which}")
            yield normalized(source), normalized(target)

    def _lines(self, file: str | Path) -> Iterator[str]:
        opened = gzip.open if str(file).endswith(".gz") else open
        try:
            with opened(file, "rb") as content:
                yield from lines(content, file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{file} is no whole .gz file: {error}; fetch or pack it again") from error


class Sides:
    """The texts of some sides of pairs (0: source, 1: target), read anew each time."""

    def __init__(self, pairs: Iterable[Pair], *sides: int):
        self.pairs, self.sides = pairs, sides

    def __iter__(self) -> Iterator[str]:
        return (pair[side] for pair in self.pairs for side in self.sides)


class Limits(NamedTuple):
    """Pairs that cleaning leaves out.

    A side has more than max_length characters, or the ratio of the two lengths is max_ratio times as large or small as
    the median of the corpus: a Chinese sentence has a third of the characters of its English translation.
    """

    max_length: int
    max_ratio: float

    def faults(self, sources: Sequence[int], targets: Sequence[int]) -> list[str]:
        """Why each pair of sides with so many characters is left out; "" if it is not."""
        source, target = np.array(sources), np.array(targets)
        whole = (source > 0) & (target > 0)
        usual = float(np.median(target[whole] / source[whole])) if whole.any() else 1.0
        return [_fault(source, target, self, usual) for source, target in zip(sources, targets, strict=True)]


class Corpus:
    """The training pairs that are used, in order, and the held-out ones.

    Args:
        pairs: for training; they can be read again and again.
        held_out: for validation. None: up to MOST_HELD_OUT of the pairs, one in SHARE, drawn with SPLIT_SEED.
        limits: of cleaning; None: none. Without it too, no drawn validation pair is one of the training pairs.
        shown: gives the same pairs and shows how many of them were read.

    Raises:
        ValueError: too few pairs, or what reading the pairs raises.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        held_out: Iterable[Pair] | None,
        limits: Limits | None = None,
        shown: Callable[[Iterable[Pair]], Iterable[Pair]] = iter,
    ):
        pairs, held_out = _normalized(pairs), None if held_out is None else _normalized(held_out)
        self._pairs, sha256, hashes, lengths = pairs, hashlib.sha256(), array("q"), (array("i"), array("i"))
        for source, target in shown(pairs):
            sha256.update(f"{source}\t{target}\n".encode())
            hashes.append(hash((source, target)))
            lengths[0].append(len(source))
            lengths[1].append(len(target))
        # Why a pair is not used; "" if it is.
        faults = limits.faults(*lengths) if limits else [""] * len(hashes)
        if limits:
            first = np.unique(hashes, return_index=True)[1]
            for i in np.delete(np.arange(len(faults)), first).tolist():
                faults[i] = faults[i] or "seen before"
        if held_out is None:
            left = [i for i, fault in enumerate(faults) if not fault]
            drawn = set(random.Random(SPLIT_SEED).sample(left, min(MOST_HELD_OUT, -(-len(left) // SHARE))))
            self.held_out = [pair for i, pair in enumerate(shown(pairs)) if i in drawn]
            for i in drawn:
                faults[i] = "held out"
        else:
            self.held_out = list(held_out)
            sha256.update("".join(f"{source}\t{target}\n" for source, target in self.held_out).encode())
        self.half_shared = 0  # training pairs of which one side is held out, with another partner
        if limits or held_out is None:
            self.half_shared = _leave_out_shared(shown(pairs), self.held_out, faults)
        self.dropped = Counter(fault for fault in faults if fault)
        # Held-out pairs that are trained on as well: none where those were left out.
        known = [] if limits or held_out is None else [hash(pair) for pair in self.held_out]
        self.shared = int(np.isin(known, hashes).sum())
        self.digest = sha256.hexdigest()  # of what was read
        self._used = bytearray(not fault for fault in faults)
        if not self.held_out or not sum(self._used):
            problem = f"{len(faults)} pairs, of which {sum(self._used)} to train on and {len(self.held_out)} held out"
            name = _name(pairs if held_out is None or self.held_out else held_out)
            raise ValueError(
                f"{name}: {problem}{self.report()}; give more pairs, or name held-out ones with --validation"
            )

    def __len__(self) -> int:
        return sum(self._used)

    def __iter__(self) -> Iterator[Pair]:
        return itertools.compress(self._pairs, self._used)

    def report(self) -> str:
        """What was left out, by reason, and what was half shared: "; left out: 3 empty, 1 too long"; or nothing."""
        counted = ", ".join(f"{count:,} {why}" for why, count in self.dropped.most_common())
        half = f"; one side of {self.half_shared:,} pairs is held out with another partner" if self.half_shared else ""
        return (f"; left out: {counted}" if counted else "") + half


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


def _normalized(pairs: Iterable[Pair]) -> Iterable[Pair]:
    normal = isinstance(pairs, TextPairs)
    return pairs if normal else [(normalized(source), normalized(target)) for source, target in pairs]


def _name(pairs: object) -> str:
    return str(pairs) if isinstance(pairs, TextPairs) else "the corpus"


def _fault(source: int, target: int, limits: Limits, usual: float) -> str:
    if not source or not target:
        return "empty"
    if max(source, target) > limits.max_length:
        return "too long"
    ratio = target / source / usual
    unequal = max(ratio, 1 / ratio) > limits.max_ratio
    return "of unequal lengths" if unequal else ""


def _leave_out_shared(pairs: Iterable[Pair], held_out: Iterable[Pair], faults: list[str]) -> int:
    """Mark the pairs of which both sides are also held out, and count those of which one is."""
    known, half = [{letters(pair[side]) for pair in held_out} for side in (0, 1)], 0
    for i, (pair, fault) in enumerate(zip(pairs, faults, strict=True)):
        if not fault:
            shared = sum(letters(pair[side]) in known[side] for side in (0, 1))
            faults[i] = "shared with held-out pairs" if shared == 2 else ""
            half += shared == 1
    return half
