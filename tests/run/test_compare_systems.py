"""The comparison of two systems on the same sentences."""

import random

import pytest

from experiments.compare_systems import paired_bootstrap
from transformer_lib.evaluation import bleu


def test_a_paired_bootstrap_tells_a_real_gain_from_chance():
    generator = random.Random(0)
    references = [" ".join(generator.choices("abcdefgh", k=9)) for _ in range(100)]
    worse = [line[:-4] if i % 2 else line for i, line in enumerate(references)]
    other = [line[:-4] if not i % 2 else line for i, line in enumerate(references)]
    gain = paired_bootstrap(worse, references, references, draws=200)
    assert gain.difference == pytest.approx(100 - bleu(worse, references).score)
    assert gain.p_value < 0.01
    chance = paired_bootstrap(worse, other, references, draws=200)  # as many sentences cut, others
    assert chance.p_value > 0.2
    assert paired_bootstrap(references, worse, references, draws=200).difference == -gain.difference
    assert paired_bootstrap(worse, list(worse), references, draws=50) == (0.0, 1.0)
