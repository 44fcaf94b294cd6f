"""Faults of one line that the tests must catch, every one: the list is defects.toml."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple


class Defect(NamedTuple):
    """One mistake, and the test that is expected to notice it."""

    name: str
    file: str = ""  # such as transformer_lib/masks.py
    right: str = ""
    wrong: str = ""
    caught_by: str = ""  # below tests, as in paper/test_masks.py::test_causal_mask_equals_the_loops
    model: Mapping[str, Any] = MappingProxyType({})
    runs: bool = True


def listed(path: Path) -> list[Defect]:
    """All that a file of them holds."""
    files = tomllib.loads(path.read_text("utf-8"))
    return [Defect(name, file, **about) for file, found in files.items() for name, about in found.items()]


DEFECTS = listed(Path(__file__).with_suffix(".toml"))
