"""Export one step of training to ONNX, for the pages on which a Transformer is trained in the browser.

    python -m workshop.site.export_training                              all graphs, into book/_static/live/training/
    python -m workshop.site.export_training "softmax over the queries"   one; the healthy one is called "healthy"

A step is forward pass, smoothed loss, backward pass and Adam; a second graph decodes greedily. A defect's graphs are
traced from a copy of the package that has the defect.
Needs the extra [test].
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from workshop.lab.defects import DEFECTS
from workshop.lab.patches import copied
from workshop.lab.provenance import origin
from workshop.site.export_onnx import LIVE, keep, names_given, sha256
from workshop.site.training_task import description

ROOT = Path(__file__).resolve().parents[2]
TRAINING = LIVE / "training"
HEALTHY = "healthy"
KINDS = ("step", "greedy")
SECONDS = 300.0  # that writing the graphs of one defect may take
PROGRAM = "from pathlib import Path; from workshop.site.training_graphs import write_graphs; write_graphs(Path())"
# What the pages offer, in the order of the record. Each leaves the model's weights as many as they are.
OFFERED = (
    "softmax over the queries",
    "the past is hidden",
    "the right token gets only the smoothing's share",
    "heads split without the transpose",
    "no residual connection",
    "mask multiplies the scores",
    "sine and cosine swapped",
    "embeddings not scaled",
    "scores not divided",
)
# The list of defects has this one in the line without a mask alone, which training does not pass.
EVERYWHERE = {"softmax over the queries": (".softmax(dim=-1)", ".softmax(dim=-2)")}
DEFECT_OF = {defect.name: defect for defect in DEFECTS}


def planted(name: str) -> tuple[str, str, str]:
    """The file, what stands there, and what stands there with the defect."""
    defect = DEFECT_OF[name]
    return (defect.file, *EVERYWHERE.get(name, (defect.right, defect.wrong)))


def copy_with_defect(name: str, folder: Path) -> None:
    """A copy of the package in this folder, with the defect; without one for "healthy"."""
    copied(folder)
    if name != HEALTHY:
        file, right, wrong = planted(name)
        path = folder / file  # where it is more than one place, the defect is in each
        path.write_text(path.read_text("utf-8").replace(right, wrong), "utf-8")


def graphs_of(name: str) -> dict[str, bytes]:
    """The graphs of the package with this defect, from a process that imports a copy of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy_with_defect(name, Path(folder))
        path = {"PYTHONPATH": os.pathsep.join([folder, str(ROOT)])}
        subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, env=os.environ | path, timeout=SECONDS, check=True)
        return {kind: Path(folder, f"{kind}.onnx").read_bytes() for kind in KINDS}


def file_of(name: str, kind: str) -> str:
    """The graph's file in TRAINING: the name of the defect in letters and underscores, and the kind."""
    words = re.sub(r"\W+", "_", name.lower())
    return f"{words}.{kind}.onnx.gz"


def main() -> None:
    names = names_given(__doc__ or "", [HEALTHY, *OFFERED])
    TRAINING.mkdir(parents=True, exist_ok=True)
    (TRAINING / "task.json").write_text(json.dumps(description(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    for name in names:
        for kind, content in graphs_of(name).items():
            file = file_of(name, kind)
            about = origin(
                f"python -m workshop.site.export_training {json.dumps(name)}",
                ("torch", "onnx", "onnxscript", "onnxruntime"),
                name=name,
                defect=None if name == HEALTHY else dict(zip(("file", "right", "wrong"), planted(name), strict=True)),
                sha256=sha256(content),
            )
            keep(TRAINING / file, file, content, about)


if __name__ == "__main__":
    main()
