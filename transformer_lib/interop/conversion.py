"""The weights of another library's translator in our model, run beside the original."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..config import TransformerConfig
from ..layers import ACTIVATIONS
from ..transformer import Transformer, evaluation_mode


def converted(
    original: Any,
    stacks: tuple[Any, Any],
    weights: dict[str, Tensor],
    scale: float,
    ids: tuple[int, int, int],
    logits: Callable[[Tensor, Tensor], Tensor],
) -> Transformer:
    """Our Transformer with copies of these weights, in evaluation mode.

    Args:
        stacks: the original's encoder and decoder. The first layer tells heads, activation and order of norms.
        weights: by our names, with a matrix each for source, target and output; equal ones become one.
        scale: of embedded tokens. Ours multiplies by √d_model; the matrices take the rest.
        ids: of <pad>, <bos> and <eos>.
        logits: the original's function of source and target_input, which the result must have, too.

    Raises:
        ValueError: what our model cannot express.
    """
    if not 0 < scale < math.inf:
        raise ValueError(f"embedding_scale = {scale!r} must be finite and greater than 0")
    if len(kinds := {(weight.dtype, weight.device) for weight in weights.values()}) > 1:
        raise ValueError(f"the parts have several dtypes or devices, {kinds}; move all to one with .to(…)")
    epsilons = {part.eps for part in original.modules() if isinstance(part, nn.LayerNorm)}
    if epsilons != {1e-5}:
        raise ValueError(f"layer_norm_eps = {epsilons} has no counterpart: our normalisations have 1e-05")
    depths = [len(stack.layers) for stack in stacks]
    layer, final_norm = stacks[0].layers[0], isinstance(getattr(stacks[0], "norm", None), nn.LayerNorm)
    pre_norm, num_heads = getattr(layer, "norm_first", False), layer.self_attn.num_heads
    target, source = weights["embedding.weight"], weights["own_source_embedding.weight"]
    d_ff, d_model = weights["encoder.layers.0.feed_forward.inner.weight"].shape
    factor, ends_in_norm = scale / math.sqrt(d_model), final_norm or not pre_norm
    shared = torch.equal(source, target)
    tied = torch.equal(weights["own_output_embedding.weight"], target) and (ends_in_norm or math.isclose(factor, 1.0))
    one_matrix = {"own_source_embedding.weight": shared, "own_output_embedding.weight": tied}
    weights = weights | {"embedding.weight": target * factor, "own_source_embedding.weight": source * factor}
    weights = {name: weight for name, weight in weights.items() if not one_matrix.get(name)}
    table = weights.get("positions.table")
    config = TransformerConfig(
        vocabulary_size=len(target),
        source_vocabulary_size=None if shared else len(source),
        num_layers=depths[0],
        num_decoder_layers=None if depths[0] == depths[1] else depths[1],
        d_model=d_model,
        d_ff=d_ff,
        num_heads=num_heads,
        d_k=d_model // num_heads,
        d_v=d_model // num_heads,
        p_drop=getattr(layer.dropout, "p", layer.dropout),
        norm_order="pre" if pre_norm else "post",
        final_norm=final_norm,
        positions="sinusoidal" if table is None else "learned",
        max_positions=TransformerConfig.max_positions if table is None else len(table),
        activation=_activation(getattr(layer, "activation_fn", None) or layer.activation, target),
        attention_bias=any(name.endswith("projection.bias") for name in weights),
        tied_output=tied,
        output_bias="output_bias" in weights,
        pad_id=ids[0],
        bos_id=ids[1],
        eos_id=ids[2],
    )
    model = _loaded(config, weights)
    if tied and ends_in_norm:  # The last normalisation takes back by what the shared matrix grew.
        last: Any = model.decoder.norm if final_norm else model.decoder.layers[-1].feed_forward_norm.norm
        last.weight /= factor
        last.bias /= factor
    _verify(model, original, logits)
    return model


def _activation(function: Callable[[Tensor], Tensor], like: Tensor) -> Any:
    inputs, tolerance = torch.linspace(-6, 6, 121).to(like), max(1e-6, 4 * torch.finfo(like.dtype).eps)
    for name, ours in ACTIVATIONS.items():  # One function goes by many names; its values tell.
        if torch.allclose(function(inputs), ours(inputs), rtol=tolerance, atol=tolerance):
            return name
    raise ValueError(f"activation = {function} is none of {', '.join(ACTIVATIONS)}, all that ours has")


def _loaded(config: TransformerConfig, weights: dict[str, Tensor]) -> Transformer:
    with torch.device("meta"):  # names and shapes, without memory
        model = Transformer(config)
    complete = {name: weight.clone() for name, weight in weights.items()}
    for name, empty in model.state_dict().items():
        if name not in complete and name.endswith(("bias", "norm.weight")):
            # A layer without a bias adds 0. A normalisation without a gain multiplies by 1.
            complete[name] = complete["embedding.weight"].new_full(empty.shape, float(name.endswith("weight")))
    try:
        model.load_state_dict(complete, assign=True)
    except RuntimeError as error:
        raise ValueError(
            f"ours has one width, vocabulary and kind of layer for the parts that share it. {error}"
        ) from None
    return model.eval()


def _verify(model: Transformer, original: nn.Module, logits: Callable[[Tensor, Tensor], Tensor]) -> None:
    config, weight = model.config, model.embedding.weight
    vocabulary = min(config.vocabulary_size, config.source_vocabulary_size or config.vocabulary_size)
    shape, generator = (2, 2, min(6, config.max_positions)), torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary - 1, shape, generator=generator)
    ids = (ids + (ids >= config.pad_id)).to(weight.device)  # nowhere padding
    with evaluation_mode(original):  # No copy instead: PyTorch's decoder layer forgets an activation that is a module.
        expected = logits(*ids)
    # Rounding in a deep stack stays below this.
    tolerance = max(1e-4, 20 * torch.finfo(weight.dtype).eps) * expected.abs().max()
    if not (model(*ids) - expected).abs().max() <= tolerance:
        raise ValueError(
            "the logits of the two models differ. A hook or subclass changes the original, "
            "or its layers are not all alike in heads, activation or norms"
        )
