"""What a training step costs in floating-point operations and in bytes, counted from the sizes of the model."""

from collections.abc import Sequence

from transformer_lib import TransformerConfig


def forward_flops(
    config: TransformerConfig,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    whole_square: bool = False,
) -> dict[str, int]:
    """Operations of the forward pass, two a multiply-add, by what they are for.

    Padding does not count, nor what is no matrix product (softmax, sums,
    normalisation, dropout).

    Args:
        source_lengths, target_lengths: tokens of each sentence, the special
            ones included.
        whole_square: count the masked half of the decoder's attention to
            itself too, as a program does that computes it and throws it away.
    """
    c = config
    source, target = sum(source_lengths), sum(target_lengths)
    encoder, decoder = c.num_layers, c.decoder_layers
    # One token through queries or keys, and through values or outputs.
    to_keys = c.d_model * c.num_heads * c.d_k
    to_values = c.d_model * c.num_heads * c.d_v
    own = 2 * to_keys + 2 * to_values  # query, key, value, output
    cross = (to_keys + to_values) * (source + target)
    pairs = encoder * sum(n * n for n in source_lengths)
    for n, m in zip(target_lengths, source_lengths, strict=True):
        seen = n * n if whole_square else n * (n + 1) // 2
        pairs += decoder * (seen + n * m)
    tokens = encoder * source + decoder * target  # each through one layer
    multiply_adds = {
        "projections": own * tokens + decoder * cross,
        "feed-forward": 2 * c.d_model * c.d_ff * tokens,
        "attention": pairs * c.num_heads * (c.d_k + c.d_v),
        "logits": c.d_model * c.vocabulary_size * target,
    }
    return {part: 2 * count for part, count in multiply_adds.items()}


def training_flops(
    config: TransformerConfig,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> int:
    """Operations of a training step.

    Each product of the forward pass has two more of its size in the backward
    pass.
    """
    forward = forward_flops(config, source_lengths, target_lengths)
    return 3 * sum(forward.values())


def state_bytes(parameters: int) -> int:
    """Bytes of weights, their gradients and Adam's averages in float32."""
    return 4 * (1 + 1 + 2) * parameters


def intensity(
    rows: int,
    inner: int,
    columns: int,
    bytes_per_number: int = 4,
) -> float:
    """Operations of a matrix product for each byte of its three matrices."""
    numbers = rows * inner + inner * columns + rows * columns
    return 2 * rows * inner * columns / (bytes_per_number * numbers)
