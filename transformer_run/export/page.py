"""A translator as one file that the book's page *Try it in the page* opens from the reader's device.

The file is gzipped JSON: the languages, the tokenizers, and an ONNX graph. The graph holds encoder and decoder, from
the source and the target so far to the logits of the next token and to the weights of every attention; three more
inputs are the switches of `surgery.py`. Needs the extra [export].
"""

import base64
import copy
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from transformer_lib.data.tokenizers import BOS_ID, EOS_ID, PAD_ID
from transformer_lib.decoding import EXTRA
from transformer_lib.transformer import Transformer, named_attentions, record_attention

from ..quantization import SCALE, dequantize, quantize
from ..translator import Translator
from .onnx import traced, with_position_table
from .surgery import operated

FORMAT = "transformer_lib page 1"  # own.js asks for it
LONGEST = 128  # positions in the table: a source of 64 tokens and its 50 more (section 6.1), with room to spare
PREFIX = "model."  # under which Step keeps the model's weights
SWITCHES = ("head_gates", "score_factor", "position_factor")  # inputs of the graph; with 1 it is the model as trained


def export_page(
    translator: Translator, path: Path, packed: Mapping[str, Tensor] | None = None, sentences: Sequence[str] = ()
) -> None:
    """Write the file.

    Args:
        packed: the weights as integers, from a packed folder; None: they are packed in 8 bits.
        sentences: the first hundred that are short enough are the page's examples, and those that it counts.

    Raises:
        ValueError: words split by spaCy's rules, or special tokens under other ids than the page's.
    """
    packed = packed or packed_weights(translator.model)
    translator = rounded(translator, packed)
    graph = page_graph(translator.model, {name: weight.numpy() for name, weight in packed.items()})
    content = page_content(translator, gzip.compress(graph, 9, mtime=0), page_hundred(translator, sentences))
    written = json.dumps({"format": FORMAT, **content}, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(written.encode(), 9, mtime=0))


def rounded(translator: Translator, packed: Mapping[str, Tensor]) -> Translator:
    """A copy of the translator that computes with these weights, as the page does."""
    model = copy.deepcopy(translator.model).float()
    model.load_state_dict(model.state_dict() | dequantize(packed))
    return replace(translator, model=model)


def page_content(translator: Translator, graph: bytes, hundred: dict[str, Any]) -> dict[str, Any]:
    """What the page's scripts read of a translator, beside its gzipped graph.

    Args:
        hundred: pairs of a sentence and what the model should write, and the words that say what is counted.

    Raises:
        ValueError: as export_page does.
    """
    config = translator.model.config
    ids = {"pad_id": config.pad_id, "bos_id": config.bos_id, "eos_id": config.eos_id}
    if tuple(ids.values()) != (PAD_ID, BOS_ID, EOS_ID):
        raise ValueError(f"{ids}: the page has {PAD_ID}, {BOS_ID} and {EOS_ID}")
    return {
        "source": translator.source,
        "target": translator.target,
        "longest": longest_on_page(translator.model),
        "num_heads": config.num_heads,
        "d_k": config.d_k,
        "hundred": hundred,
        "source_tokenizer": page_tokenizer(translator.source_tokenizer.to_json()),
        "target_tokenizer": page_tokenizer(translator.target_tokenizer.to_json()),
        "onnx": base64.b64encode(graph).decode("ascii"),
    }


def page_tokenizer(saved: dict[str, Any]) -> dict[str, Any]:
    """What tokenizers.js needs of a saved tokenizer."""
    if saved["kind"] == "words":
        if saved["language"] is not None:
            remedy = "train with --tokenizer bpe or space"
            raise ValueError(
                f"tokenizer = spacy, {saved['language']!r}: the page splits words at spaces only; {remedy}"
            )
        return saved
    pieces = saved["model"]["model"]
    vocabulary = sorted(pieces["vocab"], key=pieces["vocab"].get)
    return {"kind": "bpe", "vocabulary": vocabulary, "merges": pieces["merges"]}


def page_hundred(translator: Translator, sentences: Sequence[str]) -> dict[str, Any]:
    """The first hundred of the sentences that the page can read, each with the model's greedy translation."""
    most = longest_on_page(translator.model) - EXTRA - 1
    short = [text for text in sentences if 0 < len(translator.source_tokenizer.encode(text)) <= most][:100]
    pairs = list(zip(short, translator.translate(short), strict=True))
    counted = "come out token for token as the untouched model writes them"
    return {"pairs": pairs, "of": "sentences of your own", "counted": counted}


def longest_on_page(model: Transformer) -> int:
    """Positions that the page's graph of this model has encodings for."""
    config = model.config
    return LONGEST if config.positions == "sinusoidal" else min(LONGEST, config.max_positions)


def packed_weights(model: Transformer) -> dict[str, Tensor]:
    """The weights in 8 bits; learned positions, of which the graph has the first rows, stay as they are."""
    weights = {name: weight.float().cpu().contiguous() for name, weight in model.state_dict().items()}
    weights.pop("positions.table", None)
    return quantize(weights)


class Step(nn.Module):
    """One step of decoding, without a cache: at these sizes, the sentence so far is read again in milliseconds."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = with_position_table(model, longest_on_page(model))
        self.model.decoder.register_forward_hook(newest)
        self.names = [name for name, _ in named_attentions(model)]

    def forward(
        self, source: Tensor, target_input: Tensor, head_gates: Tensor, score_factor: Tensor, position_factor: Tensor
    ) -> tuple[Tensor, ...]:
        """Logits of the token after target_input, (batch, vocabulary), and the weights of each attention."""
        with operated(self.model, head_gates, score_factor, position_factor), record_attention(self.model) as weights:
            logits = self.model(source, target_input)
        return logits[:, -1], *(weights[name] for name in self.names)


def newest(_decoder: nn.Module, _inputs: object, states: Tensor) -> Tensor:
    """The state of the last position, the only one whose logits are wanted: (batch, 1, d_model)."""
    return states[:, -1:]


def page_graph(model: Transformer, packed: Mapping[str, np.ndarray]) -> bytes:
    """The ONNX file of the page: the graph of Step, with the packed matrices as their integers and scales."""
    step = Step(model)
    source, target_input = torch.full((2, 5), 4), torch.full((2, 3), 4)  # different, so that no axis is taken as fixed
    batch, most = torch.export.Dim("batch", min=1, max=64), {"min": 1, "max": longest_on_page(model)}
    as_trained = torch.ones(len(step.names), model.config.num_heads), torch.ones(()), torch.ones(())
    shapes = {
        "source": {0: batch, 1: torch.export.Dim("source_length", **most)},
        "target_input": {0: batch, 1: torch.export.Dim("target_length", **most)},
        **dict.fromkeys(SWITCHES),
    }
    graph = traced(step, (source, target_input, *as_trained), shapes, ["logits", *step.names])
    return with_integers(graph, packed).SerializeToString(deterministic=True)


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
