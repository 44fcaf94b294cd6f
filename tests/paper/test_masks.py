import numpy as np
import pytest
import torch

from transformer_lib import causal_mask, padding_mask, reference


@pytest.mark.paper("causal-mask")
@pytest.mark.parametrize("length", [1, 2, 7])
def test_causal_mask_equals_the_loops(length):
    mask = causal_mask(length)
    assert mask.dtype == torch.bool
    np.testing.assert_array_equal(mask, reference.causal_mask(length))


def test_padding_mask_is_true_at_real_tokens_and_broadcasts():
    tokens = torch.tensor([[5, 7, 9], [5, 3, 3]])
    mask = padding_mask(tokens, pad_id=3)
    assert mask.shape == (2, 1, 1, 3)
    assert mask.flatten(1).tolist() == [[True, True, True], [True, False, False]]
    assert (causal_mask(3) & mask).shape == (2, 1, 3, 3)


def test_a_mask_is_made_on_the_device_asked_for():
    assert causal_mask(3, torch.device("meta")).device.type == "meta"
