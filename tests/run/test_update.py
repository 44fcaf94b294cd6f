"""The update of a run: the plain one, with a precision, a compiler or an overflow on top."""

import subprocess
import sys

import pytest
import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig
from transformer_lib.data import make_batch
from transformer_lib.training import adam, epochs, one_update, train
from transformer_run.update import Update

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.3)
SETTINGS = TrainingConfig(num_steps=6, batch_tokens=40, warmup_steps=4, accumulate=2)
PAIRS = [([3 + i % 7, 4 + i % 5], [3 + i % 3] * (1 + i % 4)) for i in range(60)]


def steps(model, batches, update):
    return list(train(model, adam(model, SETTINGS), batches, SETTINGS, update=update))


@pytest.mark.parametrize("max_grad_norm", [None, 0.5])
def test_in_float32_and_one_process_it_is_the_plain_update_to_the_bit(max_grad_norm):
    found = []
    for kind in (None, Update):
        torch.manual_seed(1)
        model = Transformer(TINY)
        config = TrainingConfig(num_steps=6, batch_tokens=40, warmup_steps=4, accumulate=2, max_grad_norm=max_grad_norm)
        update = kind(model) if kind else one_update
        records = list(train(model, adam(model, config), epochs(PAIRS, TINY, config), config, update=update))
        found.append(([record.loss_nats_per_token for record in records], list(model.parameters())))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(one, other) for one, other in zip(found[0][1], found[1][1], strict=True))


@pytest.mark.parametrize(("precision", "half"), [("fp32", False), ("bf16", True)])
def test_autocast_is_on_for_bfloat16_alone(precision, half):
    model, seen = Transformer(TINY), []
    model.register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    steps(model, [make_batch(PAIRS[:4])], Update(model, precision))
    assert seen == [half]


@pytest.mark.deep
def test_a_compiled_model_learns_the_same_from_few_graphs():
    program = """
import functools
import torch
from transformer_lib import TrainingConfig, Transformer, TransformerConfig
from transformer_lib.training import adam, epochs, train
from transformer_run.update import Update
torch.set_num_threads(1)
torch.compile = functools.partial(torch.compile, backend="aot_eager")  # the last stage needs a C++ compiler
curves = []
for compile in (False, True):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=8, num_heads=2, p_drop=0.0))
    config = TrainingConfig(num_steps=12, batch_tokens=60, warmup_steps=9)
    pairs = [([3 + i % 7] * (2 + i % 6), [4 + i % 5] * (2 + i % 9)) for i in range(80)]
    batches, update = epochs(pairs, model.config, config), Update(model, compile=compile)
    records = train(model, adam(model, config), batches, config, update=update)
    curves.append([record.loss_nats_per_token for record in records])
torch.testing.assert_close(torch.tensor(curves[0]), torch.tensor(curves[1]), rtol=1e-4, atol=1e-4)
counters = torch._dynamo.utils.counters
print(counters["stats"]["unique_graphs"], "graphs", dict(counters["graph_break"]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) <= 4, done.stdout
