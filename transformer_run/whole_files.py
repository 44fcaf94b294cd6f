"""Files that appear whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

PART = ".transformer_lib.part"  # the end of a name that nobody else gives to a folder: one left by a kill is deleted


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file or folder to write, in a folder of its own beside the path; then it is flushed and renamed to the path.

    Raises:
        OSError: a full disk, a folder that cannot be written; what was there before is untouched.
    """
    part = path.with_name(path.name + PART)  # a folder: a killed save_file leaves a temporary file in it
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
