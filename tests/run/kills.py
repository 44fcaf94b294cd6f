"""A process that is killed while it writes: before its first file operation, its second, its third ..."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from transformer_run import checkpoints

OPERATIONS = {
    Path: ("mkdir", "chmod", "replace", "write_text", "unlink"),
    os: ("fsync", "open"),
    shutil: ("rmtree",),
    checkpoints: ("save_file",),
}


class Killed(BaseException):
    """Stands for a kill: nothing in the library handles it, and a killed process tidies nothing."""


def kills(monkeypatch, prepare, write):
    """Prepare and write again and again, each time killed one operation later; gives whether the writing got through.

    Ends with the first that does.
    """
    left = 0  # operations before the kill

    def dying(real):
        def operation(*arguments, **options):
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return real(*arguments, **options)

        return operation

    for tried in range(100):
        prepare()
        left = tried
        with monkeypatch.context() as patch:
            for owner, names in OPERATIONS.items():
                for name in names:
                    patch.setattr(owner, name, dying(getattr(owner, name)))
            with suppress(Killed):
                write()
        yield left >= 0
        if left >= 0:
            assert tried >= 10  # rmtree, two mkdir, save_file, chmod, two open with fsync, replace, rmtree
            return
    raise AssertionError("the writing never gets through")
