"""Our model as two ONNX graphs, an encoder and a step of the decoder with its cache, for ONNX Runtime anywhere.

Needs the extra [export].
"""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import onnx
import torch
from torch import Tensor, nn

from transformer_lib.cache import layer_step, takes_cache
from transformer_lib.decoding import longest_output
from transformer_lib.layers import DecoderLayer
from transformer_lib.masks import padding_mask
from transformer_lib.transformer import Transformer, record_attention

from ..translator import Translator
from .portable_tokenizer import write_readme, write_tokenizers

OPSET = 18  # what runtimes have had for years

README = """import sys, numpy, onnxruntime
from tokenizers import Tokenizer

encoder, step = (onnxruntime.InferenceSession(f"{{name}}.onnx") for name in ("encoder", "decoder_step"))
source, target = Tokenizer.from_file("{source_file}"), Tokenizer.from_file("{target_file}")
source.encode_special_tokens = True  # the text "<eos>" is text
memory_names, cache_names = ([one.name for one in run.get_outputs()] for run in (encoder, step))
for line in sys.stdin:
    ids = source.encode(line.strip()).ids[:{longest}]
    inputs = {{"source": numpy.array([[*ids, {eos_id}]])}}
    inputs |= dict(zip(memory_names, encoder.run(None, inputs)))
    for one in step.get_inputs():
        if one.name.startswith("past."):
            inputs[one.name] = numpy.zeros((1, one.shape[1], 0, one.shape[3]), numpy.float32)
    tokens = [{bos_id}]
    while ids and tokens[-1:] != [{eos_id}] and len(tokens) <= min(len(ids) + 1 + {extra}, {most}):
        inputs["token"] = numpy.array([tokens[-1:]])
        logits, *cache = step.run(None, inputs)
        inputs |= {{name.replace("present", "past"): value for name, value in zip(cache_names[1:], cache)}}
        logits[:, {pad_id}] = -numpy.inf  # <pad> is no word
        tokens.append(int(logits[0].argmax()))
    print(target.decode([i for i in tokens if i not in ({bos_id}, {eos_id})], skip_special_tokens=False))
```

These are the greedy translations of `transformer_lib`; of a line of more than {longest} tokens the first {longest}
are read, as there. The graphs take batches: pad `source` with {pad_id} at the end of a row. For a beam, give each
candidate a row, and take the rows of `past.*` from which the best candidates descend.
"""


class PositionTable(nn.Module):
    """The first rows of a model's positions. As a table they are the library's own numbers, to the last bit."""

    def __init__(self, positions: nn.Module, d_model: int, longest: int):
        super().__init__()
        with torch.no_grad():
            self.register_buffer("table", positions(torch.empty(1, longest, d_model)).clone())

    def forward(self, states: Tensor) -> Tensor:
        """The rows for states of this length."""
        return self.get_buffer("table")[: states.size(1)]


class Encoder(nn.Module):
    """From the source to the keys and values of its memory, which every step of the decoder reads."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> list[Tensor]:
        """Of each decoder layer the keys (batch, heads, source, d_k), then the values (…, d_v)."""
        with record_attention(self.model):  # in the form written out
            memory = self.model.encode(source)
        found: list[Tensor] = []
        for layer in self.model.decoder.layers:
            found += cast(DecoderLayer, layer).cross_attention.keys_and_values(memory, memory)
        return found


class _LayerCache:
    # What layer_step asks of a cache, as tensors that grow.

    def __init__(self, memory: list[Tensor], past: list[Tensor]):
        self.memory, self.past = memory, past

    def append(self, key: Tensor, value: Tensor) -> list[Tensor]:
        pairs = zip(self.past, (key, value), strict=True)
        self.past = [torch.cat([before, new], dim=2) for before, new in pairs]
        return self.past


class DecoderStep(nn.Module):
    """From the newest token, the memory and the cache to the next token's logits and the cache after it."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, token: Tensor, memory: list[Tensor], past: list[Tensor]) -> list[Tensor]:
        """Logits (batch, vocabulary); of each layer its keys and values so far, of `past` and the newest."""
        model, position = self.model, past[0].size(2)
        at = model.positions.get_buffer("table")[position : position + 1].squeeze(0)
        states, present = model.embed(token, model.embedding, at), []
        mask = padding_mask(source, model.config.pad_id)
        with record_attention(model):
            for i, layer in enumerate(model.decoder.layers):
                cache: Any = _LayerCache(memory[2 * i : 2 * i + 2], past[2 * i : 2 * i + 2])
                states = layer_step(cast(DecoderLayer, layer), states, cache, None, mask)
                present += cache.past
        return [model.logits(model.decoder.norm(states))[:, -1], *present]


def export_onnx(translator: Translator, folder: Path) -> None:
    """Write a folder that translates with `onnxruntime` and `tokenizers` alone; its README.md says how.

    Args:
        folder: exists, and is empty.

    Raises:
        ValueError: a tokenizer of spaCy's words.
    """
    files = write_tokenizers(translator, folder)
    encoder, step = encoder_and_step(translator.model, longest_output(translator.model.config))
    onnx.save(encoder, folder / "encoder.onnx")
    onnx.save(step, folder / "decoder_step.onnx")
    write_readme(translator, folder, README, "ONNX Runtime", "onnxruntime tokenizers", **files)


def encoder_and_step(model: Transformer, most: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The two graphs of a model, for at most so many positions.

    The encoder: source → memory.{i}.key, memory.{i}.value of each decoder layer i. The step: source, token (batch, 1),
    these, and past.{i}.key, past.{i}.value of no positions at first → logits, present.{i}.key, present.{i}.value.
    """
    if not takes_cache(model):
        raise ValueError(
            "the model has parts of your own, or hooks: a step with the cache would not compute what it does"
        )
    model = with_position_table(model, most)
    config, layers = model.config, range(model.config.decoder_layers)
    sides = [(f"{i}.{side}", width) for i in layers for side, width in (("key", config.d_k), ("value", config.d_v))]
    batch, past_length = torch.export.Dim("batch", min=1), torch.export.Dim("past_length", min=0, max=most - 1)
    source_length = torch.export.Dim("source_length", min=1, max=most)
    source, token = torch.full((2, 5), 4), torch.full((2, 1), 4)  # different, so that no axis is taken as fixed
    memory, past = ([torch.zeros(2, config.num_heads, n, width) for _, width in sides] for n in (5, 3))
    names = [[f"{kind}.{name}" for name, _ in sides] for kind in ("memory", "past", "present")]
    at_source: Any = {0: batch, 1: source_length}
    encoder = traced(Encoder(model), (source,), {"source": at_source}, names[0])
    shapes = {
        "source": at_source,
        "token": {0: batch},
        "memory": [{0: batch, 2: source_length} for _ in sides],
        "past": [{0: batch, 2: past_length} for _ in sides],
    }
    inputs, outputs = ["source", "token", *names[0], *names[1]], ["logits", *names[2]]
    step = traced(DecoderStep(model), (source, token, memory, past), shapes, outputs, inputs)
    return encoder, step


def with_position_table(model: Transformer, longest: int) -> Transformer:
    """A copy of the model, in evaluation mode, whose positions are a table: what a runtime can compute."""
    model = copy.deepcopy(model).float().eval()
    positions: Any = PositionTable(model.positions, model.config.d_model, longest)
    model.positions = positions
    return model


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Inside the `with` block this logger and those below it say nothing but errors."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def traced(
    module: nn.Module,
    inputs: tuple[Any, ...],
    shapes: dict[str, Any] | None,
    outputs: list[str],
    input_names: list[str] | None = None,
) -> onnx.ModelProto:
    """The graph as PyTorch's exporter writes it, without the paths of this machine.

    Args:
        shapes: for each argument of `forward` the axes that may have any length; None: none may.
        input_names: None: those of the arguments.
    """
    with quiet("torch.onnx"), warnings.catch_warnings():  # it misses torchvision, which is not needed
        warnings.simplefilter("ignore")  # the exporter's own use of what PyTorch deprecates
        program = torch.onnx.export(
            module,
            inputs,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=input_names,
            output_names=outputs,
            opset_version=OPSET,
            # Would fold and rename the weights, which `page` replaces, and take Adam's + 1e-9 for nothing.
            optimize=False,
            verbose=False,
        )
    graph = program.model_proto  # type: ignore[union-attr]
    for part in (graph, graph.graph, *graph.graph.node, *graph.graph.initializer, *graph.graph.value_info):
        part.ClearField("metadata_props")
    return graph
