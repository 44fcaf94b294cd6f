"""Text files as people have them: packed or not, in two files or in a table, and what else is named."""

import gzip
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from command_line import two_files, written

from transformer_lib.data.text_files import TextPairs, file_lines, read_numbers, read_tensor

PAIRS = [("un chien", "pes"), ("deux chiens", "dva psi"), ("été", "léto")]


def test_plain_packed_and_tab_separated_files_give_the_same_pairs(tmp_path):
    plain = two_files(tmp_path, PAIRS)
    packed = two_files(tmp_path, PAIRS, ("a.gz", "b.gz"))
    mixed = [written(tmp_path, "a.txt", [s for s, _ in PAIRS], "\r\n", "utf-8-sig"), plain[1]]
    (tmp_path / "a.fr").write_bytes(packed[0].read_bytes())  # whatever its name
    columns = [written(tmp_path, name, [f" {s}\t{t} " for s, t in PAIRS]) for name in ("c.tsv", "c.tsv.gz")]
    for files in (plain, packed, mixed, [tmp_path / "a.fr", plain[1]], columns[:1], columns[1:]):
        pairs = TextPairs(files)
        assert list(pairs) == PAIRS
        assert list(pairs) == PAIRS  # read anew
    plain[1].write_text(plain[1].read_text("utf-8").removesuffix("\n"), "utf-8")
    assert list(TextPairs(plain)) == PAIRS


def test_only_a_line_feed_ends_a_line(tmp_path):
    pairs = [("un\u2028deux\x85trois\rquatre", "jeden"), ("cinq", "pět")]
    assert list(TextPairs(two_files(tmp_path, pairs))) == [("un deux trois quatre", "jeden"), pairs[1]]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\nc\n", b"x\n", "line 2 of .*a.fr"),
        (b"a\n", b"x\ny\nz", "line 2 of .*b.cs"),
        (b"a\n\nc\n", b"x\ny\nz\n", "a.fr, line 2"),
        (b"a\nb\n", b"x\n \t \n", "b.cs, line 2"),
        (b"\xef\xbb\xbfab\xff\n", b"x\n", "a.fr, line 1, byte 6"),
        (b"a\nb \xe9t\xe9\n", b"x\ny\n", "a.fr, line 2, byte 3"),
        ("a\nb\n".encode("utf-16"), b"x\ny\n", "a.fr.* UTF-16"),
        ("\ufeffa\n".encode("utf-16-be"), b"x\n", "a.fr.* UTF-16"),
        ("a\nb\n".encode("utf-16-le"), b"x\ny\n", "a.fr, line 1.*UTF-16LE"),
        (b"a\nb\0\n", b"x\ny\n", "a.fr, line 2.* tr "),
        (b"a\n", b"PK\x03\x04...", "b.cs.* zip"),
        (b"\xfd7zXZ\x00\x00", b"x\n", "a.fr.* xz"),
        (b"BZh91AY&SY", b"x\n", "a.fr.* bzip2"),
        (b"\x28\xb5\x2f\xfd\x04", b"x\n", "a.fr.* zstd"),
        (b"a\n", b"%PDF-1.7\n", "b.cs.* PDF"),
        (b'<?xml version="1.0"?>\n', b"x\n", "a.fr.* XML"),
        *((start + b'tmx version="1.4">\n', None, "a.fr.* XML") for start in (b"<", b"\xef\xbb\xbf<", b"\n \r\n<")),
        (b"\xef\xbb\xbf\n<?xml?>\n", b"x\n", "a.fr.* XML"),
        (b"<xliff>\n", b"x\n", "a.fr.* XML"),
        (b"a\n", b"<!DOCTYPE html>\n", "b.cs.* HTML"),
        (b"{\\rtf1\\ansi\n", b"x\n", "a.fr.* RTF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", b"x\n", "a.fr.* Word"),
        (b'<srcset setid="newstest2013">\n', b'<refset setid="newstest2013">\n', "a.fr.* SGML"),
        (b"version https://git-lfs.github.com/spec/v1\n", b"x\n", "a.fr.* LFS"),
        (b"a\rb\r", b"x\ny\n", "a.fr.*CR"),
        (b"a\nb\n", b"x\ry", "b.cs.*CR"),
        (b"a\tx\n\nc\td\n", None, "a.fr, line 2"),  # one file with both sides
        (b"a\tx\nb\n", None, "a.fr, line 2.* tab"),
        (b"a\tx\tby Ann\n", None, "a.fr, line 1.* cut -f 1,2 "),
        (b"1276\tLos!\t1277\tGo!\n", None, "a.fr, line 1.* 2, 4: cut -f 2,4 "),
        (b"0.98\tLos!\tGo!\n", None, "a.fr, line 1.* cut -f 2,3 "),
        (b"1\tLos!\t0.5\n", None, "a.fr, line 1.* text: 2; a pair needs two"),
        (b"Los, geht!\n", None, "a.fr, line 1 .*both sides"),
        (b"Los!,Go!\n", None, "a.fr, line 1 .*commas"),
        (b'"Los, geht!";"Go, go!"\n', None, "a.fr, line 1 .*semicolons"),
        (b'{"de": "Los!", "en": "Go!"}\n', None, "a.fr, line 1 is JSON"),
        (b"[\n", None, "a.fr, line 1 is JSON"),
        (b"source\ttarget\na\tx\n", None, "a.fr, line 1 .*titles"),
        (b"German\tEnglish\na\tx\n", None, "a.fr, line 1 .*titles"),
        (b"sentence_de\tsentence_en\na\tx\n", None, "a.fr, line 1 .*titles"),
        (b"Source text\na\n", b"Translation\nx\n", "b.cs, line 1 .*titles"),
        (b"a\tx\nb\t\n", None, "a.fr, line 2, target"),
        (b"\tx\n", None, "a.fr, line 1, source"),
    ],
)
def test_an_error_is_named_with_its_line_and_a_remedy(tmp_path, source, target, message):
    files = {tmp_path / name: content for name, content in (("a.fr", source), ("b.cs", target)) if content is not None}
    for file, content in files.items():
        file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(TextPairs([*files]))


def test_damaged_packed_files_are_named(tmp_path):
    whole = gzip.compress(b"a\tb\n" * 999)
    for content in (whole[:-9], b"a\nb\n", whole[:12] + b"\xff\xff" + whole[14:]):
        (tmp_path / "a.gz").write_bytes(content)
        with pytest.raises(ValueError, match="a.gz"):
            list(TextPairs([tmp_path / "a.gz"]))


def test_the_quotes_of_a_spreadsheet_are_undone(tmp_path):
    cells = ['"Er sagte: ""Er liest."""', "Los!", '"Ja, gern."', '""""']
    sides = ['Er sagte: "Er liest."', "Los!", "Ja, gern.", '"']
    table = written(tmp_path, "x.tsv", [f"{cell}\tx" for cell in cells] + ['x\t"""Go,"" he said."'])
    assert list(TextPairs([table])) == [*((side, "x") for side in sides), ("x", '"Go," he said.')]
    one_each = [written(tmp_path, "x.de", cells), written(tmp_path, "x.en", "abcd")]
    assert list(TextPairs(one_each)) == list(zip(sides, "abcd", strict=True))


@pytest.mark.parametrize("other", ['"Los", sagte er.', 'Er sagte "ja".', '12" breit'])
def test_quotes_of_the_text_itself_stay(tmp_path, other):
    cells = ['"Ja."', other, '"a ""b"" c"']
    table = written(tmp_path, "x.tsv", [f"{cell}\tx" for cell in cells])
    assert [source for source, _ in TextPairs([table])] == cells
    assert list(TextPairs([written(tmp_path, "y.tsv", ['"Ja."\t"Yes."'])])) == [('"Ja."', '"Yes."')]


@pytest.mark.parametrize("pair", [("German", "Deutsch"), ("Quelle", "source"), ("English is easy.", "German too.")])
def test_a_first_pair_of_words_is_no_title(tmp_path, pair):
    pairs = [pair, ("source", "target")]
    assert list(TextPairs([written(tmp_path, "x.tsv", map("\t".join, pairs))])) == pairs


def test_what_is_not_utf_8_is_replaced_where_one_may_go_on(tmp_path):
    (tmp_path / "x").write_bytes(b"a\nb \xe9\n")
    with pytest.warns(UserWarning, match="line 2, byte 3"):
        assert list(file_lines(tmp_path / "x", strict=False)) == ["a", "b \ufffd"]


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        (5, [5]),
        ("655,360 ", [655.36]),
        (["1,000", 0.5, "17,541"], [1, 0.5, 17.541]),
        ("1,234,567", [1234567]),
        (["1,234.5", "17,541"], [1234.5, 17541]),
        ("36,8 %", [0.368]),
        (["25 cells", "1,39 nats", "1e5 Steps"], [25, 1.39, 1e5]),
        (["12 Einträge", "39 Stück", "3 ÉTAPES", "12 Wörter."], [12, 39, 3, 12]),
        ("655360.0", [655360]),
        (" −0,58 ", [-0.58]),
        ("1,234,567.5", [1234567.5]),
        (["0,902", "1,109"], [0.902, 1.109]),  # one comma for decimals: all
        (torch.tensor([1.0, 2.0], requires_grad=True), [1, 2]),
        (np.float32(2), [2]),
        ({"a": Fraction(1, 2)}.values(), [0.5]),
        (["71 percent", "71 per cent", "70.5 %", "20 Prozent"], [0.71, 0.71, 0.705, 0.2]),
        (["≈ 16", "~0.3", "16 ×", "16x", "16 times", "12 entries."], [16, 0.3, 16, 16, 16, 12]),
        (["18'874'368", "1’000"], [18874368, 1000]),
        (["18.874.368", "-1.234.567,5", "16.000"], [18874368, -1234567.5, 16]),  # one point is one for decimals
        (["451/500", "-1 / 8"], [0.902, -0.125]),
        (np.ones((1, 4)), [1, 1, 1, 1]),
        (((512, "512"), [655360]), [512, 512, 655360]),
    ],
)
def test_numbers_are_read_as_people_write_them(answer: Any, numbers: list[float]) -> None:
    assert read_numbers(answer) == numbers


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("655,360", [655360]),
        (["512", "655,360"], [512, 655360]),
        (["2529,7", "1,001"], [2529.7, 1.001]),  # one comma for decimals: all
        (["2,530", 1000.96], [2530, 1000.96]),
    ],
)
def test_where_thousands_are_asked_for_a_comma_groups_them(answer: Any, numbers: list[float]) -> None:
    assert read_numbers(answer, thousands=True) == numbers


def test_the_unit_that_is_asked_for_may_stand_there() -> None:
    assert read_numbers(["441.3 MB", "10,240 megabytes"], 2, thousands=True, unit="MB|megabytes") == [441.3, 10240]
    with pytest.raises(ValueError, match="'63 MB'"):
        read_numbers("63 MB", 1, unit="B|bytes")


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(ValueError, match="'25 or 5'"):
        read_numbers(["25 or 5", 5])


@pytest.mark.parametrize(
    ("answer", "count", "reason"),
    [
        ("16y", 1, "one number is asked for: '16y' is no number; write digits alone"),
        ([1, "y"], 3, "3 numbers are asked for: 'y' is no number"),
        ([1, 2], 1, "one number is asked for, not 2"),
        ([], 2, "2 numbers are asked for, not 0"),
    ],
)
def test_what_was_asked_for_is_said_with_the_reason(answer: Any, count: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_numbers(answer, count)


@pytest.mark.parametrize(
    "answer",
    [
        "eleven",
        "2 million",
        "3 thirds",
        "80 bits",
        "63 MB",
        "39 156",
        "39'15",
        "18.874.36",
        "1.234.567.89",
        "2 Milliarden",
        "2 Tausend",
        "1/0",
        "1/",
        "1/2/3",
        "",
        None,
        [None],
        {1: 2},
        {1, 2},
        math.nan,
        "inf",
        [[None]],
    ],
)
def test_what_holds_no_numbers_in_order_is_an_error(answer: Any) -> None:
    with pytest.raises(ValueError, match="no number"):
        read_numbers(answer)


def test_a_tensor_is_read_from_rows_of_any_kind_and_its_gradient_stays():
    one = torch.tensor([1.0, 2.0], requires_grad=True)
    for answer in ([one, [3, 4]], ((1.0, 2), np.array([3.0, 4])), [[one[0], 2.0], one + 2], iter([one, one + 2])):
        assert read_tensor(answer).tolist() == [[1, 2], [3, 4]]
    assert read_tensor([one, one]).requires_grad
    assert [read_tensor(answer).shape for answer in ([], [[], []], 1.5)] == [(0,), (2, 0), ()]


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ([torch.ones(2), torch.ones(3)], r"\(2,\), \(3,\)"),
        ([[1, 2], 3], r"\(2,\), \(\)"),
        ("abc", "'abc'"),
        ([1, None], "None"),
        ({1: 2}, "{1: 2}"),
        (print, "print"),
    ],
)
def test_what_is_no_tensor_is_named(answer, word):
    with pytest.raises(ValueError, match=word):
        read_tensor(answer)
