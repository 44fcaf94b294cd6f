"""The places in the book where a Transformer is trained in the reader's browser, and the scripts that they load."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from workshop.site import book_live, record_hundred
from workshop.site.book_live import STATIC, letters, script
from workshop.site.filled import filled

TRAINING = STATIC / "live" / "training"
RECORD, TASK = TRAINING / "provenance.json", TRAINING / "task.json"
TEMPLATE = Path(__file__).with_name("live_training.html")
SOURCES = (TEMPLATE, RECORD, TASK)
FILES = """live.css training.css download.js runtime.js heat_maps.js training_task.js training_run.js training_chart.js
training_view.js training_page.js""".split()

KINDS = ("whole", "ten", "short", "beside")
WITHHELD = ", ".join(map(str, record_hundred.WITHHELD))


def recorded() -> dict[str, Any]:
    """What stands in the record of the exports: file → where it came from."""
    return json.loads(RECORD.read_text("utf-8"))


def defect_files() -> dict[str, str]:
    """The name of each offered defect → the beginning of its files' names."""
    return {origin["name"]: file.split(".")[0] for file, origin in recorded().items() if origin["defect"]}


@cache
def payloads() -> dict[str, str]:
    """Name → text of each script: the healthy model with the task, and each defect."""

    def graphs(file: str) -> dict[str, str]:
        return {kind: letters((TRAINING / f"{file}.{kind}.onnx.gz").read_bytes()) for kind in ("step", "greedy")}

    found = {"training": script("training", {"task": json.loads(TASK.read_text("utf-8")), **graphs("healthy")})}
    for file in defect_files().values():
        found[f"training_{file}"] = script(f"training_{file}", graphs(file))
    return found


def page_html(static: str, kind: str) -> str:
    """The place of one kind: "whole" with every choice, "ten" with ten numbers withheld, "short", or "beside" with a
    defect next to the healthy one."""
    if kind not in KINDS:
        raise ValueError(f"live-training: kind {kind!r} must be one of {', '.join(KINDS)}")
    defects = [
        recorded()[f"{file}.step.onnx.gz"]["defect"] | {"title": name, "name": file}
        for name, file in (defect_files() if kind == "beside" else {}).items()
    ]
    texts = {name: payloads()[name] for name in ("training", *(f"training_{one['name']}" for one in defects))}
    parts = book_live.parts({"onnxruntime": book_live.payloads()["onnxruntime"], **texts})
    return filled(TEMPLATE.name, static=static, kind=kind, parts=parts, defects=defects, withheld=WITHHELD)
