"""The operations of a forward pass."""


def forward_flops(c, source, target, whole_square=False):
    """One pair through a model of sizes c: two operations a multiply-add.

    source, target: tokens, the special ones included
    whole_square: count the masked half of the decoder's attention to itself
    too, as a program does that computes it and throws it away
    -> operations of the matrix products, by what they are for
    """
    keys = c.d_model * c.num_heads * c.d_k  # a matrix of queries or of keys
    values = outputs = c.d_model * c.num_heads * c.d_v
    # A query meets a key: a score, then its share of the average.
    one_meeting = c.num_heads * (c.d_k + c.d_v)
    seen = target * target  # pairs of a query and a key that it may look at
    if not whole_square:
        seen = target * (target + 1) // 2
    encoder, decoder = c.num_layers, c.decoder_layers
    tokens = encoder * source + decoder * target  # each through one layer
    attention = (keys + keys + values + outputs) * tokens
    cross_attention = (keys + outputs) * target + (keys + values) * source
    meetings = encoder * source * source + decoder * (seen + target * source)
    multiply_adds = {
        "projections": attention + decoder * cross_attention,
        "feed-forward": 2 * c.d_model * c.d_ff * tokens,
        "attention": one_meeting * meetings,
        "logits": c.d_model * c.vocabulary_size * target,
    }
    return {part: 2 * count for part, count in multiply_adds.items()}
