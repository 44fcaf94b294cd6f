"""The experiment on a corpus that does not fit into memory, at a small size."""

import sys

import pytest

from experiments import large_corpus
from transformer_run.preparation import EncodedPairs


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_small_corpus_goes_all_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(large_corpus, "FIRST", 4)
    large_corpus.write_text(tmp_path, 3000)
    prepared = large_corpus.prepare(tmp_path, 0)
    means = prepared["tokens_per_sentence"]
    assert means == [pytest.approx(mean, rel=0.05) for mean in large_corpus.WORDS]
    assert prepared["pairs"] == 2850  # without the held-out ones
    epoch = large_corpus.epoch(tmp_path, 0)
    lengths = EncodedPairs(tmp_path / large_corpus.ENCODED).lengths
    assert epoch["target_tokens"] == lengths[1].sum() + 2850  # each with <eos>
    of_each = large_corpus.together(large_corpus.batches, tmp_path, 2)
    assert len({found["sha256"] for found in of_each}) == 1
    digests = [large_corpus.batches(tmp_path, skip)["sha256"] for skip in (0, 1, epoch["batches"])]
    assert len(set(digests)) == 3  # a resumed run goes on, and another epoch has another order
    assert large_corpus.batches(tmp_path, 0)["sha256"] == digests[0]
