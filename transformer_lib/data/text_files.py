"""Text files as people have them: their lines, the columns of a table, and the pairs of two files or of one table."""

import functools
import gzip
import itertools
import math
import re
import reprlib
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .normalization import normalized

Pair = tuple[str, str]
GZIP, HEAD = b"\x1f\x8b", 512  # how a packed file begins; so many bytes are looked at before the first line
XML = "is XML, SGML or HTML; write the text of its segments into a text file, one a line"
OTHER_FORMATS = {  # by the first bytes, after a byte order mark and white space
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "is UTF-16; convert the file: iconv -f UTF-16 -t UTF-8"),
    b"PK\x03\x04": "is a zip archive, or a document of Word or Excel; unpack the one, save the other as plain text",
    b"\xd0\xcf\x11\xe0": "is a document of Word or Excel; save it as plain text",
    b"{\\rtf": "is a document in RTF; save it as plain text",
    b"\xfd7zXZ": "is packed by xz; unpack it: xz -d",
    b"BZh": "is packed by bzip2; unpack it: bzip2 -d",
    b"\x28\xb5\x2f\xfd": "is packed by zstd; unpack it: zstd -d",
    b"%PDF-": "is a PDF; write its sentences into a text file",
    **dict.fromkeys((b"<?xml", b"<tmx", b"<xliff", b"<!DOCTYPE", b"<html", b"<srcset", b"<refset"), XML),
    b"version https://git-lfs": "is a pointer of Git LFS; fetch the file: git lfs pull",
}
QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a cell that holds a quote, as a spreadsheet writes it
JSON = re.compile(r'\s*(\{|\[\s*(["{[]|$))')
COMMAS = re.compile(r'[^\s\d][,;][^\s\d]|"[,;]"')  # no space follows: no comma of a sentence
# A word after a number that leaves it what it is: 25 cells, but neither 2 million nor, where bytes are asked for, bits.
NO_UNIT = r"(ten|hundred|thousand|dozen|half|third|quarter|percent|plus|minus|squared|cubed)s?$"
UNIT = rf"(?<=\d)\s*(×|x|(?!{NO_UNIT}|\w*(illi(on|ard)|tausend|bit|byte))[a-zß-öø-\u024f]{{3,}}\.?)$"
# How people write what Python reads in one way; what groups by three is an apostrophe or, twice or more, a point.
GROUPS = r"(?<=\d)['’](?=\d{3}(\D|$))|(?<=\d)\.(?=\d{3}\.\d{3})|(?<=\.\d{3})\.(?=\d{3}(?!\d|\.\d))"
WRITTEN = {"−": "-", r"^[≈~=]\s*": "", GROUPS: "", r"\s*(per ?cent|prozent)$": "%", UNIT: ""}
# What stands above the columns of a table, by language: a pair of two names of one language is a pair of words.
TITLES = """
    ar arabic, cs czech čeština, da danish dansk, de german deutsch, el greek, en english englisch anglais inglés, es
    spanish español, fi finnish suomi, fr french français, hi hindi, hu hungarian magyar, id indonesian, it italian
    italiano, ja japanese 日本語, ko korean 한국어, nl dutch nederlands, no norwegian norsk, pl polish polski, pt
    portuguese português, ro romanian română, ru russian русский, sv swedish svenska, tr turkish türkçe, uk ukrainian
    українська, vi vietnamese, zh chinese 中文, source src, target tgt trg, sentence text segment, translation
"""
KINDS = {name: kind for kind, names in enumerate(TITLES.split(",")) for name in names.split()}


def lines(stream: Any, name: str | Path, strict: bool = True) -> Iterator[str]:
    """The lines of a UTF-8 text, packed by gzip or not. Only a line feed ends one: str.splitlines cuts inside, too.

    Args:
        stream: bytes, with `peek`: an open file, sys.stdin.buffer, a member of a zip archive.
        strict: raise for a line that is not UTF-8; else warn of it, and U+FFFD stands for what cannot be read.

    Raises:
        ValueError: another format or encoding, a damaged .gz, or line ends of CR alone; the message names the line.
    """
    try:
        content = gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == GZIP else stream
        if found := _other_format(content.peek(HEAD)):
            raise ValueError(f"{name} {found}")
        for number, line in enumerate(content, start=1):
            yield _text(line, number, name, strict).rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name} is no whole .gz file: {error}; fetch or pack it again") from error


def file_lines(path: str | Path, strict: bool = True) -> Iterator[str]:
    """The lines of a file, as `lines` has them."""
    with Path(path).open("rb") as stream:
        yield from lines(stream, path, strict)


def _other_format(head: bytes) -> str:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    found = (problem for mark, problem in OTHER_FORMATS.items() if text.startswith(mark))
    return next(found, "is a tar archive; unpack it: tar -x" if head[257:262] == b"ustar" else "")


def _text(line: bytes, number: int, name: str | Path, strict: bool) -> str:
    if number == 1 and b"\r" in line.rstrip(b"\r") and not line.endswith(b"\n"):
        raise ValueError(f"{name} has no line feed, and CR ends its lines; convert it: tr '\\r' '\\n' < in > out")
    if b"\0" in line:
        halves = {"UTF-16LE": line[1::2], "UTF-16BE": line[::2]}
        wide = [form for form, half in halves.items() if number == 1 and 2 * half.count(0) > len(half)]
        remedy = f"convert a file of {wide[0]}: iconv -f {wide[0]} -t UTF-8" if wide else "delete it: tr -d '\\000'"
        raise ValueError(f"{name}, line {number} has a zero byte; {remedy} < in > out")
    encoding = "utf-8-sig" if number == 1 else "utf-8"
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        start = error.start + len(line) - len(error.object)  # the mark at the beginning of a file counts, too
        problem = f"{name}, line {number}, byte {start + 1}: {line[start]:#04x} is not UTF-8"
        if strict:
            raise ValueError(f"{problem}; convert the file, as with iconv -f WINDOWS-1252 -t UTF-8") from None
        warnings.warn(f"{problem}; unreadable bytes are replaced", stacklevel=2)
        return line.decode(encoding, errors="replace")


def columns(texts: Iterable[str], name: str | Path) -> Iterator[Pair]:
    """The two sides of each line, normalized; both are empty where it is blank.

    Raises:
        ValueError: another line without one tab.
    """
    for number, line in enumerate(texts, start=1):
        sides = line.split("\t") if normalized(line) else ["", ""]
        if len(sides) != 2:
            raise ValueError(f"{name}, line {number} {_no_pair(line, sides)}")
        yield normalized(sides[0]), normalized(sides[1])


def _no_pair(line: str, cells: list[str]) -> str:
    """What a line is that has not one tab, and what to do about it."""
    if len(cells) > 2:
        chosen = [str(i) for i, cell in enumerate(cells, start=1) if cell.strip() and not is_number(cell)]
        remedy = f": cut -f {','.join(chosen[:2])} < in > out takes two" if chosen[1:] else "; a pair needs two"
        return f"has {len(cells) - 1} tabs, not one; columns with text: {', '.join(chosen) or 'none'}{remedy}"
    if JSON.match(line):
        return "is JSON; write two texts a line, with a tab between, as with jq -r '[.de, .en] | @tsv'"
    if COMMAS.search(line):
        return "has commas or semicolons between its columns; save the table with tabs between them"
    return "has no tab between source and target: one side alone; name the files of both sides, or add the other side"


def is_number(text: str) -> bool:
    """Whether the text is a number, as an id or a score is."""
    return bool(re.fullmatch(r"\s*[+-]?[.,]?\d[\d.,]*(e[+-]?\d+)?\s*", text, re.IGNORECASE))


def read_numbers(answer: Any, count: int | None = None, thousands: bool = False, unit: str = "") -> list[float]:
    """The finite numbers of a list, an array or one alone, also as text: 655,360, −0,58, 25 cells; 36.8 % is 0.368.

    Args:
        count: how many are asked for; None: any number of them.
        thousands: whether numbers of a thousand and more are asked for: 17,541 is one then, and else 17.541.
        unit: that which is asked for, where others would change the number, as in "MB|megabytes".

    Raises:
        ValueError: something in it is no number, or there are more or fewer; the message says what is asked for.
    """
    parts = [_as_python_reads(one, unit) if isinstance(one, str) else one for one in _leaves(answer)]
    commas = [one for one in parts if isinstance(one, str) and "," in one]  # all for thousands or for decimals
    can_group = all(re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*%?", one) for one in commas)
    is_grouped = can_group and (thousands or any(re.search(",.*[,.]", one) for one in commas))
    asked = {None: "", 1: "one number is asked for"}.get(count, f"{count} numbers are asked for")
    numbers = [_number(one, "" if is_grouped else ".", asked) for one in parts]
    if count not in (None, len(numbers)):
        raise ValueError(f"{asked}, not {len(numbers)}")
    return numbers


def read_tensor(answer: Any) -> torch.Tensor:
    """One tensor of an answer: an array, a number, or rows of equal shapes in a list; of no rows the shape is (0,).

    Raises:
        ValueError: rows of different shapes, or something else; the message says what was given and what is wanted.
    """
    is_list = isinstance(answer, Iterable) and not isinstance(answer, str | dict | set) and not hasattr(answer, "shape")
    rows = [read_tensor(row) for row in answer] if is_list else []
    if len(shapes := dict.fromkeys(tuple(row.shape) for row in rows)) > 1:
        raise ValueError(f"its rows have the shapes {', '.join(map(str, shapes))}; give rows of one shape")
    try:
        return torch.stack(rows) if rows else torch.as_tensor(answer)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{reprlib.repr(answer)} is no tensor; give a tensor, an array or a list of rows") from None


def _leaves(answer: Any) -> Iterator[Any]:
    """What stands in a list or an array, also in lists within it."""
    values: Any = answer.tolist() if hasattr(answer, "tolist") else answer
    if isinstance(values, str | dict | set) or not isinstance(values, Iterable):
        yield values
    else:
        for one in values:
            yield from _leaves(one)


def _as_python_reads(text: str, unit: str) -> str:
    text = re.sub(rf"(?<=\d)\s*({unit})$", "", text.strip(), flags=re.IGNORECASE)
    for pattern, other in WRITTEN.items():
        text = re.sub(pattern, other, text, flags=re.IGNORECASE)
    return text


def _number(one: Any, comma: str, asked: str) -> float:
    is_text = isinstance(one, str)
    try:
        top, slash, below = one.removesuffix("%").replace(",", comma).partition("/") if is_text else (one, "", "")
        number = float(top) / (float(below) if slash else 1)
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        number = math.nan
    if not math.isfinite(number):
        problem = f"{reprlib.repr(one)} is no number; write digits alone, such as 12 or 0.5"
        raise ValueError(f"{asked}: {problem}" if asked else problem)
    return number / 100 if is_text and one.endswith("%") else number


def _quotes_cells(texts: Iterable[str]) -> bool:
    """Whether a spreadsheet wrote the table: a cell with a quote stands in quotes, and in some they are doubled."""
    doubled = False
    for cell in (cell for line in texts if '"' in line for cell in line.split("\t") if '"' in cell):
        if not QUOTED.fullmatch(cell):
            return False
        doubled |= '""' in cell[1:-1]
    return doubled


def _without_quotes(line: str) -> str:
    cells = line.split("\t")
    return "\t".join(cell[1:-1].replace('""', '"') if QUOTED.fullmatch(cell) else cell for cell in cells)


def _are_titles(pair: Pair) -> bool:
    """Whether the two texts stand above columns, such as German and English, or source_text and target_text."""
    words = [re.findall(r"[^\W\d_]+", side.casefold()) for side in pair]
    kinds = [{KINDS.get(word) for word in side} for side in words]
    return all(kinds) and None not in kinds[0] | kinds[1] and kinds[0] != kinds[1]


@dataclass(frozen=True)
class TextPairs:
    """Normalized pairs of two text files of equal line count, or of a table with a tab between the sides; plain or .gz.

    The files are read anew each time, line by line: a corpus need not fit into memory. The quotes that a spreadsheet
    puts around cells, and doubles within them, are undone.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another number of files; while reading, also sides of different line counts, an empty side,
            another format or encoding, titles in the first line, the same text on both sides of every pair. The
            message names the file and the line.
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
        file = self.files[0]
        pairs = columns(self._lines(file), file) if len(self.files) == 1 else self._partners()
        number = differing = 0
        for number, pair in enumerate(pairs, start=1):
            if not self.empty and not all(pair):
                name = f"{self.files[0 if pair[1] else -1]}, line {number}"
                where = name if len(self.files) == 2 else f"{name}, {'target' if pair[0] else 'source'}"
                raise ValueError(f"{where} is empty; {self.remedy}")
            if number == 1 and _are_titles(pair):
                remedy = "delete the line (tail -n +2 < in > out), or move it down if it is a pair of words"
                raise ValueError(f"{self}, line 1 has the titles {pair[0]!r} and {pair[1]!r}; {remedy}")
            differing += pair[0] != pair[1]
            yield pair
        if number and not differing:
            raise ValueError(f"{self}: both sides of every pair are the same text; name the file of each language")

    @functools.cached_property
    def _quoted(self) -> dict[str | Path, bool]:
        return {file: _quotes_cells(file_lines(file)) for file in self.files}

    def _lines(self, file: str | Path) -> Iterator[str]:
        texts = file_lines(file)
        return map(_without_quotes, texts) if self._quoted[file] else texts

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
