"""A model with parts of the reader's own decodes by the function that training would give it."""

from functools import cache

import pytest
import tiny_models
import torch
from tiny_models import SOURCE, Around
from torch import nn

from transformer_lib import MultiHeadAttention, Transformer, beam_search, greedy_decode, record_attention, reference
from transformer_lib.cache import DecoderCache, start_decoding, takes_cache
from transformer_lib.data import WordTokenizer
from transformer_lib.decoding import beam_hypotheses
from transformer_lib.interop.marian import to_marian
from transformer_lib.layers import AddAndNorm, FeedForward
from transformer_lib.own_parts import check_weights_suffice
from transformer_run.export.ctranslate2 import write_ctranslate2
from transformer_run.export.onnx import encoder_and_step
from transformer_run.translator import Translator

LENGTH = 7


def model(**changes):
    return tiny_models.model(num_layers=2, **changes).eval()


def next_tokens(m):
    """For each sentence, the log-probabilities of the next token, by model() alone, which is asked once of each."""

    @cache
    @torch.no_grad()
    def after(row, tokens):
        return m(SOURCE[row : row + 1], torch.tensor([tokens]))[0, -1].log_softmax(-1).numpy()

    return [lambda tokens, row=row: after(row, tuple(tokens)) for row in range(3)]


def same_as_the_loops(m, beam_size=3, limit=5):
    ids, after = (m.config.bos_id, m.config.eos_id, m.config.pad_id), next_tokens(m)
    greedy = [reference.greedy_search(one, *ids, limit)[1] for one in after]
    found = greedy_decode(m, SOURCE, limit).tolist()
    beams = [[h.tokens for h in one] for one in beam_hypotheses(m, SOURCE[:2], beam_size, 0.6, limit)]
    loops = [reference.beam_search(one, *ids, beam_size, 0.6, limit) for one in after[:2]]
    return (found, beams) == (
        [tokens + [0] * (len(found[0]) - len(tokens)) for tokens in greedy],
        [[tokens for _, tokens in one] for one in loops],
    )


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


def by_place(output):
    """Each position along the next to last axis times a number of its own, as rotary positions have it."""
    return output * (3 * torch.arange(output.size(-2)).to(output) + 1).cos()[:, None]


def wrapped(path):
    """A module stands around this part from now on."""
    return lambda m: m.set_submodule(path, Around(m.get_submodule(path), factor=-2))


def hooked(path, change=by_place):
    def apply(m):
        m.get_submodule(path).register_forward_hook(lambda _module, _inputs, output: change(output))

    return apply


def patched(path, method, change=by_place):
    """This method of one object changes its output from now on."""

    def apply(m):
        part = m.get_submodule(path)
        before = getattr(part, method)
        setattr(part, method, lambda *given, **named: change(before(*given, **named)))

    return apply


class TwiceAround(AddAndNorm):
    """An add & norm whose sub-layer runs twice."""

    def forward(self, states, sublayer):
        return super().forward(super().forward(states, sublayer), sublayer)


class OfTheBatch(nn.Module):
    """Positions with an axis for the batch, which depend on the words, too."""

    def forward(self, states):
        return states.cumsum(1).sin()


def placed(path, make):
    """This part is replaced whole."""
    return lambda m: m.set_submodule(path, make())


def cast_to(path, kind):
    def apply(m):
        m.get_submodule(path).__class__ = kind

    return apply


def bias(m):
    for layer in m.decoder.layers:
        for attention in (layer.self_attention, layer.cross_attention):
            attention.query_projection = nn.Linear(8, 6).double()
            attention.output_projection = nn.Linear(10, 8).double()


CHANGES = {
    "subclass": own(opposite, "decoder.layers.0.cross_attention", "decoder.layers.1.cross_attention"),
    "wrapper": wrapped("decoder.layers.0.cross_attention"),
    "subclass in the encoder": own(opposite, "encoder.layers.0.self_attention"),
    "pre-hook": lambda m: m.decoder.layers[0].register_forward_pre_hook(lambda _, given: (-given[0], *given[1:])),
    "layer": own(opposite, "decoder.layers.1"),
    "decoder": own(lambda states: states.roll(1, dims=-1), "decoder"),
    "another decoder": lambda m: setattr(m, "decoder", OneLayer(m.decoder)),
    "forward of the model": own(opposite, ""),
    "bias": bias,
    "__call__": own(by_place, "decoder.layers.0.self_attention", method="__call__"),
    "a sub-layer twice": cast_to("decoder.layers.0.self_attention_norm", TwiceAround),
    "network": own(by_place, "decoder.layers.0.feed_forward"),
    "logits of the embedding": own(by_place, "embedding", method="logits"),
    "positions": own(by_place, "positions"),
    "positions of the batch": placed("positions", OfTheBatch),
    "embed of one object": patched("", "embed"),
    "forward of one projection": patched("decoder.layers.1.self_attention.query_projection", "forward"),
    "hook on a projection": hooked("decoder.layers.1.self_attention.key_projection"),
    "encode of the model": own(opposite, "", method="encode"),
    "shared layers": lambda m: m.decoder.layers.__setitem__(1, m.decoder.layers[0]),
    "a norm of PyTorch's": placed("decoder.layers.0.cross_attention_norm.norm", lambda: nn.RMSNorm(8).double()),
    "another network": placed("decoder.layers.0.feed_forward", lambda: nn.Linear(8, 8).double()),
}
# What the cache can still compute.
CACHED = {
    "subclass in the encoder",
    "bias",
    "encode of the model",
    "shared layers",
    "a norm of PyTorch's",
    "another network",
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
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(logits_of_steps(m, target_input), after)
    assert same_as_the_loops(m)
    assert takes_cache(m) == (name in CACHED)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", [MultiHeadAttention, AddAndNorm, FeedForward])
def test_a_method_replaced_in_the_librarys_own_class_counts_too(monkeypatch, kind):
    m, forward = model(), kind.forward
    monkeypatch.setattr(kind, "forward", lambda *given: by_place(forward(*given)))
    assert not takes_cache(m)
    assert same_as_the_loops(m)
    monkeypatch.undo()
    assert takes_cache(m)


def test_a_hook_keeps_the_logits_that_the_model_computed():
    m, kept = model(), []
    m.register_forward_hook(lambda _module, _inputs, output: kept.append(output))
    found = greedy_decode(m, SOURCE, LENGTH)
    assert found.size(1) > 1
    assert all(logits.isfinite().all() for logits in kept)


class Keeping(MultiHeadAttention):
    """An attention that keeps a table from its first call on, as many rotary positions do."""

    table = None

    def forward(self, query, key, value, mask=None):
        if self.table is None:
            self.table = torch.ones_like(query[:1, :1])
        return super().forward(query * self.table, key, value, mask)


@pytest.mark.parametrize("path", ["encoder.layers.0.self_attention", "decoder.layers.0.self_attention"])
@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
def test_training_goes_on_after_decoding_with_what_a_part_or_a_recorder_kept(path, decode):
    m, kept = model(), []
    cast_to(path, Keeping)(m)
    hook = m.get_submodule("encoder.norm").register_forward_hook(lambda *given: kept.append(given[2]))
    with record_attention(m) as weights:
        ids = decode(m, SOURCE, max_length=LENGTH)
    hook.remove()
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    loss = m(SOURCE, ids).sum() + (kept[0] * scale).sum() + (weights["decoder.0.cross"] * scale).sum()
    loss.backward()
    assert m.embedding.weight.grad.isfinite().all()


@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
def test_the_ids_that_are_found_can_be_learned_from(decode):
    m = model()
    with torch.enable_grad():
        m(SOURCE, decode(m, SOURCE, max_length=LENGTH)).sum().backward()
    assert m.embedding.weight.grad.isfinite().all()
    with torch.inference_mode():
        assert torch.equal(decode(m, SOURCE, max_length=LENGTH), decode(m, SOURCE, max_length=LENGTH))


def test_a_step_as_a_graph_refuses_what_it_would_leave_out():
    m = model()
    own(by_place, "decoder.layers.0.self_attention", method="attend")(m)
    with pytest.raises(ValueError, match="own"):
        encoder_and_step(m, 9)


@pytest.mark.parametrize(
    "change",
    [
        own(by_place, "encoder.layers.0.self_attention", method="attend"),
        own(by_place, "encoder.layers.0"),
        own(by_place, "", method="encode"),
        patched("decoder.layers.0.feed_forward", "forward"),
        placed("decoder.layers.0.feed_forward", lambda: nn.Sequential(nn.Linear(8, 8))),
        placed("encoder.layers.0.self_attention_norm.norm", lambda: nn.RMSNorm(8)),
    ],
)
def test_weights_alone_are_not_kept_of_a_model_with_parts_of_ones_own(change, tmp_path):
    m, tokenizer = model(vocabulary_size=12), WordTokenizer.train(["a b c d e f g h"])
    check_weights_suffice(m)
    hooked("encoder.layers.0")(m)  # whoever looks on changes no weights
    m.__class__ = type("Named", (Transformer,), {"translate": lambda self: self})
    check_weights_suffice(m)
    change(m)
    translator = Translator(m, tokenizer, tokenizer, "de", "en")
    for keep in (translator.save, translator.pack, lambda folder: write_ctranslate2(translator, folder)):
        with pytest.raises(ValueError, match="own"):
            keep(tmp_path)
    with pytest.raises(ValueError, match="own"):
        to_marian(m)
    assert not list(tmp_path.iterdir())


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
