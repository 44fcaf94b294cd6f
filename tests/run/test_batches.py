import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import reference
from transformer_lib.data import make_batch, token_batches
from transformer_lib.data.batches import batch_plan

SENTENCE = st.lists(st.integers(3, 50), min_size=1, max_size=12)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=40)


@pytest.mark.paper("causal-mask")
def test_the_shift_right_puts_eos_before_the_padding():
    batch = make_batch([([5, 6, 7], [8, 9]), ([5], [8, 9, 10, 11])], pad_id=0, bos_id=1, eos_id=2)
    assert batch.source.tolist() == [[5, 6, 7, 2], [5, 2, 0, 0]]
    assert batch.target_input.tolist() == [[1, 8, 9, 0, 0], [1, 8, 9, 10, 11]]
    assert batch.target_output.tolist() == [[8, 9, 2, 0, 0], [8, 9, 10, 11, 2]]
    assert batch.target_tokens == 8
    assert batch.to("cpu").source.dtype == torch.int64


@pytest.mark.paper("batching")
@given(PAIRS)
@settings(max_examples=60, deadline=None)
def test_a_batch_equals_the_loops(pairs):
    batch = make_batch(pairs, pad_id=0, bos_id=1, eos_id=2)
    source, target_input, target_output = reference.padded_batch(pairs, pad_id=0, bos_id=1, eos_id=2)
    assert batch.source.tolist() == source.tolist()
    assert batch.target_input.tolist() == target_input.tolist()
    assert batch.target_output.tolist() == target_output.tolist()
    assert batch.target_tokens == (target_output != 0).sum()


@pytest.mark.paper("batching")
@given(PAIRS, st.integers(13, 200), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_every_pair_comes_once_and_no_batch_is_too_big(pairs, limit, seed):
    seen = []
    for batch in token_batches(pairs, limit, seed):
        assert batch.source.numel() <= limit
        assert batch.target_input.numel() <= limit
        assert batch.target_tokens == (batch.target_output != 0).sum()
        sides = (batch.source.tolist(), batch.target_output.tolist())
        for source, target in zip(*sides, strict=True):
            seen.append((source[: source.index(2)], target[: target.index(2)]))
    assert sorted(seen) == sorted(pairs)


def plan_by_loops(pairs, batch_tokens, seed):
    generator = random.Random(seed)
    order = list(range(len(pairs)))
    generator.shuffle(order)
    key = {i: (len(pairs[i][1]), len(pairs[i][0])) for i in order}
    groups, widest = [[]], 0
    for i in sorted(order, key=lambda i: key[i]):
        width = max(map(len, pairs[i])) + 1
        if groups[-1] and (len(groups[-1]) + 1) * max(widest, width) > batch_tokens:
            groups.append([])
            widest = 0
        groups[-1].append(i)
        widest = max(widest, width)
    generator.shuffle(groups)
    return groups


@pytest.mark.paper("batching")
@given(PAIRS, st.integers(13, 200), st.integers(0, 10**7))
@settings(max_examples=60, deadline=None)
def test_the_plan_of_an_epoch_equals_the_loops(pairs, batch_tokens, seed):
    plan = [group.tolist() for group in batch_plan(pairs, batch_tokens, seed)]
    assert plan == plan_by_loops(pairs, batch_tokens, seed)


@pytest.mark.paper("batching")
@pytest.mark.parametrize("longest", [250, 300, 70_000])  # lengths of one byte, of two, of four
def test_sentences_of_any_length_are_planned_as_by_the_loops(longest):
    pairs = [([3] * (longest - i % 7), [4] * (longest - i % 5 if i % 2 else i)) for i in range(12)]
    plan = [group.tolist() for group in batch_plan(pairs, 3 * longest, seed=1)]
    assert plan == plan_by_loops(pairs, 3 * longest, 1)


@pytest.mark.paper("batching")
def test_sentences_of_like_length_share_a_batch():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 60, (3000,), generator=generator).tolist()
    pairs = [([3] * n, [3] * max(1, n - n % 3)) for n in lengths]
    batches = list(token_batches(pairs, 1000))
    padded = sum(b.target_output.numel() for b in batches)
    assert sum(b.target_tokens for b in batches) / padded > 0.95
    in_file_order = [make_batch(pairs[i : i + 30]) for i in range(0, 3000, 30)]
    assert sum(b.target_tokens for b in in_file_order) / sum(b.target_output.numel() for b in in_file_order) < 0.6


def test_a_sentence_longer_than_a_batch_and_an_empty_batch_are_refused():
    for pairs, limit, named in (([([3], [4]), ([3] * 30, [4])], 20, "pair 1 .*31"), ([([3], [4])], 0, "batch_tokens")):
        with pytest.raises(ValueError, match=named):
            list(token_batches(pairs, limit))
    with pytest.raises(ValueError, match="pairs"):
        make_batch([])


@pytest.mark.parametrize("seed", [-1, -(2**40)])
def test_a_seed_that_draws_what_another_one_draws_is_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        batch_plan([([4], [4])], 9, seed)
