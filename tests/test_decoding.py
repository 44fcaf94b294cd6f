from dataclasses import replace

import numpy as np
import pytest
import reference
import torch

from transformer_lib import Transformer, TransformerConfig, greedy_decode
from transformer_lib.data import WordTokenizer
from transformer_lib.decoding import evaluation_mode, translate

TINY = TransformerConfig(vocabulary_size=11, num_layers=1, d_model=8, d_ff=13, num_heads=2, d_k=3, d_v=5, p_drop=0.3)
SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 8, 2, 0, 0], [9, 2, 0, 0, 0]])


def model(**changes):
    m = Transformer(replace(TINY, **changes)).double()
    for p in m.parameters():
        p.data += 0.5 * torch.randn_like(p)
    return m


def end(rows):
    """Each row up to and with its <eos> (2)."""
    return [row[: row.index(2) + 1] if 2 in row else row for row in rows]


@pytest.mark.paper("decode")
@pytest.mark.parametrize("seed", range(5))
def test_greedy_decoding_equals_the_loops(seed):
    torch.manual_seed(seed)
    m = model()
    weights = {name: w.numpy() for name, w in m.state_dict().items()}
    generated = greedy_decode(m, SOURCE, max_length=6).tolist()
    for source, ours in zip(SOURCE.tolist(), generated, strict=True):
        tokens = [1]
        while len(tokens) <= 6 and tokens[-1] != 2:
            logits = reference.transformer(weights, TINY.num_heads, source, tokens, pad_id=0)[-1]
            logits[0] = -np.inf
            tokens.append(int(np.argmax(logits)))
        expected = tokens[1:]
        assert ours[: len(expected)] == expected
        assert set(ours[len(expected) :]) <= {0}


def test_a_sentence_does_not_depend_on_its_neighbours():
    m = model()
    together = greedy_decode(m, SOURCE, max_length=9).tolist()
    for row, source in zip(end(together), SOURCE, strict=True):
        alone = greedy_decode(m, source[source != 0][None], max_length=9).tolist()[0]
        assert end([alone])[0] == [token for token in row if token != 0]


@pytest.mark.paper("decode")
def test_the_limit_is_the_input_length_plus_50():
    m = model()
    with torch.no_grad():
        m.embedding.weight[2] = 0  # <eos> scores 0 ...
        m.embedding.weight[3] = 100 * m.decoder.layers[0].feed_forward_norm.norm.bias  # ... and another token more
        m.decoder.layers[0].feed_forward_norm.norm.weight.zero_()
    generated = greedy_decode(m, SOURCE)
    assert (generated != 0).sum(1).tolist() == [5 + 50, 3 + 50, 2 + 50]


def test_learned_positions_end_the_sentence_at_the_table():
    m = model(positions="learned", max_positions=7)
    assert greedy_decode(m, SOURCE).size(1) <= 7


def test_decoding_switches_dropout_off_and_on_again():
    m = model().train()
    assert torch.equal(greedy_decode(m, SOURCE, 5), greedy_decode(m, SOURCE, 5))
    assert m.training
    with evaluation_mode(m):
        assert not m.training
    assert m.training


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="max_length = 0 must be at least 1"):
        greedy_decode(model(), SOURCE, max_length=0)


@pytest.mark.usefixtures("unchecked")
def test_a_source_without_a_batch_axis_is_refused():
    with pytest.raises(ValueError, match=r"source has shape \(3,\)"):
        greedy_decode(model(), torch.tensor([3, 4, 2]))


def test_translate_gives_every_line_its_own_answer():
    tokenizer = WordTokenizer.train(["a b c d e f g"])
    m = model(vocabulary_size=len(tokenizer))
    lines = ["a", "", "b c d", "   ", "g f e d c b a", "zzz"]
    answers = dict(translate(m, lines, tokenizer, tokenizer, batch_size=2))
    assert sorted(answers) == list(range(6))
    assert answers[1] == answers[3] == ""
    for i, line in enumerate(lines):
        assert dict(translate(m, [line], tokenizer, tokenizer))[0] == answers[i]


def test_of_a_very_long_line_the_first_tokens_are_translated():
    tokenizer = WordTokenizer.train(["a b c"])
    m = model(vocabulary_size=len(tokenizer), positions="learned", max_positions=6)
    long, short = " ".join("a" * 500), " ".join("a" * 5)
    assert dict(translate(m, [long], tokenizer, tokenizer)) == dict(translate(m, [short], tokenizer, tokenizer))
