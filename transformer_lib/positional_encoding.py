"""Where a token stands in its sentence: fixed sinusoids, or a learned table."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import check_positive


def sinusoids(
    length: int,
    d_model: int,
    base: float = 10000.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "length d_model"]:
    """Sines and cosines of the position, at d_model / 2 frequencies.

        PE(pos, 2i)     = sin(pos / base^(2i / d_model))
        PE(pos, 2i + 1) = cos(pos / base^(2i / d_model))

    Source: section 3.5 [pe]; a shift is a rotation of each pair [pe-linear].

    Args:
        length: number of positions, counted from 0.
        base: sets the longest wavelength,
            base^((d_model - 2) / d_model) · 2π positions.

    Raises:
        ValueError: an odd d_model, a length or width below 1,
            or a base not above 1.
    """
    check_positive(length=length, d_model=d_model)
    if d_model % 2:
        pair = "each frequency fills a pair of dimensions, sine and cosine"
        raise ValueError(f"d_model = {d_model} must be even: {pair}")
    if not base > 1:
        papers = "the paper's is 10000"
        raise ValueError(f"base = {base!r} must be greater than 1; {papers}")
    # float64, because at position 10,000 a float32 angle is wrong
    # in the fourth decimal. Apple's GPUs (mps) lack it.
    computed_on = "cpu" if str(device).startswith("mps") else device
    exact = {"dtype": torch.float64, "device": computed_on}
    position = torch.arange(length, **exact)[:, None]  # (length, 1)
    exponent = torch.arange(0, d_model, 2, **exact) / d_model  # (d_model / 2)
    angle = position / base**exponent  # (length, d_model / 2)
    # (length, d_model / 2, 2)
    pairs = torch.stack([angle.sin(), angle.cos()], dim=-1)
    return pairs.flatten(1).to(device, dtype)  # sine, cosine, sine, cosine, …


class SinusoidalPositions(nn.Module):
    """The fixed encoding as a layer without weights. It has a value at every length."""

    def __init__(self, d_model: int):
        super().__init__()
        self.d_model = d_model

    def forward(
        self,
        states: Float[Tensor, "batch length d_model"],
    ) -> Float[Tensor, "length d_model"]:
        """The encodings to add to states of this length, in their precision
        and on their device."""
        kind = {"dtype": states.dtype, "device": states.device}
        return sinusoids(states.size(1), self.d_model, **kind)


class LearnedPositions(nn.Module):
    """One trained vector for each position. It has no value past its last row.

    Source: section 3.5 and Table 3, row E [learned-pe].
    """

    def __init__(self, max_positions: int, d_model: int):
        super().__init__()
        check_positive(max_positions=max_positions, d_model=d_model)
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(
        self,
        states: Float[Tensor, "batch length d_model"],
    ) -> Float[Tensor, "length d_model"]:
        """The vectors to add to states of this length.

        Raises:
            ValueError: a sentence longer than the table.
        """
        length, limit = states.size(1), self.table.size(0)
        if length > limit:
            raise ValueError(
                f"length = {length} is beyond max_positions = {limit}: "
                "learned positions have no vector there; shorten the input, "
                "train with a larger max_positions, "
                "or use positions='sinusoidal'"
            )
        return self.table[:length]
