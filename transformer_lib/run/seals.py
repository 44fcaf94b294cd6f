"""Files that appear whole or not at all, and seals that show what was altered since."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file or folder to write, in a folder of its own beside the path; then it is flushed and renamed to the path.

    Raises:
        OSError: a full disk, a folder that cannot be written; what was there before is untouched.
    """
    part = path.with_name(path.name + ".part")  # a folder: a killed save_file leaves a temporary file in it
    written = part / path.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        yield written
        if written.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # a folder takes the place of none that is filled
        else:
            written.chmod(part.stat().st_mode & 0o666)  # save_file makes files for their owner alone
        _flush(written)
        written.replace(path)
        _flush(path.parent)
    except (OSError, SafetensorError) as error:
        remedy = "make room or name another folder; what was saved before is untouched"
        raise OSError(f"{path} not written: {error}; {remedy}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_file(path: Path, content: str) -> None:
    """Write a text file whole or not at all. Raises OSError; then what was there before is untouched."""
    with whole(path) as part:
        part.write_text(content, encoding="utf-8", newline="\n")


def _flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders and keeps their names safe itself
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(tensors: Mapping[str, Tensor]) -> str:
    """One sha256 over the names, types, shapes and numbers of the tensors."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        sha256.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        sha256.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return sha256.hexdigest()


def sealed(content: Mapping[str, Any]) -> str:
    """The content as JSON with a digest of itself; the same content gives the same text."""
    form: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
    text = json.dumps(content, **form)
    return json.dumps({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}, **form)


def unsealed(text: str) -> dict[str, Any]:
    """The content of what `sealed` wrote. Raises ValueError for any other text."""
    content = parsed(text)
    content.pop("sha256", None)
    if sealed(content) != text:
        raise ValueError("the content is not what its digest says")
    return content


def parsed(text: str) -> dict[str, Any]:
    """The object that a JSON text holds. Raises ValueError if it holds anything else."""
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError(f"it should hold an object, not {content!r:.40}")
    return content


def check_regular(path: Path) -> None:
    """Raise ValueError for a folder, a FIFO or a device: reading one would fail, wait or never end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file; put one there")
