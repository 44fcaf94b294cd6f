"""Weights in files: how they are read, and the mean of several checkpoints."""

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

FORMAT = "transformer_lib, format 4"  # of a file; a change that older readers cannot follow raises it
OPTIMIZER = "optimizer."  # what the names of its tensors begin with
SIGNS = {"library", "content"}  # in the header of every file of this library: two, as an altered bit can remove one


def average_checkpoints(paths: Iterable[Path | str]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, on the CPU.

    The sum is in double precision; one file is read at a time. Of integers
    the mean is rounded to the nearest.

    Source: section 6.1, the last 5 checkpoints of base, 20 of big [ckpt-avg].

    Args:
        paths: of checkpoints, of .safetensors files, or of state dicts saved
            with torch.save.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no paths, a damaged file, or weights of different names or
            shapes.
    """
    if isinstance(paths, str | Path):
        raise ValueError(f"paths = {str(paths)!r} is one path; give a list of paths")
    paths = [Path(path) for path in paths]
    if not paths:
        raise ValueError("no paths: an average needs at least one checkpoint")
    first: dict[str, Tensor] = {}
    total: dict[str, Tensor] = {}
    for path in paths:
        weights = _weights(path)
        if not first:
            # On "meta", a tensor has a shape and a type but no numbers.
            first = {n: w.to("meta") for n, w in weights.items()}
            total = {n: torch.zeros(w.shape).double() for n, w in first.items()}
        if names := differing(weights, first):
            both = f"{path} and {paths[0]} have no common mean"
            raise ValueError(f"{both}: {names} differ")
        for name, weight in weights.items():
            total[name] += weight
    means = {n: sums.div_(len(paths)) for n, sums in total.items()}
    for name, weight in first.items():
        if not weight.dtype.is_floating_point:
            means[name] = means[name].round()
        means[name] = means[name].to(weight.dtype)
    return means


def differing(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """Up to three names that only one dict has, or whose shapes differ; "" if none."""
    shapes, others = ({name: tensor.shape for name, tensor in tensors.items()} for tensors in (weights, expected))
    return ", ".join(sorted(n for n in shapes.keys() | others.keys() if shapes.get(n) != others.get(n))[:3])


class Content(NamedTuple):
    """What a file of this library holds."""

    described: dict[str, Any]  # what it says of itself
    weights: dict[str, Tensor]
    training: dict[str, Tensor]  # the optimizer's


def damaged(path: Path, error: object) -> ValueError:
    """The error of a file that is no file of this library any more, or never was."""
    what = f"it lacks {error}" if isinstance(error, KeyError) else error
    problem = f"{path} is truncated, altered, of another version or of another program: {what}"
    return ValueError(f"{problem}; use another file, the version that wrote it, or train again")


def is_safetensors(path: Path) -> bool:
    """Whether it begins as such a file does: eight bytes, the length of the header, then the header's brace."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def header(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """What stands in the header of a file of these tensors: the format, what is said of them, one digest of it all."""
    content = json.dumps(described, ensure_ascii=False, separators=(",", ":"))
    return {"library": FORMAT, "content": content, "sha256": digest(content, tensors)}


def read_file(path: Path, verified: bool = True, foreign: bool = False) -> Content:
    """The content of a translator or checkpoint, mapped into memory: a number is read when it is used.

    Args:
        verified: whether it is compared with its digest, which reads every number.
        foreign: whether it may be a .safetensors file of another program, which holds weights alone.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a truncated, altered or foreign file, or one of another version.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    check_regular(path)
    try:
        with safe_open(path, "pt") as file:
            tensors, said = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
        if foreign and not SIGNS & said.keys():
            return Content({}, tensors, {})
        if said["library"] != FORMAT:
            raise ValueError(f"it is of {said['library']!r}, and this one reads {FORMAT!r}")
        if verified and digest(said["content"], tensors) != said["sha256"]:
            raise ValueError("the content is not what its digest says")
        parts: tuple[dict[str, Tensor], dict[str, Tensor]] = {}, {}
        for name, tensor in tensors.items():
            parts[name.startswith(OPTIMIZER)][name] = tensor
        return Content(parsed(said["content"]), *parts)
    except (SafetensorError, KeyError, ValueError) as error:
        raise damaged(path, error) from error


def _weights(path: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint, in another .safetensors file or in what torch.save wrote."""
    if not path.is_file() or is_safetensors(path):
        return read_file(path, foreign=True).weights
    try:
        # Only the zip files that torch.save writes today can be mapped.
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # torch raises many kinds for a damaged file
        raise damaged(path, error) from error
    weights = state.get("model", state) if isinstance(state, dict) else {}
    if not weights or not all(isinstance(weight, Tensor) for weight in weights.values()):
        raise ValueError(f"{path} holds neither a checkpoint nor a state dict")
    return weights


def digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """One sha256 over a text and the names, types, shapes and numbers of the tensors."""
    sha256 = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        sha256.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        sha256.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return sha256.hexdigest()


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
