"""The languages that the endings of files name, as in train.de train.en."""

import re
from collections.abc import Container, Sequence
from pathlib import Path

CODE = re.compile(r"[a-z]{2}([-_]([a-z]{2}|[a-z]{4}|\d{3}))*", re.IGNORECASE)  # with a region or a script: pt_BR


def named_language(file: str | Path, known: Container[str] = ()) -> str:
    """What a file's ending names: a code of two letters, as it stands or with a region, or one of `known`; else ""."""
    ending = Path(str(file).removesuffix(".gz")).suffix.removeprefix(".")
    return ending if ending in known or CODE.fullmatch(ending) else ""


def check_languages(files: Sequence[str | Path], source: str, target: str) -> None:
    """Raise ValueError for two files whose endings name other languages, or these two in the other order.

    A table in one file says nothing, nor does an ending that names no language, or a code beside a name such as German.
    """
    if len(files) != 2:
        return
    for file, own, other in zip(files, (source, target), (target, source), strict=True):
        said = named_language(file, (source, target))
        if said.lower() != own.lower() and (said == other or _are_two(said, own)):
            remedy = f"name the file of {source} first, then that of {target}; or give the file another ending"
            raise ValueError(f"{file} ends in {said}, and stands for {own} ({source} to {target}): {remedy}")


def _are_two(said: str, own: str) -> bool:
    """Whether two codes are of two languages; regions of one language are one."""
    codes = [re.split("[-_]", code.lower())[0] for code in (said, own) if CODE.fullmatch(code)]
    return len(codes) == 2 and codes[0] != codes[1]
