"""A corpus of one's own, in any two languages: its pairs cleaned, and some of them held out."""

import hashlib
import html
import itertools
import random
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from transformer_lib.data.normalization import letters, normalized
from transformer_lib.data.text_files import Pair, TextPairs, is_number

MOST_HELD_OUT, SHARE, SPLIT_SEED = 1000, 20, 0  # pairs held out for validation: at most so many, and one of so many
TAG = re.compile(r"<(\w+)[^<>]*>([^<>]*)</\1>")  # around a whole text
REFERENCE = re.compile(r"&(?:\w+|#\d+|#[xX][0-9a-fA-F]+);")
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]")  # Thai to Khmer, Japanese, Chinese


class Sides:
    """The texts of some sides of pairs (0: source, 1: target), read anew each time."""

    def __init__(self, pairs: Iterable[Pair], *sides: int):
        self.pairs, self.sides = pairs, sides

    def __iter__(self) -> Iterator[str]:
        return (pair[side] for pair in self.pairs for side in self.sides)


class Mended:
    """Pairs without what other formats left in them, read anew each time.

    One tag around a text goes, as in `<seg id="1">It&#39;s late.</seg>`. Character references become characters.
    """

    def __init__(self, pairs: Iterable[Pair]):
        self.pairs = pairs
        self.counts = Counter[str]()  # of the pairs that were read last, by what was mended

    def __iter__(self) -> Iterator[Pair]:
        self.counts.clear()
        for pair in self.pairs:
            bare = [tagged[2] if (tagged := TAG.fullmatch(side)) else side for side in pair]
            source, target = (REFERENCE.sub(lambda found: html.unescape(found[0]), side) for side in bare)
            self.counts["within a tag"] += bare != [*pair]
            self.counts["with character references"] += bare != [source, target]
            yield normalized(source), normalized(target)


class Limits(NamedTuple):
    """Pairs that cleaning leaves out.

    A side has more than max_length characters, or the ratio of the two lengths is max_ratio times as large or small as
    the median of the corpus: a Chinese sentence has a third of the characters of its English translation.
    """

    max_length: int
    max_ratio: float

    def faults(self, read: "Read") -> list[str]:
        """Why each of the pairs that were read is left out; "" if it is not."""
        source, target = np.array(read.sources), np.array(read.targets)
        whole = (source > 0) & (target > 0)
        usual = float(np.median(target[whole] / source[whole])) if whole.any() else 1.0
        faults = [
            _fault(source, target, self, usual) for source, target in zip(read.sources, read.targets, strict=True)
        ]
        for i in read.untranslated:
            faults[i] = "untranslated"
        first = np.unique(read.hashes, return_index=True)[1]
        for i in np.delete(np.arange(len(faults)), first).tolist():
            faults[i] = faults[i] or "seen before"
        return faults


class Read:
    """What one reading of the pairs keeps of them."""

    def __init__(self, pairs: Iterable[Pair]):
        self.sha256, self.hashes = hashlib.sha256(), array("q")
        self.sources, self.targets = array("i"), array("i")  # characters of each side
        self.untranslated: list[int] = []  # the places of pairs that are one text of some words
        self.numbers = {"source": True, "target": True}  # whether each side is a number in every pair
        for i, (source, target) in enumerate(pairs):
            self.sha256.update(f"{source}\t{target}\n".encode())
            self.hashes.append(hash((source, target)))
            self.sources.append(len(source))
            self.targets.append(len(target))
            if source == target and _words(source) > 2:
                self.untranslated.append(i)
            for name, side in (("source", source), ("target", target)):
                self.numbers[name] = self.numbers[name] and is_number(side)


class Corpus:
    """The training pairs that are used, in order, and the held-out ones.

    Args:
        pairs: for training; they can be read again and again.
        held_out: for validation. None: up to MOST_HELD_OUT of the pairs, one in SHARE, drawn with SPLIT_SEED.
        limits: of cleaning both; None: none. Without it too, no drawn validation pair is one of the training pairs.
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
        name, pairs = pairs, _normalized(pairs)
        self._pairs = pairs = Mended(pairs) if limits else pairs
        read = Read(shown(pairs))
        self.mended = Counter(pairs.counts) if isinstance(pairs, Mended) else Counter[str]()
        self.numbers = [side for side, are_numbers in read.numbers.items() if are_numbers]
        faults = limits.faults(read) if limits else [""] * len(read.hashes)  # why a pair is not used; "" if it is
        self.drawn = held_out is None
        if held_out is None:
            left = [i for i, fault in enumerate(faults) if not fault]
            drawn = set(random.Random(SPLIT_SEED).sample(left, min(MOST_HELD_OUT, -(-len(left) // SHARE))))
            self.held_out = [pair for i, pair in enumerate(shown(pairs)) if i in drawn]
            for i in drawn:
                faults[i] = "held out"
        else:
            self.held_out = list(Mended(_normalized(held_out)) if limits else _normalized(held_out))
            read.sha256.update("".join(f"{source}\t{target}\n" for source, target in self.held_out).encode())
            name = name if self.held_out else held_out
        self.half_shared = 0  # training pairs of which one side is held out, with another partner
        if limits or held_out is None:
            self.half_shared = _leave_out_shared(shown(pairs), self.held_out, faults)
        self.dropped = Counter(fault for fault in faults if fault)
        # Held-out pairs that are trained on as well: none where those were left out.
        known = [] if limits or held_out is None else [hash(pair) for pair in self.held_out]
        self.shared = int(np.isin(known, read.hashes).sum())
        self.digest = read.sha256.hexdigest()  # of what was read
        self._used = bytearray(not fault for fault in faults)
        if not self.held_out or not sum(self._used):
            problem = f"{len(faults)} pairs, of which {sum(self._used)} to train on and {len(self.held_out)} held out"
            remedy = "give more pairs, or name held-out ones with --validation"
            raise ValueError(f"{_name(name)}: {problem}{self.report()}; {remedy}")

    def __len__(self) -> int:
        return sum(self._used)

    def __iter__(self) -> Iterator[Pair]:
        return itertools.compress(self._pairs, self._used)

    def described(self) -> Iterator[str]:
        """How many pairs there are, what was left out, and what is both trained and judged on."""
        drawn = f" (one in {SHARE}, at most {MOST_HELD_OUT:,}, drawn with seed {SPLIT_SEED})" if self.drawn else ""
        yield f"{len(self):,} pairs to train on, {len(self.held_out):,} for validation{self.report()}{drawn}"
        if self.shared:
            shared = f"{self.shared:,} of the validation pairs are also trained on"
            yield f"{shared}, and are no test of what was learned; add --clean to leave them out of training"

    def report(self) -> str:
        """What was left out, by reason, mended and half shared: "; left out: 3 empty, 1 too long"; or nothing."""
        said = "".join(f"; every {side} is a number" for side in self.numbers)
        for what, counts in (("left out", self.dropped), ("mended", self.mended)):
            if counted := ", ".join(f"{count:,} {why}" for why, count in counts.most_common() if count):
                said += f"; {what}: {counted}"
        half = f"; one side of {self.half_shared:,} pairs is held out with another partner" if self.half_shared else ""
        return said + half


def _normalized(pairs: Iterable[Pair]) -> Iterable[Pair]:
    normal = isinstance(pairs, TextPairs)
    return pairs if normal else [(normalized(source), normalized(target)) for source, target in pairs]


def _name(pairs: object) -> str:
    return str(pairs) if isinstance(pairs, TextPairs) else "the corpus"


def _words(text: str) -> int:
    """Its words, where three signs of a script without spaces count as a word more."""
    return len(text.split()) + len(UNSPACED.findall(text)) // 3


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
