"""What a step costs: equal to the loops and to PyTorch's counter."""

import math
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib import Transformer, TransformerConfig, record_attention, reference
from transformer_lib.data import make_batch
from transformer_lib.training import TrainingConfig, adam, train
from workshop.lab.cost import forward_flops, intensity, state_bytes

# Widths that no other width equals: an exchanged pair would show.
SIZES = TransformerConfig(vocabulary_size=23, num_layers=2, d_model=12, d_ff=20, num_heads=3, d_k=5, d_v=7, p_drop=0.0)

UNEQUAL = replace(SIZES, num_layers=3, num_decoder_layers=1)


@contextmanager
def counted():
    """What PyTorch counts while it runs; attention written out, because of the fused kernel it knows too little."""
    with FlopCounterMode(display=False) as counter:
        yield counter.get_total_flops


@pytest.mark.parametrize("config", [SIZES, UNEQUAL])
@pytest.mark.parametrize(("source", "target"), [(1, 1), (4, 7), (9, 3)])
def test_flops_are_two_for_each_multiply_add_of_the_loops(config, source, target):
    expected = 2 * reference.forward_multiply_adds(config, source, target)
    assert sum(forward_flops(config, [source], [target]).values()) == expected
    every = 2 * sum(math.prod(product) for product in reference.matrix_products(config, source, target))
    assert sum(forward_flops(config, [source], [target], whole_square=True).values()) == every


@pytest.mark.parametrize("config", [SIZES, UNEQUAL])
def test_flops_are_those_that_pytorch_counts(config):
    torch.manual_seed(0)
    source, target = torch.randint(3, 23, (5, 9)), torch.randint(3, 23, (5, 4))
    model = Transformer(config)
    with record_attention(model), counted() as total:
        logits = model(source, target)
        forward = total()
        logits.sum().backward()
        both = total()
    expected = sum(forward_flops(config, [9] * 5, [4] * 5, whole_square=True).values())
    assert forward == expected
    assert both == 3 * expected


def test_weights_gradients_and_adam_take_sixteen_bytes_a_parameter():
    model = Transformer(SIZES)
    config = TrainingConfig(num_steps=1, batch_tokens=100)
    optimizer = adam(model, config)
    next(train(model, optimizer, [make_batch([([3], [4, 5])])], config))
    numbers = list(model.parameters()) + [p.grad for p in model.parameters()]
    numbers += [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    found = sum(tensor.numel() * tensor.element_size() for tensor in numbers)
    assert found == state_bytes(sum(p.numel() for p in model.parameters()))


def test_intensity_of_a_square_product_is_a_sixth_of_its_side_in_float32():
    assert intensity(60, 60, 60) == pytest.approx(60 / 6)
    assert intensity(60, 60, 60, bytes_per_number=2) == pytest.approx(60 / 3)
    # One row: each weight is read for two operations.
    assert intensity(1, 4096, 4096) == pytest.approx(0.5, abs=1e-3)
