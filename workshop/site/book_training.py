"""The places in the book where a Transformer is trained in the reader's browser, and the scripts that they load."""

import html
import json
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from workshop.site import record_hundred
from workshop.site.book_live import STATIC, letters, runtime_bytes, script, wire_bytes

TRAINING = STATIC / "live" / "training"
RECORD, TASK = TRAINING / "provenance.json", TRAINING / "task.json"
TEMPLATE = Path(__file__).with_name("live_training.html")
SOURCES = (TEMPLATE, RECORD, TASK)
FILES = """live.css training.css runtime.js heat_maps.js training_task.js training_run.js training_chart.js
training_view.js training_page.js""".split()

FACTOR = """<label>Rate × <select class="live-factor">
<option>0.1</option><option>0.3</option><option selected>1</option><option>3</option><option>10</option>
</select></label>"""
WITHHELD = ", ".join(map(str, record_hundred.WITHHELD))
TEN = f'<input type="hidden" class="live-withhold" value="{WITHHELD}">'
CHOICES = f"""<form class="live-choices">
<fieldset>
<legend>What it learns from</legend>
<label for="live-withhold">Withhold these numbers, such as 7, 40-49</label>
<input id="live-withhold" class="live-withhold" type="text" autocomplete="off"
 value="{WITHHELD}">
<label for="live-own">Pairs of your own: up to 8 lines, three words = four words</label>
<textarea id="live-own" class="live-own" rows="3" spellcheck="false">one hundred = ein hundert
good morning = guten Morgen</textarea>
<p class="live-problem" role="alert"></p>
<button type="submit" class="live-button">Start again with these</button>
</fieldset>
</form>"""
MODEL = Template("""<section class="live-model"$label>
$heading<p class="live-written"></p>
<table class="live-numbers" role="img" aria-label="Numbers right"></table>
<p class="live-note">Cross-attention: a row for each German token, a column for each English one, in percent.</p>
<div class="live-scroll live-cross" tabindex="0" role="region" aria-label="$name"></div>
</section>""")
LOWEST = 'the lowest possible, above 0 because <a href="label_smoothing.html">a little doubt is wanted</a>'
COMPACT = (
    "The line is the loss: large while the right words seem unlikely to the model. The dotted line is "
    f"{LOWEST}. A filled number is translated without a mistake"
)
LEGENDS = {
    "whole": f"First the loss; the dotted line is {LOWEST}. Then the numbers that are translated without a mistake, "
    "learned ones as a line, withheld ones dashed. A filled number in the table is right, a dashed edge marks a "
    "withheld one.",
    "ten": f"{COMPACT}; a dashed edge marks one that is withheld.",
    "short": f"{COMPACT}.",
    "beside": "The healthy model is the line, the one with the defect is dashed. First the loss; the dotted line is "
    f"{LOWEST}. Then the numbers that are translated without a mistake. In the tables, a filled number is right.",
}


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


def defect_choice() -> str:
    """The list of defects, each with its line."""
    origins = recorded()
    options = []
    for name, file in defect_files().items():
        line = {f"data-{key}": value for key, value in origins[f"{file}.step.onnx.gz"]["defect"].items()}
        data = line | {"data-bytes": str(wire_bytes(payloads()[f"training_{file}"])), "value": file}
        written = " ".join(f'{key}="{html.escape(value)}"' for key, value in data.items())
        options.append(f"<option {written}>{html.escape(name)}</option>")
    choice = "\n".join(options)
    return (
        f'<p><label>Defect <select class="live-defect">\n{choice}\n</select></label></p>\n'
        '<p class="live-note live-change"></p>'
    )


def page_html(static: str, kind: str) -> str:
    """The place of one kind: "whole" with every choice, "ten" with ten numbers withheld, "short", or "beside" with a
    defect next to the healthy one."""
    if kind not in LEGENDS:
        raise ValueError(f"live-training: kind {kind!r} must be one of {', '.join(LEGENDS)}")
    names = ("Healthy", "With the defect") if kind == "beside" else ("",)
    models = [
        MODEL.substitute(
            label=f' aria-label="{name}"' if name else "",
            heading=f"<h3>{name}</h3>\n" if name else "",
            name=f"{name}: cross-attention" if name else "Cross-attention",
        )
        for name in names
    ]
    is_first = kind in {"ten", "short"}  # on the first pages, whose readers know no seed
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        static=static,
        sizes=json.dumps({"onnxruntime": runtime_bytes(), "training": wire_bytes(payloads()["training"])}),
        defects=defect_choice() if kind == "beside" else "",
        factor=FACTOR if kind == "whole" else "",
        choices={"whole": CHOICES, "ten": TEN}.get(kind, ""),
        compact=" live-compact" if is_first else "",
        another="Another start" if is_first else "Another seed",
        chosen="Maps for" if is_first else "Sentence",
        legend=LEGENDS[kind],
        models="\n".join(models),
    )
