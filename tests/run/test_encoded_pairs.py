import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import TrainingConfig, TransformerConfig
from transformer_lib.data import batches
from transformer_lib.training import epochs
from transformer_run.preparation import EncodedPairs

SENTENCE = st.lists(st.integers(4, 499), max_size=9)
TINY = TransformerConfig(vocabulary_size=500, d_model=8, d_ff=8)
PAIRS = [([4 + i % 300] * (1 + i % 11), [5 + i % 200] * (1 + i % 7)) for i in range(300)]


def ids_of(batch):
    return [batch.source.tolist(), batch.target_input.tolist(), batch.target_output.tolist(), batch.target_tokens]


@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_pairs_read_as_they_were_written(tmp_path_factory, pairs):
    pairs = [*pairs, ([7], [8])]
    found = EncodedPairs.write(tmp_path_factory.mktemp("pairs"), pairs, 500)
    assert list(found) == pairs
    assert found.lengths.T.tolist() == [[len(source), len(target)] for source, target in pairs]


@pytest.mark.parametrize(("size", "bytes_per_id"), [(256, 1), (257, 2), (65_536, 2), (65_537, 4)])
def test_an_id_takes_as_few_bytes_as_the_vocabulary_allows(tmp_path, size, bytes_per_id):
    pairs = [([size - 1], [0, size - 1])]
    assert list(EncodedPairs.write(tmp_path, pairs, size)) == pairs
    assert np.load(tmp_path / "target_ids.npy").nbytes == 2 * bytes_per_id


class Watched(EncodedPairs):
    """Counts how many pairs were read."""

    read = 0

    def __getitem__(self, i):
        self.read += 1
        return super().__getitem__(i)


LOOKS = 20  # of the tests' type checks, which look at a pair or two of each argument


def test_batches_are_planned_without_reading_a_pair(tmp_path):
    EncodedPairs.write(tmp_path, PAIRS, 500)
    pairs = Watched(tmp_path)
    plan = batches.batch_plan(pairs, 60, seed=3)
    assert pairs.read <= LOOKS
    assert sorted(i for group in plan for i in group) == list(range(len(PAIRS)))


def test_a_run_that_goes_on_within_an_epoch_reads_nothing_of_what_came_before(tmp_path):
    EncodedPairs.write(tmp_path, PAIRS, 500)
    settings = TrainingConfig(batch_tokens=60)
    count = len(batches.batch_plan(PAIRS, 60))
    for skip in (count // 2, count - 1, count, 2 * count + 3):
        pairs = Watched(tmp_path)
        rest = [ids_of(b) for b in itertools.islice(epochs(pairs, TINY, settings, skip), 3)]
        assert rest == [ids_of(b) for b in itertools.islice(epochs(PAIRS, TINY, settings), skip, skip + 3)]
        assert pairs.read <= sum(len(batch[0]) for batch in rest) + LOOKS
