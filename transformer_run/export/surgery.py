"""A trained model with three kinds of switches: each head, the scale of the scores, the positions.

The switches are hooks on the library's modules, so the library has no option for them. `page.py` exports the
model inside this block, with the switches as inputs of the graph. On the page `live` the reader turns them.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from jaxtyping import Float
from torch import Tensor

from transformer_lib.transformer import Transformer, named_attentions


@contextmanager
def operated(
    model: Transformer,
    head_gates: Float[Tensor, "attentions heads"],
    score_factor: Float[Tensor, ""] | float,
    position_factor: Float[Tensor, ""] | float,
) -> Iterator[None]:
    """The model with these switches, inside the `with` block. With 1 everywhere it is the model as trained.

        MultiHead = Σ_i gate_i · head_i W_i^O
        weights   = softmax(score_factor · Q K^T / √d_k)
        embedded  = √d_model · embedding + position_factor · PE

    Args:
        head_gates: a row for each attention, in the order of named_attentions; 0 takes a head out, as `heads_removed`
            does.
        score_factor: √d_k undoes the division; 0 gives every key that may be seen the same weight.
        position_factor: 0 leaves the words without positions.

    Raises:
        ValueError: another number of attentions or heads than the model has.
    """
    attentions = [attention for _, attention in named_attentions(model)]
    wanted = (len(attentions), attentions[0].num_heads)
    if tuple(head_gates.shape) != wanted:
        raise ValueError(f"head_gates has shape {tuple(head_gates.shape)}; this model needs {wanted}, a gate a head")
    with ExitStack() as hooks:
        for attention, gates in zip(attentions, head_gates, strict=True):
            hooks.enter_context(attention.output_projection.register_forward_pre_hook(gated(gates)))
            hooks.enter_context(attention.query_projection.register_forward_hook(multiplied(score_factor)))
        hooks.enter_context(model.positions.register_forward_hook(multiplied(position_factor)))
        yield


def gated(gates: Float[Tensor, " heads"]) -> Callable[[object, tuple[Tensor, ...]], Tensor]:
    """A hook before W^O: each head's part of the concatenation, times its gate."""

    def hook(_module: object, inputs: tuple[Tensor, ...]) -> Tensor:
        heads = inputs[0].unflatten(-1, (len(gates), -1))  # (batch, queries, heads, d_v)
        return (heads * gates[:, None]).flatten(-2)

    return hook


def multiplied(factor: Tensor | float) -> Callable[[object, object, Tensor], Tensor]:
    """A hook after a module: its output times the factor."""
    return lambda _module, _inputs, output: output * factor
