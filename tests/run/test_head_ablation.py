"""The experiment on heads: its scores are the library's, its groups are complete."""

import pytest

from experiments.head_ablation import Scorer, groups, habits_of, names
from transformer_lib import Transformer, TransformerConfig
from transformer_lib.evaluation import bleu

REFERENCES = ["I read a book yesterday.", "She told me everything last night.", "The dog sleeps.", "Where is the key?"]
GOOD = ["I read a book yesterday.", "She told me all last night.", "The dog is asleep.", "Where is the key?"]
BAD = ["I read the book.", "She told me all last night.", "A dog.", "Where is the key to the door?"]


def test_scores_from_counts_are_those_of_the_library():
    scorer = Scorer(REFERENCES, seed=0)
    for hypotheses in (GOOD, BAD):
        score, signature, *_ = bleu(hypotheses, REFERENCES)
        assert scorer.bleu(scorer.counts(hypotheses).sum(axis=0)) == pytest.approx(score, abs=1e-9)
        assert scorer.signature() == signature


def test_the_bootstrap_is_paired():
    scorer = Scorer(REFERENCES, seed=0)
    assert (scorer.times.sum(axis=1) == len(REFERENCES)).all()
    good, bad = scorer.counts(GOOD), scorer.counts(BAD)
    same, worse = scorer.cost(good, good), scorer.cost(good, bad)
    assert (same["bleu_lost"], same["bleu_lost_low"], same["bleu_lost_high"]) == (0, 0, 0)
    assert worse["bleu_lost_low"] <= worse["bleu_lost"] <= worse["bleu_lost_high"]
    assert worse["bleu_lost"] > 0


def test_every_head_is_removed_alone_and_with_its_kind():
    config = TransformerConfig(
        vocabulary_size=9, num_layers=2, d_model=8, d_ff=8, num_heads=3, d_k=4, d_v=4, positions="sinusoidal"
    )
    found = list(groups(Transformer(config)))
    alone = [heads[0] for _, heads in found if len(heads) == 1]
    assert len(alone) == len(set(alone)) == 18
    assert [len(heads) for _, heads in found[18:]] == [3] * 6 + [6] * 3
    assert {head for _, heads in found[-3:] for head in heads} == set(alone)


def test_habits_name_a_key_for_each_query():
    source = ["▁Tom", "▁liebt", "▁Maria", ".", "<eos>"]
    written = ["▁Mary", "▁is", "▁loved", "▁by", "▁Tom", ".", "<eos>"]
    assert names(source, written) == {"▁Tom": 0}
    cross = habits_of("decoder.1.cross", source, written)
    assert [i for i in range(7) if cross["name to choose"](i) == 0] == [4]
    assert [i for i in range(7) if cross["name just read"](i) == 0] == [5]
    assert cross["<eos>"](0) == 4
    assert set(habits_of("decoder.0.self", source, written)) == {"first", "previous", "same"}
    assert set(habits_of("encoder.0.self", source, written)) == {"first", "previous", "same", "next", "<eos>"}
