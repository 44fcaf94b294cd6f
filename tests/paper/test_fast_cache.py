"""The quicker cache decodes as the plain one, and stands back where it would not."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import (
    Transformer,
    TransformerConfig,
    beam_search,
    fast,
    fast_cache,
    greedy_decode,
    record_attention,
)
from transformer_lib.cache import DecoderCache, start_decoding
from transformer_lib.embeddings import TokenEmbedding
from transformer_lib.fast_cache import PackedCache, attention_of_candidates, speed_up_decoding

SIZES = {"num_layers": 2, "d_model": 8, "d_ff": 13, "num_heads": 2, "d_k": 3, "d_v": 5}
SOURCE = torch.tensor([[3, 4, 5, 2], [6, 7, 2, 0]])


def model(**changes):
    m = Transformer(TransformerConfig(vocabulary_size=11, **SIZES, **changes)).double().eval()
    for weight in m.parameters():
        weight.data += 0.5 * torch.randn_like(weight)
    return m


def steps(m, beams=1, source=SOURCE):
    """The cache, and the logits of four steps in which each candidate descends from some before it."""
    sentences = len(source)
    with torch.no_grad():
        cache = start_decoding(m, source, 4, beams)
        logits = []
        for step in range(4):
            generator = torch.Generator().manual_seed(step)
            mask = torch.rand(sentences, 1, beams, beams * (step + 1), generator=generator) > 0.4
            mask[..., 0] = True
            tokens = (torch.arange(sentences * beams).view(sentences, beams) + step + 1) % 11
            logits.append(cache.next_logits(tokens, mask if beams > 1 else None))
    return cache, torch.stack(logits)


@pytest.mark.paper("decode")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sentences", [1, 2, 8, 16])  # a row alone, few rows, and many
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("changes", [{}, {"activation": "gelu", "tied_output": False, "output_bias": True}])
def test_the_packed_cache_gives_the_logits_of_the_plain_one(monkeypatch, changes, beams, sentences, threads):
    m, source = model(**changes, source_vocabulary_size=12), SOURCE.repeat(8, 1)[:sentences]
    plain_cache, plain = steps(m, beams, source)
    speed_up_decoding(m)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    cache, packed = steps(m, beams, source)
    assert (type(plain_cache), type(cache)) == (DecoderCache, PackedCache)
    torch.testing.assert_close(packed, plain)


@pytest.mark.parametrize(
    ("threads", "rows", "inputs", "split"),
    [(2, 1, 6, True), (8, 4, 6, True), (2, 5, 6, False), (2, 1, 7, False), (1, 1, 6, False)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_of_few_rows_is_split_for_two_threads(monkeypatch, dtype, threads, rows, inputs, split):
    torch.manual_seed(0)
    states = torch.randn(rows, inputs, dtype=dtype, requires_grad=True)
    matrix, added = torch.randn(inputs, 5, dtype=dtype), torch.randn(rows, 5, dtype=dtype)
    expected, kept = states @ matrix, added.clone()
    plain, called = torch.bmm, []
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch, "bmm", lambda *pair: called.append(len(pair[0])) or plain(*pair))
    for laid_out in (matrix, matrix.t().contiguous().t()):
        torch.testing.assert_close(fast_cache.product(states, laid_out), expected)
        torch.testing.assert_close(fast_cache.product(states, laid_out, added), expected + added)
    assert called == ([2] * 4 if split and dtype == torch.float32 else [])
    assert torch.equal(added, kept)


@pytest.mark.parametrize(("threads", "sentences", "transposed"), [(2, 16, True), (2, 15, False), (1, 16, False)])
def test_logits_of_many_rows_come_from_the_transposed_product(monkeypatch, threads, sentences, transposed):
    m = model()
    speed_up_decoding(m)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    plain, rows = fast_cache.product, []
    monkeypatch.setattr(fast_cache, "product", lambda *factors: rows.append(len(factors[0])) or plain(*factors))
    steps(m, source=SOURCE.repeat(8, 1)[:sentences])
    vocabulary = 11
    assert (vocabulary in rows) == transposed
    assert sentences in rows


def test_the_memory_lies_without_gaps():
    cache, _ = steps(model())
    assert all(part.is_contiguous() for layer in cache.layers for part in layer.memory)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("threads", "sentences", "queries", "written_out"),
    [(2, 8, 2, True), (2, 8, 5, True), (2, 8, 1, False), (2, 8, 6, False), (2, 7, 4, False), (1, 8, 4, False)],
)
def test_attention_is_written_out_for_few_queries_of_many_sentences(
    monkeypatch, threads, sentences, queries, written_out
):
    torch.manual_seed(0)
    query, key = torch.randn(sentences, 2, queries, 3), torch.randn(sentences, 2, 9, 3)
    mask = torch.rand(sentences, 1, queries, 9) > 0.4
    mask[0, 0, 0] = False  # nothing to look at
    expected = F.scaled_dot_product_attention(query, key, key, mask)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.testing.assert_close(attention_of_candidates(query, key, key, mask), expected)
    called = []
    monkeypatch.setattr(fast_cache, "scaled_dot_product_attention", lambda *_: called.append("formula") or (None, None))
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *_: called.append("kernel"))
    attention_of_candidates(query, key, key, mask)
    assert called == ["formula" if written_out else "kernel"]


def test_a_beam_over_many_sentences_finds_the_same_by_the_formula_and_by_the_kernel(monkeypatch):
    m, source = model(), SOURCE.repeat(4, 1)
    plain = beam_search(m, source, 3, max_length=6)
    speed_up_decoding(m)
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert torch.equal(beam_search(m, source, 3, max_length=6), plain)


def test_matrices_are_stored_by_column_and_keep_their_values():
    m = model()
    target_input = torch.tensor([[1, 7, 2, 0], [1, 2, 0, 0]])
    plain, before = m(SOURCE, target_input), {name: weight.clone() for name, weight in m.state_dict().items()}
    speed_up_decoding(m)
    torch.testing.assert_close(m(SOURCE, target_input), plain)
    assert all(torch.equal(weight, before[name]) for name, weight in m.state_dict().items())
    by_column = {name for name, weight in m.named_parameters() if weight.dim() == 2 and weight.stride(0) == 1}
    assert "embedding.weight" in by_column
    assert "encoder.layers.0.feed_forward.inner.weight" in by_column
    assert "encoder.layers.0.feed_forward.outer.weight" not in by_column


class Louder(nn.Linear):
    """A part of the reader's own."""

    def forward(self, input):
        return 2 * super().forward(input)


def own_part(m):
    m.decoder.layers[1].feed_forward.inner = Louder(8, 13).double()


class Sharper(TokenEmbedding):
    """Logits of the reader's own."""

    def logits(self, states, bias=None):
        return 2 * super().logits(states, bias)


def own_logits(m):
    m.embedding.__class__ = Sharper


def own_output(m):
    m.own_output_embedding = Sharper(11, 8).double()


class Colder(Transformer):
    """A model of the reader's own."""

    def embed(self, *arguments):
        return super().embed(*arguments) / 2


def own_model(m):
    m.__class__ = Colder


def hook(m):
    m.decoder.layers[0].cross_attention.register_forward_hook(lambda *_: None)


def encoder_hook(m):
    m.encoder.register_forward_hook(lambda *_: None)


def pre_hook(m):
    m.decoder.layers[0].register_forward_pre_hook(lambda *_: None)


@pytest.mark.parametrize(
    "change", [own_part, own_logits, own_output, own_model, hook, encoder_hook, pre_hook, nn.Module.train]
)
def test_a_decoder_that_computes_more_than_its_weights_tell_has_the_plain_cache(change):
    m = model()
    speed_up_decoding(m)
    assert type(steps(m)[0]) is PackedCache
    change(m)
    assert type(steps(m)[0]) is DecoderCache


@pytest.mark.parametrize("changes", [{"norm_order": "pre"}, {"attention_bias": True}])
def test_another_form_than_the_papers_has_the_plain_cache(changes):
    m = model(**changes)
    plain = greedy_decode(m, SOURCE, 5)
    speed_up_decoding(m)
    assert type(steps(m)[0]) is DecoderCache
    assert torch.equal(greedy_decode(m, SOURCE, 5), plain)


def test_recorded_weights_and_gradients_need_the_plain_cache():
    m = model()
    speed_up_decoding(m)
    with record_attention(m) as weights:
        assert type(steps(m)[0]) is DecoderCache
    assert "decoder.1.self" in weights
    assert type(start_decoding(m, SOURCE, 3)) is DecoderCache  # with gradients
    fast.speed_up(m)  # a translator that was trained on
    assert type(steps(m)[0]) is PackedCache
