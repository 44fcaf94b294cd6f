"""Seals that show what was altered. (Files that appear whole: test_checkpoints.py.)"""

import os
import random

import pytest
import torch

from transformer_lib.weight_files import check_regular, digest, sealed, unsealed
from transformer_run.whole_files import write_file

CONTENT = {"step": 3, "rate": 1e-05, "word": 'fünf "犬"', "none": None, "list": [1, [2.5, True]]}


def test_sealed_content_comes_back():
    text = sealed(CONTENT)
    assert unsealed(text) == CONTENT
    assert sealed(CONTENT) == text


def test_any_single_altered_bit_of_the_text_is_noticed():
    text, generator = sealed(CONTENT).encode(), random.Random(0)
    for place in range(len(text)):
        altered = bytearray(text)
        altered[place] ^= 1 << generator.randrange(8)
        with pytest.raises(ValueError):  # noqa: PT011  of json's own, or of the digest
            unsealed(altered.decode("utf-8"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting"),
        ("[3]", r"\[3\]"),
        *((text, "digest") for text in ("{}", sealed(CONTENT).replace(",", ", ", 1))),
        ("[" * 200_000, "nested"),
    ],
)
def test_any_other_text_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        unsealed(text)


def test_writing_deletes_no_folder_that_it_did_not_make(tmp_path):
    mine = tmp_path / "notes.json.part" / "chapter"
    mine.parent.mkdir()
    mine.write_text("unique")
    for text in ("old", "new"):
        write_file(tmp_path / "notes.json", text)
    assert mine.read_text() == "unique"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.json", "notes.json.part"]
    assert (tmp_path / "notes.json").read_text() == "new"


def test_the_digest_is_of_names_types_shapes_and_numbers():
    tensor = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    others = [
        {"b": tensor},
        {"a": tensor, "b": tensor},
        {"a": tensor.reshape(4)},
        {"a": tensor.view(torch.int32)},
        {"a": tensor.T},
        {"a": tensor.nextafter(torch.tensor(9.0))},
        {"a": torch.empty(0)},
        {"a": torch.tensor(1.0)},
        {},
    ]
    assert len({digest(state) for state in [{"a": tensor}, *others]}) == 1 + len(others)
    assert digest({"a": tensor, "b": tensor.T}) == digest({"b": tensor.T.contiguous(), "a": tensor.clone()})


@pytest.mark.posix
def test_only_regular_files_and_links_to_them_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "other").symlink_to("fifo")
    for name in ("file", "link", "none"):
        check_regular(tmp_path / name)
    for name in (".", "fifo", "other"):
        with pytest.raises(ValueError, match="regular"):
            check_regular(tmp_path / name)
