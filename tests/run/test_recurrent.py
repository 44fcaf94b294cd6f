"""The recurrent translators of the first two chapters: equal to their loops, and no word from the future."""

import numpy as np
import pytest
import torch
from torch import nn

from experiments.recurrent import AttentiveTranslator, RecurrentTranslator, build, write
from transformer_lib import reference

WORDS, D_VECTOR, D_MODEL = 17, 5, 7  # distinct primes: a swapped axis cannot go unnoticed
SOURCE = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])
TARGET_INPUT = torch.tensor([[1, 9, 10, 11, 12], [1, 13, 0, 0, 0]])
DOUBLE = {"rtol": 1e-12, "atol": 1e-12}

both = pytest.mark.parametrize("kind", [RecurrentTranslator, AttentiveTranslator])


def arrays(gru):
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return [getattr(gru, name).detach().numpy() for name in names]


def test_the_gated_unit_equals_the_loops():
    gru = nn.GRU(D_MODEL, 11, batch_first=True).double()
    x = torch.randn(1, 13, D_MODEL).double()
    states, last = gru(x)
    expected = reference.recurrent_states(x[0].numpy(), *arrays(gru))
    np.testing.assert_allclose(states[0].detach(), expected, **DOUBLE)
    np.testing.assert_allclose(last[0, 0].detach(), expected[-1], **DOUBLE)


def test_the_attentive_translator_equals_the_loops():
    model = AttentiveTranslator(WORDS, D_VECTOR, D_MODEL).double()
    weights = {name: array.numpy() for name, array in model.state_dict().items()}

    def linear(name, x):
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    logits, _ = model.look(SOURCE, TARGET_INPUT)
    for sentence, target, found in zip([SOURCE[0], SOURCE[1, :2]], TARGET_INPUT, logits, strict=True):
        words = weights["embedding.weight"]
        memory = reference.recurrent_states(words[sentence], *arrays(model.encoder))
        vector = linear("squeeze", memory[-1])
        # The loops start from zeros; the decoder from a state of its own. Step by step it is the same recurrence.
        state, cell = np.tanh(linear("expand", vector)), nn.GRUCell(D_MODEL + D_VECTOR, D_MODEL).double()
        cell.load_state_dict({name.removesuffix("_l0"): w for name, w in model.decoder.state_dict().items()})
        for i, word in enumerate(target):
            together = torch.tensor(np.concatenate([words[word], vector]))
            state = cell(together[None], torch.tensor(state)[None])[0].detach().numpy()
            attended = reference.additive_attention(
                state[None],
                memory,
                memory,
                weights["attention.query_projection.weight"],
                weights["attention.key_projection.weight"],
                weights["attention.key_projection.bias"],
                weights["attention.score.weight"][0],
            )[0]
            expected = linear("to_logits", np.concatenate([state, attended]))
            np.testing.assert_allclose(found[i].detach(), expected, **DOUBLE)


@both
def test_padding_changes_nothing(kind):
    model = kind(WORDS, D_VECTOR, D_MODEL).double()
    together = model(SOURCE, TARGET_INPUT)
    alone = model(SOURCE[1:, :2], TARGET_INPUT[1:, :2])
    torch.testing.assert_close(together[1:, :2], alone, **DOUBLE)


@both
def test_no_logit_depends_on_a_later_word(kind):
    model = kind(WORDS, D_VECTOR, D_MODEL).double()
    logits = model(SOURCE, TARGET_INPUT)
    for j in range(1, 5):
        changed = TARGET_INPUT.clone()
        changed[0, j] = 14
        again = model(SOURCE, changed)
        torch.testing.assert_close(again[0, :j], logits[0, :j], **DOUBLE)
        assert not torch.allclose(again[0, j], logits[0, j])


def test_the_vector_is_all_that_the_decoder_gets():
    model = RecurrentTranslator(WORDS, D_VECTOR, D_MODEL).double()
    model.squeeze.weight.data.zero_()  # now all sentences give the same vector
    logits = model(SOURCE, TARGET_INPUT[:1].expand(2, -1))
    torch.testing.assert_close(logits[0], logits[1], **DOUBLE)


def test_blind_attention_weighs_all_real_words_alike():
    model = build("blind", WORDS, D_VECTOR)
    _, weights = model.look(SOURCE, TARGET_INPUT)
    quarter, half = torch.full((5, 4), 1 / 4), torch.tensor([0.5, 0.5, 0, 0])
    torch.testing.assert_close(weights[0], quarter)
    torch.testing.assert_close(weights[1], half.expand(5, 4))


@both
def test_writing_one_word_at_a_time_agrees_with_one_pass(kind):
    model = kind(WORDS, D_VECTOR, D_MODEL)
    written = write(model, SOURCE, longest=6)
    once = model(SOURCE, torch.cat([torch.ones(2, 1, dtype=torch.int64), written], dim=1)).argmax(dim=-1)
    assert torch.equal(once[:, :-1], written)
