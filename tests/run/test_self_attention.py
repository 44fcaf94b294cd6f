"""Encoders without recurrence: equal to the loops, blind to order without places; tasks whose answers are right."""

import random

import numpy as np
import pytest
import torch

from experiments.self_attention import (
    KINDS,
    NOT_ASKED,
    NUMBERS,
    SCALES,
    LookingEncoder,
    LookingTranslator,
    SelfAttention,
    at_a_distance,
    build_encoder,
    two_groups,
)
from transformer_lib import reference
from transformer_lib.transformer import count_parameters

DOUBLE = {"rtol": 1e-12, "atol": 1e-12}


def test_the_layer_equals_the_loops():
    layer = SelfAttention(d_model=7).double()
    x = torch.randn(1, 5, 7).double()  # (1 sentence, 5 words, 7)
    states, weights = layer(x)
    names = ("query_projection", "key_projection", "value_projection")
    w_query, w_key, w_value = (layer.get_submodule(n).weight.detach().numpy().T for n in names)
    expected = reference.self_attention(x[0].numpy(), w_query / 7**0.5, w_key, w_value)
    np.testing.assert_allclose(states[0].detach(), expected[0], **DOUBLE)
    np.testing.assert_allclose(weights[0].detach(), expected[1], **DOUBLE)


def test_the_loops_by_hand():
    """Forty seven, with the keys and values of the lookup; e³ = 20.09 against 1 and 1."""
    states = np.array([[0.0, 4, 0, 1], [7, 0, 1, 0], [0, 0, 0, 0]])
    w_key = np.array([[0.0, 0], [0, 0], [1, 0], [0, 1]])
    new, weights = reference.self_attention(states, 3 * w_key[:, ::-1], w_key, np.diag([1.0, 1, 0, 0]))
    np.testing.assert_allclose(weights[0], [1 / 22.0855, 20.0855 / 22.0855, 1 / 22.0855], atol=1e-5)
    np.testing.assert_allclose(new[0, :2], [7 * 20.0855 / 22.0855, 4 + 4 / 22.0855], atol=1e-4)
    np.testing.assert_array_equal(new[:, 2:], states[:, 2:])
    np.testing.assert_array_equal(states[0], [0, 4, 0, 1])  # the states that were given stay as they are


@pytest.mark.parametrize("places", [0, 5])
def test_only_places_tell_an_encoder_the_order(places):
    encoder, x = LookingEncoder(7, places=places).double(), torch.randn(2, 5, 7).double()
    order = [3, 0, 4, 1, 2]
    same = torch.allclose(encoder(x)[0][:, order], encoder(x[:, order])[0], **DOUBLE)
    assert same == (places == 0)


def test_without_rounds_a_word_knows_its_place_alone():
    encoder, x = build_encoder("words alone", places=5), torch.randn(1, 5, 64)
    changed = x.clone()
    changed[0, 2] += 1
    moved = (encoder(x)[0] != encoder(changed)[0]).any(dim=-1)[0]
    assert moved.tolist() == [False, False, True, False, False]


def test_padding_changes_nothing():
    model = LookingTranslator(17, 5, build_encoder("self-attention", places=4)).double()
    source, target = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]]), torch.tensor([[1, 9, 10], [1, 13, 0]])
    together, alone = model(source, target), model(source[1:, :2], target[1:, :2])
    torch.testing.assert_close(together[1:, :2], alone, **DOUBLE)


def test_the_encoders_that_are_compared_have_about_as_many_parameters():
    sizes = [count_parameters(build_encoder(kind, places=11)) for kind in KINDS if kind != "words alone"]
    assert max(sizes) < 1.05 * min(sizes)


def test_a_number_in_two_groups_has_the_scale_that_ends_its_group():
    generator = random.Random(0)
    for _ in range(50):
        words, scales = two_groups(generator, 5)
        assert len(words) == len(scales) == 11
        assert sum(word in NUMBERS for word in words) == 5 == sum(scale != NOT_ASKED for scale in scales)
        cut = words.index("and")
        for place, (word, scale) in enumerate(zip(words, scales, strict=True)):
            if word in NUMBERS:
                assert SCALES[scale] == (words[cut - 1] if place < cut else words[-1])
            else:
                assert scale == NOT_ASKED


def test_at_a_distance_only_the_first_number_is_asked():
    words, scales = at_a_distance(random.Random(0), 8)
    assert len(words) == 9
    assert words[-1] == SCALES[scales[0]]
    assert scales[1:] == [NOT_ASKED] * 8
