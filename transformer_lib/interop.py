"""Weights from PyTorch's own Transformer and from published Marian translators."""

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import TransformerConfig
from .layers import ACTIVATIONS
from .masks import causal_mask
from .positional_encoding import sinusoids
from .transformer import Transformer

# Words in the names of weights: PyTorch's or Marian's, and ours. What stands before norm2 depends on the stack.
NAMES = {
    "self_attn": "self_attention",
    "multihead_attn": "cross_attention",
    "encoder_attn": "cross_attention",
    "q_proj": "query_projection",
    "k_proj": "key_projection",
    "v_proj": "value_projection",
    "out_proj": "output_projection",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.outer",
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.outer",
    "norm1": "self_attention_norm.norm",
    "norm3": "feed_forward_norm.norm",
    "self_attn_layer_norm": "self_attention_norm.norm",
    "encoder_attn_layer_norm": "cross_attention_norm.norm",
    "final_layer_norm": "feed_forward_norm.norm",
}
NORM2 = {"encoder": "feed_forward_norm.norm", "decoder": "cross_attention_norm.norm"}
# Which axis of a weight is d_model: the last where it reads states, the first where it writes them.
READS = re.compile(r"(embedding|query_projection|key_projection|value_projection|inner)\.weight$")
WRITES = re.compile(r"(output_projection|outer|norm)\.(weight|bias)$")
BY_PARTS = (
    "Pass its parts: from_torch(transformer, embedding, target_embedding, output, positions=…, embedding_scale=…)"
)

Positions = Tensor | nn.Embedding | Literal["sinusoidal"] | None


@dataclass
class _Parts:
    # A translator taken apart; every number is still the original's.
    settings: dict[str, Any]  # fields of our config
    stacks: dict[str, Tensor]  # weights of the layers and final normalisations, under our names
    source: Tensor  # (source vocabulary, d_model)
    target: Tensor  # (vocabulary, d_model)
    output: Tensor  # (vocabulary, d_model)
    output_bias: Tensor | None  # (vocabulary)
    positions: Tensor  # (length, d_model)
    scale: float  # of embedded tokens, before the positions are added
    recognise: bool = True  # whether positions that are the sinusoids become ours

    def __post_init__(self):
        d_model = self.settings["d_model"]
        for name in ("source", "target", "output", "positions"):
            shape = tuple(getattr(self, name).shape)
            if len(shape) != 2 or shape[1] != d_model:
                raise ValueError(f"{name} matrix of shape {shape} does not fit the layers; pass one of (…, {d_model})")
        if len(self.output) != len(self.target):
            sizes = f"{len(self.output)} logits for the {len(self.target)} tokens of the target's embedding"
            raise ValueError(f"output gives {sizes}; pass two of one vocabulary")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"embedding_scale = {self.scale!r} must be finite and greater than 0")
        weights = (self.source, self.target, self.output, *self.stacks.values())
        _one("dtype and device", [(weight.dtype, weight.device) for weight in weights])


@torch.no_grad()
def from_torch(
    module: nn.Module,
    embedding: nn.Embedding | None = None,
    target_embedding: nn.Embedding | None = None,
    output: nn.Linear | None = None,
    *,
    positions: Positions = "sinusoidal",
    embedding_scale: float | None = None,
    pad_id: int | None = None,
    bos_id: int = 1,
    eos_id: int = 2,
) -> Transformer:
    """Our Transformer with the weights, and so the function, of a module around PyTorch's `nn.Transformer`.

    With an `embedding`, the function is the paper's: embedded tokens × scale + positions, the stacks, `output`.
    Without one, the module holds all parts itself and `module(source, target_input)` gives logits. Its weights do not
    tell how it joins the parts; running it on random ids does. An nn.Embedding with "pos" in its name is for positions.
    Either way the result is run against the original.

    The functions are the same in evaluation mode, for each sentence by itself: ours always masks padding and what
    comes later in the target. In training, PyTorch's also drops attention weights.

    Args:
        module: an nn.Transformer, or a module that holds one.
        target_embedding: None: the source's.
        output: from states to logits; None: the target's embedding again, without a bias.
        positions: a table becomes learned positions, which limit the length to its rows. None adds nothing: ours then
            has 1024 rows of zeros, so pass zeros of your own for longer sentences. Without `embedding`, sinusoids that
            the module keeps as a table become exact ones, without a limit. Computed in float32 they are off by about
            1e-7 × position, and its logits with them; pass the table to keep every digit.
        embedding_scale: None: √d_model; without `embedding`, √d_model or 1, whichever the module uses.
        pad_id: None: the embedding's padding_idx or the module's attribute with "pad" in its name, else 0.

    Returns:
        a model in evaluation mode, with the dtype and device of the module and no memory in common with it.

    Raises:
        ValueError: what our model cannot express, or a module whose way to join its parts was not found.
    """
    transformer = _only_transformer(module)
    encoder, decoder = transformer.encoder, transformer.decoder
    settings = _settings(encoder, decoder, "linear1", "activation")
    d_model, recognise = settings["d_model"], isinstance(positions, str)
    if embedding is not None:
        joins, tables = [(embedding, target_embedding or embedding, output)], [_table(positions, d_model)]
    elif target_embedding is None and output is None:
        joins, tables = _held(module, transformer, d_model)
        tables = tables if recognise else [_table(positions, d_model)]
    else:
        raise ValueError("embedding = None beside a target_embedding or an output; pass all that the module uses")
    settings["pad_id"] = _pad_id(module, joins[0][:2]) if pad_id is None else pad_id
    settings |= {"bos_id": bos_id, "eos_id": eos_id}
    stacks = _stacks({"encoder.": encoder, "decoder.": decoder})
    scales = [math.sqrt(d_model), 1.0] if embedding_scale is None else [embedding_scale]
    candidates = []
    for (a, b, c), table, scale in itertools.product(joins, tables, scales):
        matrices = (_matrix(a), _matrix(b), _matrix(c or b), c.bias if c else None)
        candidates.append(_Parts(settings, stacks, *matrices, table, scale, recognise))
    with _in_evaluation(module):
        if embedding is not None:
            return _verified(candidates[0], lambda *ids: _paper(encoder, decoder, candidates[0], *ids))
        parts = _recognised(candidates, module, transformer)
        return _verified(parts, lambda *ids: _run(module, *ids))


@torch.no_grad()
def from_marian(hf_model: nn.Module) -> Transformer:
    """Our Transformer with the weights, and so the function, of a Hugging Face `MarianMTModel`.

    Marian's positions are sines, then cosines; ours take turns. So the d_model axis of every weight is reordered.
    A table of positions that holds no sinusoids becomes a learned one. The result is run against the original.
    The functions are the same in evaluation mode; of Marian's three rates of dropout, ours has the one called dropout.

    Returns:
        a model in evaluation mode, with the dtype and device of the given one and no memory in common with it.

    Raises:
        ValueError: another kind of model, or what ours cannot express.
    """
    hf: Any = hf_model
    if getattr(getattr(hf, "config", None), "model_type", None) != "marian" or not hasattr(hf, "final_logits_bias"):
        raise ValueError(f"hf_model is a {type(hf).__name__}; pass a MarianMTModel, the one kind that can be converted")
    encoder, decoder, bias = hf.model.encoder, hf.model.decoder, hf.final_logits_bias.flatten()
    positions = [stack.embed_positions.weight for stack in (encoder, decoder)]
    if not torch.equal(*positions):
        raise ValueError("encoder and decoder have different tables of positions; ours has one for both")
    special = {"pad_id": "pad_token_id", "bos_id": "decoder_start_token_id", "eos_id": "eos_token_id"}
    settings = _settings(encoder, decoder, "fc1", "activation_fn")
    parts = _Parts(
        settings=settings | {ours: getattr(hf.config, theirs) for ours, theirs in special.items()},
        stacks=_stacks({"encoder.layers.": encoder.layers, "decoder.layers.": decoder.layers}),
        source=encoder.embed_tokens.weight,
        target=decoder.embed_tokens.weight,
        output=hf.lm_head.weight,
        output_bias=bias if bias.any() else None,
        positions=positions[0],
        scale=_one("embed_scale", [encoder.embed_scale, decoder.embed_scale]),
    )
    with _in_evaluation(hf):
        return _verified(parts, lambda *ids: hf(input_ids=ids[0], decoder_input_ids=ids[1]).logits)


@contextmanager
def _in_evaluation(module: nn.Module) -> Iterator[None]:
    # No copy instead: PyTorch's decoder layer forgets an activation that is a module when it is copied.
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _only_transformer(module: nn.Module) -> nn.Transformer:
    found = [part for part in module.modules() if isinstance(part, nn.Transformer)]
    if len(found) != 1:
        raise ValueError(f"{type(module).__name__} holds {len(found)} nn.Transformer; pass a module that holds one")
    for stack in (found[0].encoder, found[0].decoder):
        for part in (stack, *getattr(stack, "layers", ())):
            if type(part).__module__ != nn.Transformer.__module__:
                raise ValueError(f"{type(part).__name__} in nn.Transformer is not PyTorch's own; only those are known")
    return found[0]


def _settings(encoder: Any, decoder: Any, inner: str, activation: str) -> dict[str, Any]:
    # The fields of our config that the layers fix. `inner` and `activation` are what the layers call these.
    stacks, layers = (encoder, decoder), [*encoder.layers, *decoder.layers]
    parts = [*encoder.modules(), *decoder.modules()]
    found = {
        "num_layers": [len(stack.layers) for stack in stacks],
        "num_heads": [part.num_heads for part in parts if hasattr(part, "num_heads")],
        "d_model": [getattr(layer, inner).in_features for layer in layers],
        "d_ff": [getattr(layer, inner).out_features for layer in layers],
        "norm_order": ["pre" if getattr(layer, "norm_first", False) else "post" for layer in layers],
        "final_norm": [isinstance(getattr(stack, "norm", None), nn.LayerNorm) for stack in stacks],
        "activation": [_activation(getattr(layer, activation), getattr(layer, inner).weight) for layer in layers],
        "layer_norm_eps": [part.eps for part in parts if isinstance(part, nn.LayerNorm)],
    }
    settings = {name: _one(name, values) for name, values in found.items()}
    epsilon = settings.pop("layer_norm_eps")
    if epsilon != 1e-5:
        raise ValueError(f"layer_norm_eps = {epsilon:g} has no counterpart: our normalisations have 1e-05")
    settings["d_k"] = settings["d_v"] = settings["d_model"] // settings["num_heads"]
    return settings | {"p_drop": getattr(layers[0].dropout, "p", layers[0].dropout)}


def _one(name: str, values: Iterable[Any]) -> Any:
    found = list(dict.fromkeys(values))
    if len(found) != 1:
        raise ValueError(f"{name} has the values {found} inside one model; ours has one value for all of its parts")
    return found[0]


def _activation(function: Callable[[Tensor], Tensor], like: Tensor) -> str:
    inputs, tolerance = torch.linspace(-6, 6, 121).to(like), max(1e-6, 4 * torch.finfo(like.dtype).eps)
    for name, ours in ACTIVATIONS.items():  # One function goes by many names; its values tell.
        if torch.allclose(function(inputs), ours(inputs), rtol=tolerance, atol=tolerance):
            return name
    raise ValueError(f"activation = {function} is none of {', '.join(ACTIVATIONS)}, all that ours has")


def _stacks(modules: dict[str, nn.Module]) -> dict[str, Tensor]:
    # The weights of the modules at these prefixes, under our names.
    found = {}
    for prefix, module in modules.items():
        names = NAMES | {"norm2": NORM2[prefix.split(".")[0]]}
        for name, weight in module.state_dict(prefix=prefix).items():
            before, joined, kind = name.partition("in_proj_")  # PyTorch's query, key and value share a matrix.
            split = [f"{before}{side}_proj.{kind}" for side in "qkv"] if joined else [name]
            for full, rows in zip(split, weight.chunk(len(split)), strict=True):
                found[".".join(names.get(word, word) for word in full.split("."))] = rows
    return found


def _held(module: nn.Module, transformer: nn.Transformer, d_model: int) -> tuple[list[Any], list[Tensor]]:
    # What may be (source embedding, target embedding, output) in this module, and what may be its positions.
    inside = {*transformer.encoder.modules(), *transformer.decoder.modules()}
    tokens, outputs, tables = {}, [], []
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding) and "pos" not in name.lower():
            tokens[name] = part
        elif isinstance(part, nn.Linear) and part not in inside:
            outputs.append(part)
        elif part not in inside:
            tables += [t.squeeze() for t in (*part.parameters(recurse=False), *part.buffers(recurse=False))]
    if len(tokens) not in (1, 2):
        raise ValueError(f"the module holds {len(tokens)} token embeddings {list(tokens)}, not one or two. {BY_PARTS}")
    pairs = itertools.permutations(tokens.values()) if len(tokens) == 2 else [(*tokens.values(),) * 2]
    joins = [
        (*pair, output)
        for pair, output in itertools.product(pairs, [*outputs, None])
        if output is None or output.weight.shape == pair[1].weight.shape
    ]
    tables = [t for t in tables if t.is_floating_point() and t.dim() == 2 and t.size(1) == d_model]
    if d_model % 2 == 0:
        interleaved = _table("sinusoidal", d_model)
        tables += [interleaved, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1)]
    return joins, [*tables, _table(None, d_model)]


def _table(positions: Positions, d_model: int) -> Tensor:
    length = TransformerConfig.max_positions
    if positions is None:
        return torch.zeros(length, d_model)
    if not isinstance(positions, str):
        return (positions.weight if isinstance(positions, nn.Embedding) else positions).squeeze()
    if positions != "sinusoidal" or d_model % 2:
        needed = "'sinusoidal' with an even d_model, a table, or None"
        raise ValueError(f"positions = {positions!r} with d_model = {d_model} must be {needed}")
    return sinusoids(length, d_model)


def _matrix(part: nn.Embedding | nn.Linear) -> Tensor:
    if getattr(part, "max_norm", None) is not None:
        raise ValueError(f"max_norm = {part.max_norm} changes an embedding in use; only max_norm = None can be kept")
    return part.weight


def _pad_id(module: nn.Module, embeddings: Iterable[nn.Embedding]) -> int:
    found = {value for name, value in vars(module).items() if "pad" in name.lower() and type(value) is int}
    found |= {e.padding_idx for e in embeddings if e.padding_idx is not None}
    if len(found) > 1:
        raise ValueError(f"the module names several pad ids, {sorted(found)}; pass the right one as pad_id")
    return found.pop() if found else 0


def _paper(encoder: Any, decoder: Any, parts: _Parts, source: Tensor, target_input: Tensor) -> Tensor:
    # The logits of the paper's model with PyTorch's two stacks in its middle.
    batch_first = encoder.layers[0].self_attn.batch_first

    def embedded(tokens: Tensor, matrix: Tensor) -> Tensor:
        states = F.embedding(tokens, matrix) * parts.scale + parts.positions[: tokens.size(1)].to(matrix)
        return states if batch_first else states.transpose(0, 1)

    hidden = ~causal_mask(target_input.size(1), device=source.device)  # True means the opposite to PyTorch
    states = decoder(embedded(target_input, parts.target), encoder(embedded(source, parts.source)), tgt_mask=hidden)
    return F.linear(states if batch_first else states.transpose(0, 1), parts.output, parts.output_bias)


def _run(module: nn.Module, source: Tensor, target_input: Tensor) -> Tensor:
    # The module's own logits, (batch, length, vocabulary), whichever of the first two axes it puts first.
    hidden = ~causal_mask(target_input.size(1), device=source.device)  # True means the opposite to PyTorch
    masks, problems = {}, []
    for name, argument in list(inspect.signature(module.forward).parameters.items())[2:]:
        if re.search(r"(tgt|trg|target)_mask$", name):
            masks[name] = hidden
        elif argument.default is argument.empty and not argument.kind.name.startswith("VAR"):
            masks[name] = None
    for ids in ((source, target_input), (source.T, target_input.T)):
        try:
            logits = module(*ids, **masks)
            if logits.shape[:2] in (target_input.shape, target_input.T.shape):
                return logits if len(logits) == len(source) else logits.transpose(0, 1)
            problems.append(f"an output of shape {tuple(logits.shape)}")
        except Exception as error:  # Its code is not ours and may raise anything.
            problems.append(f"{type(error).__name__}: {error}")
    tried = f"(batch, length): {problems[0]}; for (length, batch): {problems[1]}"
    raise ValueError(f"{type(module).__name__}(source, target_input) gave no logits for ids {tried}. {BY_PARTS}")


def _recognised(candidates: list[_Parts], module: nn.Module, transformer: nn.Transformer) -> _Parts:
    # The way to join the parts that gives the module's own logits.
    ids = _random_ids(min(candidates, key=lambda parts: len(parts.positions)))
    logits = _run(module, *ids)
    for parts in candidates:
        if _close(_paper(transformer.encoder, transformer.decoder, parts, *ids), logits):
            return parts
    scales = " or ".join(f"{scale:g}" for scale in sorted({parts.scale for parts in candidates}))
    raise ValueError(
        f"{type(module).__name__} joins its parts in a way not found by running it. Tried: embeddings times {scales}, "
        f"plus nothing, sinusoids (interleaved or in halves) or a table it holds, one for both sides. {BY_PARTS}"
    )


def _verified(parts: _Parts, theirs: Callable[[Tensor, Tensor], Tensor]) -> Transformer:
    model, ids = _assembled(parts), _random_ids(parts)
    if not _close(model(*ids), theirs(*ids)):
        raise ValueError("the original computes more than its weights tell, as a subclass or a hook may; ours cannot")
    return model


def _random_ids(parts: _Parts) -> tuple[Tensor, ...]:
    # Two sentences on each side, without padding. Lengths of 6 and 5, so that no axis is taken for another.
    length, vocabulary = min(6, len(parts.positions)), min(len(parts.source), len(parts.target))
    ids = torch.randint(vocabulary - 1, (2, 2 * length - 1), generator=torch.Generator().manual_seed(0))
    ids = (ids + (ids >= parts.settings["pad_id"])).to(parts.source.device)
    return ids.split([length, length - 1], dim=1)


def _close(found: Tensor, expected: Tensor) -> bool:
    # Rounding in a deep stack stays below this; another way to join the parts is off by far more.
    tolerance = max(1e-4, 20 * torch.finfo(expected.dtype).eps) * expected.abs().max()
    return found.shape == expected.shape and bool((found - expected).abs().max() <= tolerance)


def _assembled(parts: _Parts) -> Transformer:
    settings, order = parts.settings, _order_of_sinusoids(parts.positions) if parts.recognise else None
    factor = parts.scale / math.sqrt(settings["d_model"])  # Ours multiplies by √d_model.
    ends_in_norm = settings["final_norm"] or settings["norm_order"] == "post"
    shared = torch.equal(parts.source, parts.target)
    tied = torch.equal(parts.output, parts.target) and (ends_in_norm or math.isclose(factor, 1.0))
    own = {
        "embedding.weight": parts.target * factor,
        "own_source_embedding.weight": None if shared else parts.source * factor,
        "own_output_embedding.weight": None if tied else parts.output,
        "output_bias": parts.output_bias,
        "positions.table": None if order is not None else parts.positions.to(parts.target),
    }
    weights = parts.stacks | {name: weight for name, weight in own.items() if weight is not None}
    config = TransformerConfig(
        vocabulary_size=len(parts.target),
        source_vocabulary_size=None if shared else len(parts.source),
        positions="learned" if order is None else "sinusoidal",
        max_positions=len(parts.positions),
        attention_bias=any(name.endswith("projection.bias") for name in weights),
        tied_output=tied,
        output_bias=parts.output_bias is not None,
        **settings,
    )
    model = _loaded(config, weights if order is None else _reordered(weights, order))
    if tied and ends_in_norm:  # The last normalisation takes back by what the shared matrix grew.
        last: Any = model.decoder.norm if config.has_final_norm else model.decoder.layers[-1].feed_forward_norm.norm
        last.weight /= factor
        last.bias /= factor
    return model


def _order_of_sinusoids(table: Tensor) -> Tensor | None:
    # The order of the table's columns that makes them our sinusoids, if there is one.
    length, d_model = table.shape
    if d_model % 2:
        return None
    exact = sinusoids(length, d_model, dtype=torch.float64)
    # Most tables are computed in float32, where an angle's error grows with the angle.
    tolerance = torch.finfo(table.dtype).eps + 2.4e-7 * torch.arange(1, length + 1)[:, None]
    for order in (torch.arange(d_model), torch.arange(d_model).view(2, -1).T.flatten()):
        if ((table.cpu()[:, order] - exact).abs() <= tolerance).all():
            return order
    return None


def _reordered(weights: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    # The same function with the axis d_model in another order.
    def reordered(name: str, weight: Tensor) -> Tensor:
        return weight[..., order] if READS.search(name) else weight[order] if WRITES.search(name) else weight

    return {name: reordered(name, weight) for name, weight in weights.items()}


def _loaded(config: TransformerConfig, weights: dict[str, Tensor]) -> Transformer:
    with torch.device("meta"):  # names and shapes, without memory
        model = Transformer(config)
    for name, empty in model.state_dict().items():
        if name not in weights and name.endswith(("bias", "norm.weight")):
            # A layer without a bias adds 0. A normalisation without a gain multiplies by 1.
            weights[name] = weights["embedding.weight"].new_full(empty.shape, float(name.endswith("weight")))
    unlike = sorted(weights.keys() ^ model.state_dict().keys())
    if unlike:
        raise ValueError(f"only one of the models has the weights {unlike}; PyTorch's and Marian's own layers match")
    model.load_state_dict({name: weight.clone() for name, weight in weights.items()}, assign=True)
    return model.eval()


def pytorch_names(
    model: Transformer,
    names: Iterable[str],
) -> dict[str, Tensor]:
    """The weights of the stacks under nn.Transformer's names."""
    ours = model.state_dict()
    renamed = {
        "self_attn": "self_attention",
        "multihead_attn": "cross_attention",
        "linear1": "feed_forward.inner",
        "linear2": "feed_forward.outer",
    }
    norms = {
        "encoder": ["self_attention_norm", "feed_forward_norm"],
        "decoder": [
            "self_attention_norm",
            "cross_attention_norm",
            "feed_forward_norm",
        ],
    }
    found = {}
    for name in names:
        stack, *rest = name.split(".")
        if rest[0] == "norm":
            found[name] = ours[name]
            continue
        layer, part, kind = f"{stack}.layers.{rest[1]}", rest[2], rest[-1]
        if part.startswith("norm"):
            norm = norms[stack][int(part[-1]) - 1]
            found[name] = ours[f"{layer}.{norm}.norm.{kind}"]
            continue
        ours_is = f"{layer}.{renamed[part]}"
        if kind.startswith("in_proj"):
            kind = kind.removeprefix("in_proj_")
            sides = ("query", "key", "value")
            rows = [f"{ours_is}.{side}_projection.{kind}" for side in sides]
            found[name] = torch.cat([ours[row] for row in rows])
        elif rest[3] == "out_proj":
            found[name] = ours[f"{ours_is}.output_projection.{kind}"]
        else:
            found[name] = ours[f"{ours_is}.{kind}"]
    return found
