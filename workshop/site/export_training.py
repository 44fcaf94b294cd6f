"""Export one step of training to ONNX, for the pages on which a Transformer is trained in the browser.

    python -m workshop.site.export_training                              all graphs, into book/_static/live/training/
    python -m workshop.site.export_training "softmax over the queries"   one; the healthy one is called "healthy"

A step is forward pass, smoothed loss, backward pass and Adam; a second graph decodes greedily. The weights are inputs of
both, in one vector, so no file holds any. A defect's graphs are traced from a copy of the package that has the defect.
Needs the extra [test].
"""

import argparse
import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import onnx
import onnxruntime
import torch
from onnx import helper
from torch import Tensor, nn
from torch.func import functional_call, functionalize
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from transformer_lib import Transformer, record_attention
from transformer_lib.training import adam, token_losses
from workshop.lab.defects import DEFECTS
from workshop.site.export_onnx import LIVE, OPSET, PositionTable, sha256
from workshop.site.training_task import MODEL, ROWS, SETTINGS, SOURCE_LENGTH, TARGET_LENGTH, description

ROOT = Path(__file__).resolve().parents[2]
TRAINING = LIVE / "training"
HEALTHY = "healthy"
CROSS = "decoder.0.cross"
KINDS = ("step", "greedy")
STEP_INPUTS = ["weights", "m", "v", "rate", "step_num", "source", "target_input", "target_output"]
STEP_OUTPUTS = ["loss", "new_weights", "new_m", "new_v", "cross"]
# What the pages offer. Each leaves the model's weights as many as they are.
OFFERED = (
    "softmax over the queries",
    "the past is hidden",
    "mask multiplies the scores",
    "heads split without the transpose",
    "no residual connection",
    "embeddings not scaled",
    "scores not divided",
    "the right token gets only the smoothing's share",
    "sine and cosine swapped",
)
# The list of defects has this one in the line without a mask alone, which training does not pass.
EVERYWHERE = {"softmax over the queries": (".softmax(dim=-1)", ".softmax(dim=-2)")}
DEFECT_OF = {defect.name: defect for defect in DEFECTS}


def planted(name: str) -> tuple[str, str, str]:
    """The file below transformer_lib, what stands there, and what stands there with the defect."""
    defect = DEFECT_OF[name]
    return (defect.file, *EVERYWHERE.get(name, (defect.right, defect.wrong)))


def copy_with_defect(name: str, folder: Path) -> None:
    """A copy of the package in this folder, with the defect; without one for "healthy"."""
    shutil.copytree(ROOT / "transformer_lib", folder / "transformer_lib", ignore=shutil.ignore_patterns("__pycache__"))
    if name != HEALTHY:
        file, right, wrong = planted(name)
        path = folder / "transformer_lib" / file
        path.write_text(path.read_text("utf-8").replace(right, wrong), "utf-8")


class Learning(nn.Module):
    """The smoothed loss of a batch, and where cross-attention looked."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, target_input: Tensor, target_output: Tensor) -> tuple[Tensor, Tensor]:
        """Nats per real target token, and (batch, heads, queries, keys)."""
        pad_id = self.model.config.pad_id
        with record_attention(self.model) as weights:  # the form written out, in which a defect may lie
            logits = self.model(source, target_input)
        losses = token_losses(logits, target_output, SETTINGS.epsilon_ls, pad_id)
        return losses.sum() / (target_output != pad_id).sum(), weights[CROSS]


class Greedy(nn.Module):
    """Greedy decoding of TARGET_LENGTH tokens, as decoding.greedy_decode chooses them; what follows <eos> is noise."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> Tensor:
        """Ids of the tokens, (batch, TARGET_LENGTH)."""
        config = self.model.config
        tokens = [torch.full((len(source), 1), config.bos_id)]
        with record_attention(self.model):
            cache = self.model.start_decoding(source, limit=TARGET_LENGTH)
            for _ in range(TARGET_LENGTH):
                logits = self.model.decode_next(tokens[-1], cache)
                tokens.append(logits[..., config.pad_id + 1 :].argmax(dim=-1) + config.pad_id + 1)
        return torch.cat(tokens[1:], dim=1)


def fresh_model() -> Transformer:
    """The model of the pages, with its positions as a table, which is what the browser's runtime can compute."""
    model = Transformer(MODEL).eval()
    model.positions = PositionTable(MODEL.d_model, TARGET_LENGTH)
    return model


def named_parts(weights: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    """The vector cut into the weights of these shapes, in this order."""
    stops = itertools.accumulate(shape.numel() for shape in shapes.values())
    return {name: weights[stop - s.numel() : stop].view(s) for stop, (name, s) in zip(stops, shapes.items())}


def step_function(model: Transformer) -> Callable[..., tuple[Tensor, ...]]:
    """One update: weights and both averages of Adam before it, as vectors, to those after it."""
    learning = Learning(model)
    shapes = {name: weight.shape for name, weight in learning.named_parameters()}
    [group] = adam(model, SETTINGS).param_groups
    (beta1, beta2), epsilon = group["betas"], group["eps"]

    def step(weights: Tensor, m: Tensor, v: Tensor, rate: Tensor, step_num: Tensor, *batch: Tensor) -> tuple:
        named = {name: part.requires_grad_() for name, part in named_parts(weights, shapes).items()}
        loss, cross = functional_call(learning, named, batch)
        found = torch.autograd.grad(loss, list(named.values()), materialize_grads=True, allow_unused=True)
        gradient = torch.cat([part.flatten() for part in found])
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        mean, mean_square = m / (1 - beta1**step_num), v / (1 - beta2**step_num)
        return loss, weights - rate * mean / (mean_square.sqrt() + epsilon), m, v, cross

    return step


def greedy_function(model: Transformer) -> Callable[..., Tensor]:
    """From the weights as a vector and the sources to the tokens of their translations."""
    greedy = Greedy(model)
    shapes = {name: weight.shape for name, weight in greedy.named_parameters()}

    def translate(weights: Tensor, source: Tensor) -> Tensor:
        return functional_call(greedy, named_parts(weights, shapes), (source,))

    return translate


def traced(function: Callable[..., Any], example: Sequence[Tensor]) -> GraphModule:
    """What the function computes, as a graph in which nothing is written in place."""
    with patch.object(torch.compiler, "is_compiling", return_value=True):  # leaves out the checks of values
        graph = make_fx(function)(*example)
        for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        graph.recompile()
        return make_fx(functionalize(graph, remove="mutations"))(*example)


def exported(graph: GraphModule, example: Sequence[Tensor], inputs: list[str], outputs: list[str]) -> bytes:
    """The ONNX file of the graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own use of what PyTorch deprecates
        program = torch.onnx.export(
            graph,
            tuple(example),
            dynamo=True,
            input_names=inputs,
            output_names=outputs,
            opset_version=OPSET,
            optimize=False,  # would take Adam's + 1e-9 for nothing, and a weight without a gradient would be NaN
            verbose=False,
        )
    return compact(program.model_proto)  # type: ignore[union-attr]


def compact(graph: onnx.ModelProto) -> bytes:
    """The same graph with its constants computed, and short names for everything inside: a seventh of the size."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder, "computed.onnx"))
        onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
        graph = onnx.load(options.optimized_model_filepath)
    inside = graph.graph
    names = {value.name: value.name for value in (*inside.input, *inside.output)} | {"": ""}
    for part in (*inside.initializer, *(name for node in inside.node for name in node.output)):
        name = part if isinstance(part, str) else part.name
        names.setdefault(name, f"_{len(names):x}")
    for weight in inside.initializer:
        weight.name = names[weight.name]
    for node in inside.node:
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
        for key in ("name", "doc_string", "metadata_props"):
            node.ClearField(key)
    for part in (graph, inside, *inside.initializer, *inside.input, *inside.output):
        part.ClearField("metadata_props")
    del inside.value_info[:]
    del graph.opset_import[:]
    graph.opset_import.append(helper.make_opsetid("", OPSET))
    onnx.checker.check_model(graph, full_check=True)
    return graph.SerializeToString(deterministic=True)


def graphs() -> dict[str, bytes]:
    """Name → ONNX file of the two graphs, traced from the package that this process imports."""
    model = fresh_model()
    vector = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    source, target = torch.full((ROWS, SOURCE_LENGTH), 4), torch.full((ROWS, TARGET_LENGTH), 4)
    one = torch.tensor(1.0)
    example = (vector, vector.square(), vector.square(), one, one, source, target, target)
    step = traced(step_function(model), example)
    greedy = traced(greedy_function(model), (vector, source))
    return {
        "step": exported(step, example, STEP_INPUTS, STEP_OUTPUTS),
        "greedy": exported(greedy, (vector, source), ["weights", "source"], ["tokens"]),
    }


def graphs_of(name: str) -> dict[str, bytes]:
    """The graphs of the package with this defect, from a process that imports a copy of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy_with_defect(name, Path(folder))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((folder, str(ROOT)))}
        command = [sys.executable, "-m", "workshop.site.export_training", "--here", folder]
        subprocess.run(command, cwd=folder, env=environment, check=True)
        return {kind: Path(folder, f"{kind}.onnx").read_bytes() for kind in KINDS}


def slug(name: str) -> str:
    """The name of a defect as a file's: letters and underscores."""
    return re.sub(r"\W+", "_", name.lower())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=[HEALTHY, *OFFERED], metavar="NAME")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)  # write the graphs of this process's package
    args = parser.parse_args()
    if args.here:
        for kind, content in graphs().items():
            (args.here / f"{kind}.onnx").write_bytes(content)
        return
    if unknown := sorted(set(args.names) - {HEALTHY, *OFFERED}):
        raise SystemExit(f"{unknown[0]!r} is not offered; known: {', '.join((HEALTHY, *OFFERED))}")
    TRAINING.mkdir(parents=True, exist_ok=True)
    (TRAINING / "task.json").write_text(json.dumps(description(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    record = TRAINING / "provenance.json"
    known = json.loads(record.read_text("utf-8")) if record.exists() else {}
    for name in args.names:
        for kind, content in graphs_of(name).items():
            file = f"{slug(name)}.{kind}.onnx.gz"
            (TRAINING / file).write_bytes(gzip.compress(content, 9, mtime=0))
            known[file] = origin(name, content)
            print(f"{file}: {(TRAINING / file).stat().st_size / 1e3:.1f} kB", flush=True)
    order = [f"{slug(name)}.{kind}.onnx.gz" for name in (HEALTHY, *OFFERED) for kind in KINDS]  # that of the page's list
    record.write_text(json.dumps({file: known[file] for file in order if file in known}, indent=1) + "\n", "utf-8")


def origin(name: str, exported: bytes) -> dict[str, Any]:
    """What a graph came from: the fault, the versions of what wrote it."""
    packages = ("torch", "onnx", "onnxscript", "onnxruntime")
    return {
        "command": f"python -m workshop.site.export_training {json.dumps(name)}",
        "name": name,
        "defect": None if name == HEALTHY else dict(zip(("file", "right", "wrong"), planted(name))),
        "sha256": sha256(exported),
        "versions": {package: version(package) for package in packages},
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    main()
