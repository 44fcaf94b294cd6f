"""The command line's own programs, called by an experiment, and what a training leaves in its folder."""

import json
from pathlib import Path
from typing import Any

import torch

from transformer_run import cli
from transformer_run.update import chosen_precision


def command(*arguments: str) -> None:
    """Run it in this process. Raises SystemExit where the command ends with another status than 0."""
    if status := cli.main([*arguments]):
        raise SystemExit(status)


def train(folder: Path, *arguments: str) -> None:
    """Train into the folder; what was begun there goes on from its last checkpoint."""
    command("train", str(folder), *arguments, *(["--resume"] if any(folder.glob("checkpoints/step-*")) else []))


def given(settings: dict[str, Any]) -> list[str]:
    """The settings as the command line takes them, such as "p_drop=0.2"."""
    return [f"{name}={value}" for name, value in settings.items()]


def precision_on(device: str) -> str:
    """In which an experiment trains: bf16, as the recorded runs, where a processor has instructions for it."""
    has: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)() if device == "cpu" else {}
    return "bf16" if has.get("avx512_bf16") else chosen_precision("auto", torch.device(device))


def steps_of(folder: Path) -> list[dict[str, Any]]:
    """The record of each step so far; a line that a kill cut short is none."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def validations(steps: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Where the run was validated, and what was found."""
    found = [step for step in steps if "val_perplexity" in step]
    return {
        "step_num": [step["step_num"] for step in found],
        "perplexity": [round(step["val_perplexity"], 4) for step in found],
    }
