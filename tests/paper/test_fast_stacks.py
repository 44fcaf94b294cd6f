"""The stacks without padding compute what the plain ones do, and stand back where they would not."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import Transformer, TransformerConfig, fast, fast_stacks, record_attention
from transformer_lib.attention import scaled_dot_product_attention
from transformer_lib.fast_cache import speed_up_decoding
from transformer_lib.fast_stacks import UnpaddedDecoder, UnpaddedEncoder
from transformer_lib.layers import FeedForward

SIZES = {"num_layers": 2, "d_model": 8, "d_ff": 13, "num_heads": 2, "d_k": 3, "d_v": 5, "p_drop": 0.0}
SOURCE = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0], [8, 9, 2, 0]])
TARGET = torch.tensor([[1, 7, 0], [1, 8, 9], [1, 0, 0]])
IN_FRONT = torch.tensor([[3, 4, 5, 2], [0, 0, 6, 2], [0, 8, 0, 2]])  # padding before the words, and between them


def pair(**changes):
    """A model as it is, and the same weights with the stacks that leave padding out."""
    plain = Transformer(TransformerConfig(vocabulary_size=11, **SIZES, **changes)).double()
    unpadded = copy.deepcopy(plain)
    fast.speed_up(unpadded)
    assert (type(unpadded.encoder), type(unpadded.decoder)) == (UnpaddedEncoder, UnpaddedDecoder)
    return plain, unpadded


def outcome(model, source, target):
    """The logits of the real tokens, and the gradients of all weights."""
    model.zero_grad()
    real = target.flatten().nonzero()[:, 0]
    logits = model(source, target, real)
    (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum().backward()
    return logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """Take small batches apart, too; but none without padding."""
    monkeypatch.setattr(fast_stacks, "WORTH_IT", 1)


@pytest.fixture
def computed(monkeypatch):
    """The shapes of all states that a feed-forward network was given."""
    shapes, forward = [], FeedForward.forward

    def noted(self, states):
        shapes.append(tuple(states.shape[:2]))
        return forward(self, states)

    monkeypatch.setattr(FeedForward, "forward", noted)
    return shapes


@pytest.mark.parametrize("kernel", [F.scaled_dot_product_attention, lambda *a: scaled_dot_product_attention(*a)[0]])
@pytest.mark.parametrize("source", [SOURCE, IN_FRONT])
@pytest.mark.parametrize(
    "changes",
    [{}, {"norm_order": "pre", "attention_bias": True}, {"tied_output": False, "source_vocabulary_size": 12}],
)
def test_logits_and_gradients_are_those_of_the_plain_stacks(computed, changes, source, kernel):
    plain, unpadded = pair(**changes)
    for part in unpadded.modules():
        if hasattr(part, "kernel"):
            part.kernel = kernel
    logits, gradients = outcome(plain, source, TARGET)
    computed.clear()
    found, found_gradients = outcome(unpadded, source, TARGET)
    words, target_words = (source != 0).sum(), (TARGET != 0).sum()
    assert computed == [(1, words)] * 2 + [(1, target_words)] * 2, "the real tokens alone"
    torch.testing.assert_close(found, logits)
    torch.testing.assert_close(found_gradients, gradients)


def test_the_first_token_counts_where_it_is_the_id_of_padding(computed):
    """As in the published models of Marian."""
    plain, unpadded = pair(bos_id=0, pad_id=0)
    target = torch.tensor([[0, 7, 8], [0, 9, 0]])
    logits = plain(SOURCE[:2], target)
    computed.clear()
    found = unpadded(SOURCE[:2], target)
    assert computed[-1] == (1, 5)
    seen = torch.tensor([[True, True, True], [True, True, False]])
    torch.testing.assert_close(found[seen], logits[seen])


def test_layers_may_be_shared():
    plain, _ = pair()
    plain.encoder.layers[1], plain.decoder.layers[1] = plain.encoder.layers[0], plain.decoder.layers[0]
    unpadded = copy.deepcopy(plain)
    fast.speed_up(unpadded)
    torch.testing.assert_close(outcome(unpadded, SOURCE, TARGET), outcome(plain, SOURCE, TARGET))


def test_what_stands_at_padding_reaches_nobody():
    """The memory at padding is a copy of another token; no logits and no gradients may depend on it."""
    _, unpadded = pair()
    memory = unpadded.encode(SOURCE).detach()
    changed = memory.masked_fill((SOURCE == 0).unsqueeze(-1), 100.0)
    found = []
    for given in (memory, changed):
        given.requires_grad_()
        logits = unpadded.decode(TARGET, given, SOURCE)[TARGET != 0]
        (gradient,) = torch.autograd.grad(logits.square().sum(), given)
        assert not gradient[SOURCE == 0].any()
        found.append((logits.detach(), gradient))
    torch.testing.assert_close(*found)


def test_translators_encode_without_padding(computed):
    plain, _ = pair()
    unpadded = copy.deepcopy(plain)
    speed_up_decoding(unpadded)
    with torch.inference_mode():
        memory = plain.encode(SOURCE)
        computed.clear()
        found = unpadded.encode(SOURCE)
    assert computed == [(1, (SOURCE != 0).sum())] * 2
    torch.testing.assert_close(found[SOURCE != 0], memory[SOURCE != 0])
    assert unpadded.state_dict().keys() == plain.state_dict().keys()


class Neighbours(FeedForward):
    """A part of the reader's own in which positions meet."""

    def forward(self, states):
        return super().forward(states) + states.roll(1, dims=1)


def own_part(stack):
    stack.layers[0].feed_forward = Neighbours(8, 13).double()


def hook(stack):
    stack.layers[1].register_forward_hook(lambda *_: None)


def pre_hook(stack):
    stack.register_forward_pre_hook(lambda *_: None)


@pytest.mark.parametrize("change", [own_part, hook, pre_hook])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_part_of_ones_own_and_a_hook_get_the_batch_as_it_is(computed, stack, change):
    _, unpadded = pair()
    change(getattr(unpadded, stack))
    plain = copy.deepcopy(unpadded)
    plain.encoder.__class__, plain.decoder.__class__ = UnpaddedEncoder.__bases__[0], UnpaddedDecoder.__bases__[0]
    logits = plain(SOURCE, TARGET)
    computed.clear()
    found = unpadded(SOURCE, TARGET)
    assert tuple((SOURCE if stack == "encoder" else TARGET).shape) in computed
    torch.testing.assert_close(found[TARGET != 0], logits[TARGET != 0])


@pytest.mark.parametrize(
    "mask", [torch.ones(3, 1, 1, 4) == 1, torch.ones(4, 4).tril() == 1, torch.ones(3, 1, 4, 4).tril(-1) == 1]
)
def test_a_mask_of_ones_own_gets_the_batch_as_it_is(computed, mask):
    """Such as one without a token whose output is wanted."""
    plain, unpadded = pair()
    states = torch.randn(3, 4, 8, dtype=torch.float64)
    torch.testing.assert_close(unpadded.encoder(states, mask), plain.encoder(states, mask))
    assert set(computed) == {(3, 4)}
    source_mask = (SOURCE != 0)[:, None, None]
    expected = plain.decoder(states, states, mask, source_mask)
    torch.testing.assert_close(unpadded.decoder(states, states, mask, source_mask), expected)


def test_recorded_weights_are_those_of_the_batch():
    plain, unpadded = pair()
    with record_attention(plain) as expected:
        plain(SOURCE, TARGET)
    with record_attention(unpadded) as weights:
        unpadded(SOURCE, TARGET)
    torch.testing.assert_close(weights, expected)


@pytest.mark.usefixtures("unchecked")
def test_without_a_mask_nobody_is_left_out(computed):
    plain, unpadded = pair()
    states = torch.randn(3, 4, 8, dtype=torch.float64)
    torch.testing.assert_close(unpadded.encoder(states, None), plain.encoder(states, None))
    torch.testing.assert_close(unpadded.decoder(states, states, None, None), plain.decoder(states, states, None, None))
    assert set(computed) == {(3, 4)}


def test_without_padding_nothing_is_taken_apart(computed):
    _, unpadded = pair()
    unpadded(SOURCE[:1], TARGET[1:2])
    assert set(computed) == {(1, 4), (1, 3)}
    computed.clear()
    unpadded(SOURCE[:1].expand(2, 4), TARGET[1:2].expand(2, 3))
    assert set(computed) == {(2, 4), (2, 3)}


def test_in_evaluation_the_logits_are_those_of_the_plain_model_at_padding_too():
    plain, unpadded = pair()
    torch.testing.assert_close(unpadded.eval()(SOURCE, TARGET), plain.eval()(SOURCE, TARGET))


def test_a_batch_with_little_padding_is_not_taken_apart(computed, monkeypatch):
    _, unpadded = pair()
    width = SIZES["d_model"]
    monkeypatch.setattr(fast_stacks, "WORTH_IT", 3 * width)  # the source has 3 cells of padding, the target too
    unpadded(SOURCE, TARGET)
    assert set(computed) == {(1, 9), (1, 6)}
    monkeypatch.setattr(fast_stacks, "WORTH_IT", 3 * width + 1)
    computed.clear()
    unpadded(SOURCE, TARGET)
    assert set(computed) == {(3, 4), (1, 6)}, "a decoder counts the padding of both"


def test_after_an_error_the_attention_is_as_before(monkeypatch):
    _, unpadded = pair()
    before = [part.kernel for part in unpadded.modules() if hasattr(part, "kernel")]

    def stopped(*_):
        raise KeyboardInterrupt

    for place in (unpadded.encoder, unpadded.decoder):
        with monkeypatch.context() as patched:
            patched.setattr(place.layers[1].feed_forward, "activation", stopped)
            with pytest.raises(KeyboardInterrupt):
                unpadded(SOURCE, TARGET)
    assert [part.kernel for part in unpadded.modules() if hasattr(part, "kernel")] == before


def test_dropout_draws_for_real_tokens_alone():
    """Half of the numbers after dropout are 0, at real tokens; those at padding are copies."""
    model = Transformer(TransformerConfig(vocabulary_size=11, **SIZES | {"p_drop": 0.5}))
    fast.speed_up(model)
    shapes = []
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            forward = part.forward
            part.forward = lambda states, forward=forward: (shapes.append(tuple(states.shape)), forward(states))[1]
    model(SOURCE, TARGET)
    assert shapes.count((1, 9, 8)) == 4
    assert shapes.count((1, 6, 8)) == 6
