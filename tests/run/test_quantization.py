import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_run.quantization import dequantize, quantize


@settings(deadline=None)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 9),
    exponent=st.integers(-20, 20),
    seed=st.integers(0, 99),
    largest=st.sampled_from([(8, 127), (7, 63), (2, 1)]),
)
def test_no_weight_moves_by_more_than_half_a_step_of_its_row(rows, columns, exponent, seed, largest):
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 2.0**exponent
    bits, integers = largest
    restored = dequantize(quantize({"w": weight}, bits))["w"]
    for row, row_restored in zip(weight.tolist(), restored.tolist(), strict=True):
        step = max(abs(w) for w in row) / integers
        assert all(abs(a - b) <= step * 0.5001 for a, b in zip(row, row_restored, strict=True))
        assert max(map(abs, row_restored)) == pytest.approx(max(map(abs, row)))


def test_zeros_and_vectors_stay_as_they_are():
    weights = {"matrix": torch.zeros(2, 3), "vector": torch.randn(4)}
    packed = quantize(weights)
    assert (packed["matrix.scale"] > 0).all()  # 0 / 0 is NaN, which has no 8 bits
    restored = dequantize(packed)
    assert all(torch.equal(restored[name], weights[name]) for name in weights)


def test_packing_again_in_as_many_bits_changes_nothing():
    packed = quantize({"w": torch.randn(4, 30)}, bits=7)
    again = quantize(dequantize(packed), bits=7)
    assert torch.equal(again["w"], packed["w"])
    assert packed["w"].abs().max() == 63


@pytest.mark.parametrize("bits", [1, 9])
def test_other_bits_are_refused(bits):
    with pytest.raises(ValueError, match="bits"):
        quantize({}, bits)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_of_a_training_that_diverged_are_refused(value):
    with pytest.raises(ValueError, match="diverged"):
        quantize({"w": torch.tensor([[1.0, value]])})


def test_missing_scales_are_named():
    packed = quantize({"w": torch.randn(2, 2)})
    del packed["w.scale"]
    with pytest.raises(ValueError, match=r"w\.scale"):
        dequantize(packed)
