"""Export the translators that come with the package to ONNX, for the page on which they run in the browser.

    python -m workshop.site.export_onnx                     all of them, into book/_static/live/, gzipped
    python -m workshop.site.export_onnx tatoeba_de_en       one

One graph holds encoder and decoder: from the source and the target so far to the logits of the next token and to the
weights of every attention. Three more inputs are the switches of `surgery.py`. The packed weights are carried over
as they stand in the package. Needs the extra [test].
"""

import argparse
import gzip
import hashlib
import json
import numbers
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from safetensors.numpy import load_file
from torch import Tensor, nn

from transformer_lib import Transformer, record_attention, sinusoids
from transformer_lib.positional_encoding import SinusoidalPositions
from transformer_lib.run.quantization import SCALE
from transformer_lib.run.translator import MODEL, PRETRAINED, Translator, pretrained_names
from transformer_lib.transformer import named_attentions
from workshop.lab.provenance import origin
from workshop.site.surgery import operated

ROOT = Path(__file__).resolve().parents[2]
LIVE = ROOT / "book" / "_static" / "live"
LONGEST = 128  # positions in the table: a source of 64 tokens and its 50 more (section 6.1), with room to spare
OPSET = 18  # what onnxruntime-web has had for years
PREFIX = "model."  # under which Step keeps the model's weights
SWITCHES = ("head_gates", "score_factor", "position_factor")  # inputs of the graph; with 1 it is the model as trained


class PositionTable(SinusoidalPositions):
    """The first rows of the sinusoids. As a table they are the library's own numbers, to the last bit."""

    def __init__(self, d_model: int, longest: int = LONGEST):
        super().__init__(d_model)
        self.register_buffer("table", sinusoids(longest, d_model))

    def forward(self, states: Tensor) -> Tensor:
        """The rows for states of this length."""
        return self.get_buffer("table")[: states.size(1)]


def newest(_decoder: nn.Module, _inputs: object, states: Tensor) -> Tensor:
    """The state of the last position, the only one whose logits are wanted: (batch, 1, d_model)."""
    return states[:, -1:]


class Step(nn.Module):
    """One step of decoding, without a cache: at these sizes, the sentence so far is read again in milliseconds."""

    def __init__(self, model: Transformer):
        super().__init__()
        if model.config.positions != "sinusoidal":
            raise ValueError(f"positions = {model.config.positions!r}: only 'sinusoidal' can be exported so far")
        self.model = model.eval()
        self.model.positions = PositionTable(model.config.d_model)
        self.model.decoder.register_forward_hook(newest)
        self.names = [name for name, _ in named_attentions(model)]

    def forward(
        self, source: Tensor, target_input: Tensor, head_gates: Tensor, score_factor: Tensor, position_factor: Tensor
    ) -> tuple[Tensor, ...]:
        """Logits of the token after target_input, (batch, vocabulary), and the weights of each attention."""
        with operated(self.model, head_gates, score_factor, position_factor), record_attention(self.model) as weights:
            logits = self.model(source, target_input)
        return logits[:, -1], *(weights[name] for name in self.names)


def float_graph(model: Transformer) -> onnx.ModelProto:
    """The graph as PyTorch's exporter writes it, with weights in float32 and without the paths of this machine."""
    numbers.Integral.register(torch.SymInt)  # while a graph is traced, a length is a symbol
    step = Step(model)
    source, target_input = torch.full((2, 5), 4), torch.full((2, 3), 4)  # different, so that no axis is taken as fixed
    batch, most = torch.export.Dim("batch", min=1, max=64), {"min": 1, "max": LONGEST}
    as_trained = torch.ones(len(step.names), model.config.num_heads), torch.ones(()), torch.ones(())
    shapes = {
        "source": {0: batch, 1: torch.export.Dim("source_length", **most)},
        "target_input": {0: batch, 1: torch.export.Dim("target_length", **most)},
        **dict.fromkeys(SWITCHES),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own use of what PyTorch deprecates
        program = torch.onnx.export(
            step,
            (source, target_input, *as_trained),
            dynamo=True,
            dynamic_shapes=shapes,
            output_names=["logits", *step.names],
            opset_version=OPSET,
            optimize=False,  # would fold and rename the weights that are to be replaced
            verbose=False,
        )
    graph = program.model_proto  # type: ignore[union-attr]
    for part in (graph, graph.graph, *graph.graph.node, *graph.graph.initializer, *graph.graph.value_info):
        part.ClearField("metadata_props")
    return graph


def with_integers(graph: onnx.ModelProto, packed: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The same graph with each packed matrix as its integers and its scales: weight = float(integer) · scale.

    DequantizeLinear would say the same, but a runtime repeats it for every token; Cast and Mul of constants it does
    once, when it loads the graph.
    """
    unpacking = []
    for weight in list(graph.graph.initializer):
        name = weight.name.removeprefix(PREFIX)
        if name + SCALE in packed:
            graph.graph.initializer.remove(weight)
            integers, floats, scale = weight.name + ".int8", weight.name + ".float", weight.name + SCALE
            graph.graph.initializer.append(numpy_helper.from_array(packed[name], integers))
            graph.graph.initializer.append(numpy_helper.from_array(packed[name + SCALE], scale))
            unpacking.append(helper.make_node("Cast", [integers], [floats], to=onnx.TensorProto.FLOAT))
            unpacking.append(helper.make_node("Mul", [floats, scale], [weight.name]))
    wanted = sum(name.endswith(SCALE) for name in packed)
    if len(unpacking) != 2 * wanted:
        raise ValueError(f"{len(unpacking) // 2} of {wanted} packed weights stand in the graph under their names")
    nodes = [*unpacking, *graph.graph.node]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    onnx.checker.check_model(graph, full_check=True)
    return graph


def export(name: str) -> bytes:
    """The ONNX file of a translator that comes with the package."""
    packed = load_file(PRETRAINED / name / MODEL)
    return with_integers(float_graph(Translator.load(name).model), packed).SerializeToString(deterministic=True)


def stored(name: str) -> Path:
    """The exported file of a translator, gzipped: its integers take a sixth less so, and the page loads them so."""
    return LIVE / f"{name}.onnx.gz"


def sha256(content: bytes) -> str:
    """Of a file, as sha256sum writes it."""
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=pretrained_names(), metavar="NAME")
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(pretrained_names())):
        raise SystemExit(f"{unknown[0]!r} does not come with the package; known: {', '.join(pretrained_names())}")
    LIVE.mkdir(parents=True, exist_ok=True)
    record = LIVE / "provenance.json"
    known = json.loads(record.read_text("utf-8")) if record.exists() else {}
    for name in names:
        exported = export(name)
        stored(name).write_bytes(gzip.compress(exported, 9, mtime=0))
        known[name] = origin(
            f"python -m workshop.site.export_onnx {name}",
            ("torch", "onnx", "onnxscript"),
            weights=f"transformer_lib/pretrained/{name}/{MODEL}",
            weights_sha256=sha256((PRETRAINED / name / MODEL).read_bytes()),
            sha256=sha256(exported),
            bytes=len(exported),
            longest=LONGEST,
        )
        print(f"{stored(name).name}: {stored(name).stat().st_size / 1e6:.2f} MB")
    record.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
