"""One step of training and greedy decoding as ONNX graphs, traced from whatever copy of the package is imported.

The step is forward pass, smoothed loss, backward pass and Adam. The weights are inputs of both graphs, in one vector,
so the files hold none.
"""

import gc
import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import onnx
import onnxruntime
import torch
from onnx import helper
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from transformer_lib import Transformer, record_attention
from transformer_lib.cache import DecoderCache
from transformer_lib.training import adam, token_losses
from transformer_run.export.onnx import OPSET, traced, with_position_table
from workshop.site.training_task import MODEL, ROWS, SETTINGS, SOURCE_LENGTH, TARGET_LENGTH

CROSS = "decoder.0.cross"
STEP_INPUTS = ["weights", "m", "v", "rate", "step_num", "source", "target_input", "target_output"]
STEP_OUTPUTS = ["loss", "new_weights", "new_m", "new_v", "cross"]


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
            # Its table of positions is not the library's class, which start_decoding asks for.
            cache = DecoderCache(self.model, source, self.model.encode(source), TARGET_LENGTH)
            for _ in range(TARGET_LENGTH):
                logits = cache.next_logits(tokens[-1])
                tokens.append(logits[..., config.pad_id + 1 :].argmax(dim=-1) + config.pad_id + 1)
        return torch.cat(tokens[1:], dim=1)


def named_parts(weights: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    """The vector cut into the weights of these shapes, in this order."""
    stops = itertools.accumulate(shape.numel() for shape in shapes.values())
    places = zip(stops, shapes.items(), strict=True)
    return {name: weights[stop - shape.numel() : stop].view(shape) for stop, (name, shape) in places}


def step_function(model: Transformer) -> Callable[..., tuple[Tensor, ...]]:
    """One update: weights and both averages of Adam before it, as vectors, to those after it; beside them the smoothed
    loss, in nats per real target token, and where cross-attention looked, (batch, heads, queries, keys)."""
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    [group] = adam(model, SETTINGS).param_groups
    (beta1, beta2), epsilon = group["betas"], group["eps"]

    def step(weights: Tensor, m: Tensor, v: Tensor, rate: Tensor, step_num: Tensor, *batch: Tensor) -> Any:
        *read, wanted = batch
        named = {name: part.requires_grad_() for name, part in named_parts(weights, shapes).items()}
        with record_attention(model) as recorded:  # the form written out, in which a defect may lie
            logits = functional_call(model, named, tuple(read))
        losses = token_losses(logits, wanted, SETTINGS.epsilon_ls, model.config.pad_id)
        loss = losses.sum() / (wanted != model.config.pad_id).sum()
        found = torch.autograd.grad(loss, list(named.values()), materialize_grads=True, allow_unused=True)
        gradient = torch.cat([part.flatten() for part in found])
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        mean, mean_square = m / (1 - beta1**step_num), v / (1 - beta2**step_num)
        return loss, weights - rate * mean / (mean_square.sqrt() + epsilon), m, v, recorded[CROSS]

    return step


def greedy_function(model: Transformer) -> Callable[..., Tensor]:
    """From the weights as a vector and the sources to the tokens of their translations."""
    greedy = Greedy(model)
    shapes = {name: weight.shape for name, weight in greedy.named_parameters()}

    def translate(weights: Tensor, source: Tensor) -> Tensor:
        return functional_call(greedy, named_parts(weights, shapes), (source,))

    return translate


def exported(function: Callable[..., Any], example: Sequence[Tensor], inputs: list[str], outputs: list[str]) -> bytes:
    """The ONNX file of what the function computes; the exporter does without operations that write in place."""
    with patch.object(torch.compiler, "is_compiling", return_value=True):  # leaves out the checks of values
        graph = make_fx(function)(*example)
        for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
            node.replace_all_uses_with(node.all_input_nodes[0])
            graph.graph.erase_node(node)
        graph.recompile()
    return compact(traced(graph, tuple(example), None, outputs, inputs))


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
    made = [name for node in inside.node for name in node.output]
    for name in (*(weight.name for weight in inside.initializer), *made):
        names.setdefault(name, f"_{len(names):x}")
    for weight in inside.initializer:
        weight.name = names[weight.name]
    for node in inside.node:
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
        for key in ("name", "doc_string", "metadata_props"):
            node.ClearField(key)
    del inside.value_info[:]
    del graph.opset_import[:]
    graph.opset_import.append(helper.make_opsetid("", OPSET))
    onnx.checker.check_model(graph, full_check=True)
    return graph.SerializeToString(deterministic=True)


def write_graphs(folder: Path) -> None:
    """The two graphs as files in this folder, traced from the package that this process imports."""
    gc.disable()  # a process of its own, which ends after this: collecting takes a good part of the time
    model = with_position_table(Transformer(MODEL), TARGET_LENGTH)
    vector = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    source, *targets = (torch.full((ROWS, length), 4) for length in (SOURCE_LENGTH, TARGET_LENGTH, TARGET_LENGTH))
    # No tensor twice: the tracer would take the two inputs for one.
    example = (vector, vector.square(), vector.square(), torch.tensor(1e-3), torch.tensor(1.0), source, *targets)
    step = exported(step_function(model), example, STEP_INPUTS, STEP_OUTPUTS)
    (folder / "step.onnx").write_bytes(step)
    greedy = exported(greedy_function(model), (vector, source), ["weights", "source"], ["tokens"])
    (folder / "greedy.onnx").write_bytes(greedy)
