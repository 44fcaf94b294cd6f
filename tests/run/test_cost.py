"""What a step costs: equal to what PyTorch counts."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib import Transformer, TransformerConfig, record_attention
from transformer_lib.cache import start_decoding
from transformer_lib.data import make_batch
from transformer_lib.reference import forward_flops
from transformer_lib.training import TrainingConfig, adam, train
from workshop.lab.cost import intensity, state_bytes, training_flops

# Widths that no other width equals: an exchanged pair would show.
SIZES = TransformerConfig(vocabulary_size=23, num_layers=2, d_model=12, d_ff=20, num_heads=3, d_k=5, d_v=7, p_drop=0.0)

UNEQUAL = replace(SIZES, num_layers=3, num_decoder_layers=1)


@contextmanager
def counted():
    """What PyTorch counts while it runs; attention written out, because of the fused kernel it knows too little."""
    with FlopCounterMode(display=False) as counter:
        yield counter.get_total_flops


def forward(config, source, target, **options):
    return sum(forward_flops(config, source, target, **options).values())


@pytest.mark.parametrize("config", [SIZES, UNEQUAL])
@pytest.mark.parametrize(("source", "target"), [(1, 1), (4, 7), (9, 3)])
def test_flops_are_those_that_pytorch_counts(config, source, target):
    torch.manual_seed(0)
    ids = [torch.randint(3, 23, (5, length)) for length in (source, target)]
    model = Transformer(config)
    with record_attention(model), counted() as total:
        logits = model(*ids)
        of_forward = total()
        logits.sum().backward()
        both = total()
    expected = 5 * forward(config, source, target, whole_square=True)
    assert (of_forward, both) == (expected, 3 * expected)


@pytest.mark.parametrize("config", [SIZES, UNEQUAL])
def test_without_the_masked_half_flops_are_those_of_one_token_at_a_time(config):
    model = Transformer(config).eval()
    source = torch.randint(3, 23, (5, 9))
    with torch.no_grad(), record_attention(model), counted() as total:
        cache = start_decoding(model, source, 4)
        for _ in range(4):  # each looks at those before it and at itself
            cache.next_logits(source.new_full((5, 1), 3))
    assert total() == 5 * forward(config, 9, 4)


def test_a_training_step_is_three_forward_passes_of_each_pair():
    assert training_flops(SIZES, [1, 9], [4, 3]) == 3 * (forward(SIZES, 1, 4) + forward(SIZES, 9, 3))


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
