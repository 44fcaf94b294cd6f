"""Tables 1, 2 and 4 of the paper against what can be computed or measured here."""

import math

import numpy as np
import pytest
import torch

from experiments import table_1
from transformer_lib import reference, scaled_dot_product_attention
from workshop.lab.paper_tables import FLOPS_PER_SECOND, GPUS, TABLE_1, TRAINING_COSTS

MEASURED = ["self-attention", "recurrent", "convolutional", "restricted"]  # of experiments/table_1.py


def formula(text, **letters):
    """The number behind an entry of Table 1 such as "n^2 d"."""
    text = text.replace("log_k n", "log(n, k)").replace("^", "**").replace(" / ", "/").replace("log(n, k)", "log(n,k)")
    return eval(text.replace(" ", "*"), {"log": math.log}, letters)


@pytest.mark.paper("table-1")
@pytest.mark.parametrize("r", [1, 3, 5, 13, 31])
def test_attention_in_windows_is_attention_under_a_band(r):
    query, key = torch.randn(2, 13, 7).double().unbind(0)
    value = torch.randn(13, 5).double()
    place = torch.arange(13)
    band = (place[:, None] - place).abs() <= r // 2  # (13 queries, 13 keys)

    found = table_1.windowed_attention(query, key, value, r)
    expected, _ = scaled_dot_product_attention(query, key, value, band)
    in_loops, _ = reference.attention(*(x.numpy() for x in (query, key, value, band)))

    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert np.allclose(found, in_loops, rtol=1e-12, atol=1e-12)


@pytest.mark.paper("table-1")
@pytest.mark.parametrize("name", MEASURED)
def test_the_measured_layers_cost_what_table_1_says(name):
    constant = {"recurrent": 6, "convolutional": 1}.get(name, 2)
    row = TABLE_1[name if name in TABLE_1 else f"self-attention ({name})"]
    for n, d, k, r in [(16, 8, 3, 5), (40, 8, 5, 9), (16, 24, 3, 7)]:
        layer = table_1.make_layers(d, k, r)[name]
        counted = table_1.multiplications(layer, n, d)
        entry = formula(row.operations_per_layer, n=n, d=d, k=k, r=r)
        assert counted == constant * entry


@pytest.mark.paper("table-1")
@pytest.mark.parametrize("n", [2, 9, 27, 28, 40])
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("r", [3, 5, 9])
def test_searched_path_lengths_are_those_of_table_1(n, k, r):
    def longest(reads):
        return reference.maximum_path_length(n, reads)

    assert longest(lambda _, i: range(n)) == 1
    assert longest(lambda _, i: (i - 1, i)) == n - 1
    assert longest(lambda _, i: range(i - k + 1, i + 1)) == math.ceil((n - 1) / (k - 1))
    layers = longest(lambda step, i: range(i - (k - 1) * k**step, i + 1, k**step))
    assert k ** (layers - 1) < n <= k**layers
    assert layers == math.ceil(formula(TABLE_1["convolutional"].maximum_path_length, n=n, k=k) - 1e-9)
    restricted = formula(TABLE_1["self-attention (restricted)"].maximum_path_length, n=n - 1, r=r // 2)
    assert longest(lambda _, i: range(i - r // 2, i + r // 2 + 1)) == math.ceil(restricted)


@pytest.mark.paper("table-2")
@pytest.mark.parametrize(("hours", "cost"), TRAINING_COSTS.values(), ids=TRAINING_COSTS)
def test_the_training_costs_of_table_2_are_time_by_gpus_by_speed(hours, cost):
    assert f"{hours * 3600 * GPUS * FLOPS_PER_SECOND:.1e}" == f"{cost:.1e}"
