"""A model with parts of the reader's own decodes by the function that training would give it."""

from types import MethodType

import pytest
import tiny_models
import torch
from tiny_models import SOURCE
from torch import nn

from transformer_lib import MultiHeadAttention, beam_search, greedy_decode
from transformer_lib.cache import DecoderCache, start_decoding
from transformer_lib.decoding import beam_hypotheses

LENGTH = 7


def model(**changes):
    return tiny_models.model(num_layers=2, **changes).eval()


@torch.no_grad()
def by_the_loop(m, source):
    """Greedy decoding by model() alone."""
    tokens = torch.full((len(source), 1), m.config.bos_id)
    for _ in range(LENGTH):
        logits = m(source, tokens)[:, -1]
        logits[:, m.config.pad_id] = -torch.inf
        newest = logits.argmax(dim=-1)
        newest[(tokens == m.config.eos_id).any(dim=1)] = m.config.pad_id
        tokens = torch.cat([tokens, newest[:, None]], dim=1)
    return tokens[:, 1:]


def same_as_the_loop(m):
    found = greedy_decode(m, SOURCE, LENGTH)
    expected = by_the_loop(m, SOURCE)[:, : found.size(1)]
    return torch.equal(found, expected)


class Around(nn.Module):
    """A module around an attention."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, query, key, value, mask=None):
        return query - 2 * self.inner(query, key, value, mask)


class OneLayer(nn.Module):
    """A decoder without a list of layers."""

    def __init__(self, decoder):
        super().__init__()
        self.only = decoder.layers[0]

    def forward(self, states, memory, target_mask, source_mask):
        return self.only(states, memory, target_mask, source_mask)


def own(change, *paths, method="forward"):
    """These parts belong to a subclass from now on, whose method changes what the library's gives."""

    def own_method(part, *given, **named):
        return change(getattr(super(type(part), part), method)(*given, **named))

    def apply(m):
        for path in paths:
            part = m.get_submodule(path)
            part.__class__ = type("Own", (type(part),), {method: own_method})

    return apply


def opposite(output):
    return -3 * output


def wrapped(path):
    """A module stands around this part from now on."""
    return lambda m: m.set_submodule(path, Around(m.get_submodule(path)))


def method_of_one_layer(m):
    attention = m.decoder.layers[0].self_attention
    attention.forward = MethodType(lambda self, *given: opposite(MultiHeadAttention.forward(self, *given)), attention)


def hook(m):
    m.decoder.layers[0].cross_attention.register_forward_hook(lambda _module, _inputs, output: opposite(output))


def pre_hook(m):
    m.decoder.layers[0].register_forward_pre_hook(lambda _module, inputs: (-inputs[0], *inputs[1:]))


def other_decoder(m):
    m.decoder = OneLayer(m.decoder)


def bias(m):
    for layer in m.decoder.layers:
        for attention in (layer.self_attention, layer.cross_attention):
            attention.query_projection = nn.Linear(8, 6).double()
            attention.output_projection = nn.Linear(10, 8).double()


def no_bias(m):
    m.decoder.layers[0].cross_attention.output_projection = nn.Linear(10, 8, bias=False).double()


CHANGES = {
    "subclass": own(opposite, "decoder.layers.0.cross_attention", "decoder.layers.1.cross_attention"),
    "subclass of self-attention": own(opposite, "decoder.layers.1.self_attention"),
    "wrapper": wrapped("decoder.layers.0.cross_attention"),
    "wrapper in the encoder": wrapped("encoder.layers.0.self_attention"),
    "method of one layer": method_of_one_layer,
    "hook": hook,
    "pre-hook": pre_hook,
    "layer": own(opposite, "decoder.layers.1"),
    "decoder": own(lambda states: states.roll(1, dims=-1), "decoder"),
    "another decoder": other_decoder,
    "forward of the model": own(opposite, ""),
    "decode of the model": own(lambda logits: logits.flip(-1), "", method="decode"),
    "bias": bias,
}


@torch.no_grad()
def logits_of_steps(m, target_input):
    cache = start_decoding(m, SOURCE, limit=target_input.size(1))
    return torch.cat([cache.next_logits(tokens[:, None]) for tokens in target_input.T], dim=1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.paper("decode")
@pytest.mark.parametrize("name", CHANGES)
def test_a_step_computes_what_the_model_does_and_greedy_decoding_is_the_loop_over_it(name):
    m, target_input = model(), torch.randint(3, 11, (3, LENGTH))
    before = m(SOURCE, target_input).detach()
    torch.testing.assert_close(logits_of_steps(m, target_input), before)
    CHANGES[name](m)
    after = m(SOURCE, target_input).detach()
    assert (after - before).abs().max() > 0.1
    torch.testing.assert_close(logits_of_steps(m, target_input), after)
    assert same_as_the_loop(m)


def test_a_projection_without_the_bias_of_the_config_is_taken_as_it_is():
    m = model(attention_bias=True)
    no_bias(m)
    assert same_as_the_loop(m)


@pytest.mark.paper("decode")
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_beam_without_the_cache_finds_what_the_cache_finds(beam_size):
    m = model()
    expected = beam_hypotheses(m, SOURCE, beam_size, max_length=LENGTH)
    assert type(start_decoding(m, SOURCE, 2)) is DecoderCache
    own(lambda output: output, "decoder.layers.0.self_attention")(m)
    assert type(start_decoding(m, SOURCE, 2)) is not DecoderCache
    found = beam_hypotheses(m, SOURCE, beam_size, max_length=LENGTH)
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs])
    assert torch.equal(beam_search(m, SOURCE, 1, 0.0, LENGTH), greedy_decode(m, SOURCE, LENGTH))
