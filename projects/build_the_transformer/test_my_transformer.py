"""Everything fails at first; make it pass. `python -m pytest -x` stops at the first task that is left.

Each test compares with something that your code had no part in: a loop, a closed form, or PyTorch's own modules
with your weights. The points of a test stand above it.
"""

import ast
import cmath
import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from my_transformer import (
    AddAndNorm,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    TokenEmbedding,
    Transformer,
    TransformerConfig,
    beam_search,
    causal_mask,
    count_parameters,
    fit,
    greedy_decode,
    label_smoothing_loss,
    learning_rate,
    look_up,
    pad_rows,
    padding_mask,
    perplexity,
    scaled_dot_product_attention,
    self_attention,
    shift_right,
    sinusoids,
)
from torch import nn
from torch.overrides import TorchFunctionMode

points = pytest.mark.points
HERE = Path(__file__).parent
SMALL = TransformerConfig(vocabulary_size=13, num_layers=2, d_model=12, d_ff=20, num_heads=3, d_k=4, d_v=4, p_drop=0.0)


CALLED = []  # where your code called it


class YoursAlone(TorchFunctionMode):
    """While a test runs, PyTorch's ready-made attention refuses where your code calls it, under whichever name."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, frame = getattr(func, "__name__", ""), sys._getframe()
        if "attention" in name or "transformer_encoder" in name:
            while frame := frame.f_back:
                file = Path(frame.f_code.co_filename)
                if file == HERE / "my_transformer.py" or HERE / "my_transformer" in file.parents:
                    CALLED.append(f"{file.relative_to(HERE)}:{frame.f_lineno} {name}")
                    raise RuntimeError(f"written by you, please: {CALLED[-1]}")
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def _prepare(request, record_property):
    torch.manual_seed(0)
    record_property("points", request.node.get_closest_marker("points").args[0])
    with YoursAlone():
        yield


def small_model(**changes):
    """A model whose every parameter is random, biases and gains too."""
    model = Transformer(replace(SMALL, **changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


def pytorchs_attention(mine):
    """PyTorch's module with the same weights; it needs d_k = d_v = d_model / num_heads."""
    d_model = mine.query_projection.in_features
    theirs = nn.MultiheadAttention(d_model, mine.num_heads, bias=False, batch_first=True)
    copy_attention(mine, theirs)
    return theirs


def copy_attention(mine, theirs):
    projections = (mine.query_projection, mine.key_projection, mine.value_projection)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        theirs.out_proj.weight.copy_(mine.output_projection.weight)
        for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
            if bias is not None:
                bias.zero_()


def copy_layer(mine, theirs):
    """The weights of an encoder or decoder layer into PyTorch's."""
    copy_attention(mine.self_attention, theirs.self_attn)
    norms = [mine.self_attention_norm.norm]
    if hasattr(mine, "cross_attention"):
        copy_attention(mine.cross_attention, theirs.multihead_attn)
        norms.append(mine.cross_attention_norm.norm)
    norms.append(mine.feed_forward_norm.norm)
    theirs.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
    theirs.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


def pytorchs_layer(kind, mine):
    theirs = kind(12, 3, 20, dropout=0.0, batch_first=True)
    copy_layer(mine, theirs)
    return theirs.eval()


# ── Task 1: what the decoder reads ────────────────────────────────────────────────────────────────────────────────────


@points(1)
def test_1_the_decoder_reads_the_word_before():
    target = torch.tensor([[5, 6, 2], [7, 2, 0]])
    assert shift_right(target, bos_id=1).tolist() == [[1, 5, 6], [1, 7, 2]]
    assert target.tolist() == [[5, 6, 2], [7, 2, 0]]  # the target itself stays


# ── Task 2: a soft lookup ─────────────────────────────────────────────────────────────────────────────────────────────


@points(2)
def test_2_scores_become_weights_and_average_the_values():
    scores, value = torch.randn(2, 3, 5), torch.randn(2, 5, 4)
    output, weights = look_up(scores, value)
    for batch, query in itertools.product(range(2), range(3)):
        shares = [math.exp(score) for score in scores[batch, query].tolist()]
        expected = sum(share / sum(shares) * row for share, row in zip(shares, value[batch], strict=True))
        torch.testing.assert_close(output[batch, query], expected)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))


@points(1)
def test_2_large_scores_do_not_overflow():
    output, _ = look_up(torch.tensor([[1000.0, 0.0]]), torch.tensor([[2.0], [5.0]]))
    assert output.tolist() == [[2.0]]


# ── Task 3: self-attention ────────────────────────────────────────────────────────────────────────────────────────────


@points(2)
def test_3_each_word_adds_what_it_finds():
    states, w_query, w_key, w_value = torch.randn(4, 6), torch.randn(6, 3), torch.randn(6, 3), torch.randn(6, 6)
    found, weights = self_attention(states, w_query, w_key, w_value)
    for i in range(4):
        shares = [math.exp((states[i] @ w_query) @ (states[j] @ w_key)) for j in range(4)]
        shares = [share / sum(shares) for share in shares]
        expected = states[i] + sum(share * (states[j] @ w_value) for j, share in enumerate(shares))
        torch.testing.assert_close(found[i], expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(weights[i], torch.tensor(shares), atol=1e-5, rtol=1e-4)


# ── Task 4: equation (1) ──────────────────────────────────────────────────────────────────────────────────────────────


@points(3)
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 1, 1), (7, 2, 4)])
def test_4_attention_equals_pytorchs(shape):
    queries, keys, d_k = shape
    query, key, value = torch.randn(2, queries, d_k), torch.randn(2, keys, d_k), torch.randn(2, keys, 6)
    output, weights = scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(query, key, value))
    assert weights.shape == (2, queries, keys)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, queries))


@points(2)
def test_4_a_mask_hides_keys():
    query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 6)
    mask = torch.rand(2, 1, 5, 7) < 0.6
    mask[..., 0] = True
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    torch.testing.assert_close(output, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))
    assert (weights.masked_select(~mask.expand_as(weights)) == 0).all()


@points(2)
def test_4_a_row_with_nothing_to_look_at_gives_zeros():
    query = torch.randn(3, 4, requires_grad=True)
    mask = torch.tensor([[True, True], [False, False], [True, False]])
    output, weights = scaled_dot_product_attention(query, torch.randn(2, 4), torch.randn(2, 5), mask)
    assert (output[1] == 0).all()
    assert (weights[1] == 0).all()
    output.sum().backward()
    assert query.grad.isfinite().all()


# ── Task 5: several heads ─────────────────────────────────────────────────────────────────────────────────────────────


@points(4)
def test_5_several_heads_equal_pytorchs():
    mine = MultiHeadAttention(12, 3, 4, 4)
    query, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    hidden = torch.rand(2, 7) < 0.4
    hidden[:, 0] = False
    expected, _ = pytorchs_attention(mine)(query, memory, memory, key_padding_mask=hidden)
    torch.testing.assert_close(mine(query, memory, memory, ~hidden[:, None, None, :]), expected)


@points(4)
def test_5_the_width_of_a_head_is_free():
    mine = MultiHeadAttention(10, 2, 3, 7)
    states = torch.randn(1, 4, 10)
    heads = []
    for head in range(2):
        q = states @ mine.query_projection.weight[3 * head : 3 * head + 3].T
        k = states @ mine.key_projection.weight[3 * head : 3 * head + 3].T
        v = states @ mine.value_projection.weight[7 * head : 7 * head + 7].T
        heads.append((q @ k.mT / math.sqrt(3)).softmax(-1) @ v)
    expected = torch.cat(heads, -1) @ mine.output_projection.weight.T
    torch.testing.assert_close(mine(states, states, states), expected)


# ── Task 6: positions ─────────────────────────────────────────────────────────────────────────────────────────────────


@points(4)
@pytest.mark.parametrize(("length", "d_model", "base"), [(6, 8, 10000.0), (40, 2, 10000.0), (11, 6, 50.0)])
def test_6_each_pair_turns_by_its_own_angle(length, d_model, base):
    found = sinusoids(length, d_model, base)
    assert found.shape == (length, d_model)
    for position, pair in itertools.product(range(length), range(d_model // 2)):
        turned = cmath.exp(1j * position / base ** (2 * pair / d_model))
        assert math.isclose(found[position, 2 * pair], turned.imag, abs_tol=1e-5)
        assert math.isclose(found[position, 2 * pair + 1], turned.real, abs_tol=1e-5)


# ── Task 7: tokens to vectors and back ────────────────────────────────────────────────────────────────────────────────


@points(2)
def test_7_an_embedding_is_a_row_times_the_root_of_d_model():
    mine, tokens = TokenEmbedding(7, 16), torch.tensor([[3, 0, 6]])
    torch.testing.assert_close(mine(tokens)[0, 2], 4 * mine.weight[6])


@points(2)
def test_7_logits_are_products_with_the_rows():
    mine, states = TokenEmbedding(7, 16), torch.randn(2, 3, 16)
    expected = torch.stack([(states * row).sum(-1) for row in mine.weight], dim=-1)
    torch.testing.assert_close(mine.logits(states), expected)


# ── Task 8: the parts of a layer, and the layers ──────────────────────────────────────────────────────────────────────


@points(2)
def test_8_the_feed_forward_network_is_two_convolutions_of_width_one():
    mine, states = FeedForward(12, 20), torch.randn(2, 5, 12)
    inner = F.conv1d(states.mT, mine.inner.weight[:, :, None], mine.inner.bias).relu()
    expected = F.conv1d(inner, mine.outer.weight[:, :, None], mine.outer.bias).mT
    torch.testing.assert_close(mine(states), expected)


@points(2)
def test_8_the_sum_is_normalised():
    around, states = AddAndNorm(SMALL), torch.randn(2, 5, 12) * 3 + 1
    found = around(states, lambda x: 2 * x + 1)
    total = 3 * states + 1
    expected = (total - total.mean(-1, keepdim=True)) / (total.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(found, expected)


@points(2)
def test_8_dropout_falls_on_the_sublayer_alone():
    around = AddAndNorm(replace(SMALL, p_drop=0.5)).train()
    zeros, seen = torch.zeros(400, 1, 12), torch.ones(400, 1, 12)
    kept = around(zeros, lambda _: seen)
    assert kept.unique().numel() > 3  # some of the sub-layer's numbers were dropped, differently in each row
    states = torch.randn(400, 1, 12)
    torch.testing.assert_close(around(states, torch.zeros_like), F.layer_norm(states, (12,)))


@points(4)
def test_8_the_encoder_layer_equals_pytorchs():
    mine, states = EncoderLayer(SMALL), torch.randn(2, 5, 12)
    hidden = torch.tensor([[False] * 5, [False, False, False, True, True]])
    theirs = pytorchs_layer(nn.TransformerEncoderLayer, mine)
    expected = theirs(states, src_key_padding_mask=hidden)
    found = mine(states, ~hidden[:, None, None, :])
    torch.testing.assert_close(found[~hidden], expected[~hidden], atol=1e-5, rtol=1e-4)


@points(4)
def test_8_the_decoder_layer_equals_pytorchs():
    mine, states, memory = DecoderLayer(SMALL), torch.randn(2, 4, 12), torch.randn(2, 6, 12)
    hidden = torch.tensor([[False] * 6, [False, False, True, True, True, True]])
    past = torch.ones(4, 4, dtype=torch.bool).tril()
    theirs = pytorchs_layer(nn.TransformerDecoderLayer, mine)
    expected = theirs(states, memory, tgt_mask=~past, memory_key_padding_mask=hidden)
    found = mine(states, memory, past, ~hidden[:, None, None, :])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


# ── Task 9: the masks ─────────────────────────────────────────────────────────────────────────────────────────────────


@points(2)
def test_9_the_future_is_hidden():
    expected = [[column <= row for column in range(5)] for row in range(5)]
    assert causal_mask(5).dtype == torch.bool
    assert causal_mask(5).tolist() == expected


@points(2)
def test_9_padding_is_hidden():
    mask = padding_mask(torch.tensor([[3, 4, 9], [5, 9, 9]]), pad_id=9)
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]


# ── Task 10: the whole model ──────────────────────────────────────────────────────────────────────────────────────────


@points(6)
def test_10_the_whole_model_equals_pytorchs_layers_in_a_row():
    model = small_model()
    source = torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]])
    target = torch.tensor([[1, 5, 6], [1, 7, 0]])
    hidden, past = source == 0, torch.ones(3, 3, dtype=torch.bool).tril()

    def embedded(tokens):
        vectors = F.embedding(tokens, model.embedding.weight) * math.sqrt(12)
        angles = torch.arange(tokens.size(1))[:, None] / 10000 ** (torch.arange(0, 12, 2) / 12)
        return vectors + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

    with torch.no_grad():
        memory = embedded(source)
        for layer in model.encoder.layers:
            memory = pytorchs_layer(nn.TransformerEncoderLayer, layer)(memory, src_key_padding_mask=hidden)
        states = embedded(target)
        for layer in model.decoder.layers:
            theirs = pytorchs_layer(nn.TransformerDecoderLayer, layer)
            states = theirs(states, memory, tgt_mask=~past, memory_key_padding_mask=hidden)
        found = model(source, target)
    real = target != 0
    torch.testing.assert_close(found[real], (states @ model.embedding.weight.T)[real], atol=1e-4, rtol=1e-4)


@points(3)
def test_10_no_logit_depends_on_a_later_token():
    model, source = small_model(), torch.tensor([[5, 6, 7]])
    target = torch.tensor([[1, 4, 5, 6, 7]])
    before = model(source, target)
    for place in range(1, 5):
        changed = target.clone()
        changed[0, place] = 9
        torch.testing.assert_close(model(source, changed)[:, :place], before[:, :place])
        assert not torch.allclose(model(source, changed)[:, place], before[:, place])


@points(3)
def test_10_more_padding_changes_nothing():
    model = small_model()
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 4, 5]])
    wider = model(F.pad(source, (0, 3)), F.pad(target, (0, 2)))
    torch.testing.assert_close(wider[:, :3], model(source, target), atol=1e-5, rtol=1e-4)


@points(2)
@pytest.mark.parametrize("changes", [{}, {"d_k": 5, "d_v": 2}, {"num_layers": 3, "vocabulary_size": 101}])
def test_10_the_parameters_are_counted_without_building(changes):
    config = replace(SMALL, **changes)
    assert count_parameters(config) == sum(p.numel() for p in Transformer(config).parameters())


# ── Task 11: a batch ──────────────────────────────────────────────────────────────────────────────────────────────────


@points(1)
def test_11_short_sentences_are_filled_up():
    found = pad_rows([[5, 6, 7], [8], []], pad_id=9)
    assert found.dtype == torch.int64
    assert found.tolist() == [[5, 6, 7], [8, 9, 9], [9, 9, 9]]


# ── Task 12: the loss ─────────────────────────────────────────────────────────────────────────────────────────────────


@points(3)
@pytest.mark.parametrize("epsilon_ls", [0.0, 0.1, 0.4])
def test_12_the_loss_equals_pytorchs(epsilon_ls):
    logits, target = 3 * torch.randn(2, 4, 9), torch.tensor([[3, 8, 1, 2], [5, 2, 0, 0]])
    expected = F.cross_entropy(logits[target != 0], target[target != 0], label_smoothing=epsilon_ls)
    torch.testing.assert_close(label_smoothing_loss(logits, target, epsilon_ls), expected)


@points(1)
def test_12_padding_gets_no_gradient():
    logits, target = torch.randn(1, 3, 9, requires_grad=True), torch.tensor([[4, 2, 7]])
    label_smoothing_loss(logits, target, pad_id=7).backward()
    assert (logits.grad[0, 2] == 0).all()
    assert (logits.grad[0, :2] != 0).any()


# ── Task 13: the rate, and a model that learns ────────────────────────────────────────────────────────────────────────


@points(2)
def test_13_the_rate_rises_in_a_line_and_falls_with_the_root():
    peak = learning_rate(4000, 512)
    assert math.isclose(peak, (512 * 4000) ** -0.5)
    assert math.isclose(learning_rate(1000, 512), peak / 4)
    assert math.isclose(learning_rate(16000, 512), peak / 2)
    assert math.isclose(learning_rate(1, 64, warmup_steps=100), 100**-1.5 / 8)


@points(4)
def test_13_the_model_learns_to_turn_sentences_around():
    model = Transformer(replace(SMALL, d_model=32, d_ff=64, d_k=16, d_v=16, num_heads=2, num_layers=1))
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 401):
        words = torch.randint(3, 13, (64, 4))
        target = F.pad(words.flip(1), (1, 1), value=2)
        target[:, 0] = 1
        loss = label_smoothing_loss(model(words, target[:, :-1]), target[:, 1:], epsilon_ls=0.0)
        optimizer.param_groups[0]["lr"] = 2 * learning_rate(step, 32, warmup_steps=200)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.3, f"after 400 steps the loss is {loss:.2f}; a guess among ten words costs {math.log(10):.2f}"


# ── Task 14: training ─────────────────────────────────────────────────────────────────────────────────────────────────


def token_by_token(model, source, limit):
    """Greedy decoding of one sentence, nothing kept from step to step."""
    found = []
    while len(found) < limit and found[-1:] != [2]:
        logits = model.decode(torch.tensor([[1, *found]]), model.encode(source), source)[0, -1]
        logits[0] = -math.inf
        found.append(int(logits.argmax()))
    return found


ONES = "zero one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
EINER = "null ein zwei drei vier fünf sechs sieben acht neun".split()
ZEHNER = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def number_words():
    """English and German for 0 to 9 and 20 to 99; the German says the ones first."""
    pairs = list(zip(ONES, [EINER[0], "eins", *EINER[2:]], strict=True))
    for ten, zehner in zip(TENS, ZEHNER, strict=True):
        pairs += [(f"{ten} {ONES[i]}", f"{EINER[i]} und {zehner}") if i else (ten, zehner) for i in range(10)]
    return [(english.split(), german.split()) for english, german in pairs]


def ids_of_numbers():
    """The pairs as ids from 3 on, and the size of the vocabulary."""
    words = number_words()
    ids = {word: i for i, word in enumerate(dict.fromkeys(w for pair in words for side in pair for w in side), 3)}
    return [tuple([ids[word] for word in side] for side in pair) for pair in words], 3 + len(ids)


def number_model(size):
    return Transformer(
        replace(SMALL, vocabulary_size=size, num_layers=1, d_model=64, d_ff=128, num_heads=2, d_k=32, d_v=32)
    )


@points(6)
def test_14_your_model_translates_numbers():
    pairs, size = ids_of_numbers()
    model = number_model(size)
    losses = fit(model, pairs, num_steps=250, warmup_steps=400)
    assert len(losses) == 250
    model.eval()
    with torch.no_grad():
        chosen = pairs[::6]
        found = [token_by_token(model, torch.tensor([[*source, 2]]), 6) for source, _ in chosen]
    right = sum(tokens == [*target, 2] for tokens, (_, target) in zip(found, chosen, strict=True))
    assert right >= len(chosen) - 1, f"{right} of {len(chosen)} numbers right; the last loss is {losses[-1]:.2f}"


# ── Task 15: decoding ─────────────────────────────────────────────────────────────────────────────────────────────────


@points(4)
def test_15_greedy_decoding_takes_the_likeliest_token_each_time():
    model = small_model()
    source = torch.randint(3, 13, (6, 5))
    source[2, 3:] = 0
    with torch.no_grad():
        found = greedy_decode(model, source, max_length=8)
        for row, tokens in enumerate(found.tolist()):
            own = source[row : row + 1, : int((source[row] != 0).sum())]
            expected = token_by_token(model, own, 8)
            assert tokens[: len(expected)] == expected
            assert set(tokens[len(expected) :]) <= {0}


@points(2)
def test_15_the_limit_is_fifty_more_than_the_source():
    model, source = small_model(), torch.tensor([[5, 6, 7], [8, 0, 0]])
    norm = model.decoder.layers[-1].feed_forward_norm.norm
    with torch.no_grad():  # a model that says 5, whatever it is asked
        model.embedding.weight[5] *= 5
        norm.weight.zero_()
        norm.bias.copy_(model.embedding.weight[5])
        found = greedy_decode(model, source)
    assert found.tolist() == [[5] * 53, [5] * 51 + [0] * 2]


def best_of_all(model, source, limit, alpha):
    """The best sentence of all that there are."""
    best, best_score = None, -math.inf
    words = [token for token in range(1, model.config.vocabulary_size) if token != 2]
    for length in range(1, limit + 1):
        endings = [2] if length < limit else [*words, 2]
        for sentence in itertools.product(*[words] * (length - 1), endings):
            logits = model.decode(torch.tensor([[1, *sentence[:-1]]]), model.encode(source), source)[0]
            logits[:, 0] = -math.inf
            log_p = logits.log_softmax(-1).gather(1, torch.tensor(sentence)[:, None]).sum().item()
            score = log_p / ((5 + length) / 6) ** alpha
            if score > best_score:
                best, best_score = list(sentence), score
    return best


@points(6)
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_15_a_wide_beam_finds_the_best_sentence_of_all(alpha):
    model = small_model(vocabulary_size=5)
    for source in (torch.tensor([[3, 4]]), torch.tensor([[4, 4, 3]])):
        with torch.no_grad():
            found = beam_search(model, source, beam_size=40, alpha=alpha, max_length=3)[0].tolist()
            expected = best_of_all(model, source, 3, alpha)
        assert [token for token in found if token != 0] == expected


@points(2)
def test_15_a_beam_of_one_is_greedy():
    model, source = small_model(), torch.randint(3, 13, (4, 5))
    with torch.no_grad():
        found = beam_search(model, source, beam_size=1, alpha=0.0, max_length=7)
        expected = greedy_decode(model, source, max_length=7)
    assert found.tolist() == expected.tolist()


# ── Task 16: how good it is ───────────────────────────────────────────────────────────────────────────────────────────


@points(2)
def test_16_perplexity_counts_real_tokens():
    model, pairs = small_model(), [([5, 6, 7], [8, 9]), ([4], [10, 11, 12, 3])]
    losses = []
    with torch.no_grad():
        for source, target in pairs:
            logits = model(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]))[0]
            losses += F.cross_entropy(logits, torch.tensor([*target, 2]), reduction="none").tolist()
    assert math.isclose(perplexity(model, pairs), math.exp(sum(losses) / len(losses)), rel_tol=1e-4)


@points(1)
def test_16_dropout_is_off_while_you_measure():
    model, pairs = small_model(p_drop=0.5).train(), [([5, 6, 7], [8, 9])]
    assert perplexity(model, pairs) == perplexity(model, pairs)
    assert model.training  # and on again afterwards


# ── It is yours ───────────────────────────────────────────────────────────────────────────────────────────────


READY_MADE = {
    *("MultiheadAttention", "multi_head_attention_forward", "scaled_dot_product_attention", "Transformer"),
    *("TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer"),
}


def in_full(node, imported):
    """What a name stands for: torch.nn.functional.relu for F.relu, and nothing for a name of your own."""
    if isinstance(node, ast.Attribute):
        return f"{in_full(node.value, imported)}.{node.attr}"
    return imported.get(node.id, "") if isinstance(node, ast.Name) else ""


def not_yours(source):
    """Line and name of every import of the book's library, and of everything in PyTorch that solves a task."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # what cannot be parsed cannot be imported either
        return []
    imported, used = {}, []
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = "." * node.level + f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                top = alias.name.split(".")[0]
                imported[alias.asname or top] = start + (alias.name if alias.asname else top)
                used.append((node.lineno, start + alias.name))
    used += [(node.lineno, in_full(node, imported)) for node in nodes if isinstance(node, ast.Attribute)]
    return [
        (line, name)
        for line, name in sorted(set(used))
        if "transformer_lib" in name.split(".") or (name.startswith("torch.") and READY_MADE & set(name.split(".")))
    ]


@points(0)  # by itself; where it fails, no other point counts
def test_nothing_is_left_to_ready_made_attention():
    files = [*HERE.glob("my_transformer.py"), *sorted(HERE.glob("my_transformer/**/*.py"))]
    found = [f"{path.relative_to(HERE)}:{line} {name}" for path in files for line, name in not_yours(path.read_bytes())]
    found += sorted(set(CALLED))
    assert not found, f"written by you, please: {', '.join(found)}"
