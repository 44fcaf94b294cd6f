"""The update of a run: the plain one, with a precision, R-Drop, a compiler or an overflow on top."""

import math
import subprocess
import sys

import pytest
import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig
from transformer_lib.data import make_batch
from transformer_lib.training import adam, epochs, one_update, train
from transformer_run.checkpoints import load_checkpoint, save_checkpoint
from transformer_run.update import Update, chosen_precision

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.3)
PAIRS = [([3 + i % 7, 4 + i % 5], [3 + i % 3] * (1 + i % 4)) for i in range(60)]
SIZES = {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2, "d_k": 16, "d_v": 16}


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


@pytest.mark.parametrize(("capability", "chosen"), [((7, 5), "fp16"), ((8, 0), "bf16"), ((9, 0), "bf16")])
def test_auto_is_bf16_from_capability_8_on_and_never_asks_whether_it_is_emulated(monkeypatch, capability, chosen):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: pytest.fail("it says yes on a T4"))
    assert chosen_precision("auto", torch.device("cuda")) == chosen
    assert chosen_precision("fp32", torch.device("cuda")) == "fp32"


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_auto_is_float32_on_every_other_device_and_bf16_goes_by_its_name(device):
    assert chosen_precision("auto", torch.device(device)) == "fp32"
    assert chosen_precision("bf16", torch.device(device)) == "bf16"


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", None), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_products_run_in_the_precision(precision, dtype):
    model, seen = Transformer(TINY), set()
    model.encoder.layers[0].feed_forward.inner.register_forward_hook(lambda *given: seen.add(given[2].dtype))
    update = Update(model, precision)
    update.loss(make_batch(PAIRS[:4]), 0.1)
    assert seen == {dtype or torch.float32}
    assert update.scaler.is_enabled() == (precision == "fp16")


def model_and_batches(p_drop=0.1):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocabulary_size=20, p_drop=p_drop, **SIZES))
    pairs = [([3 + (i + j) % 17 for j in range(4)], [3 + (2 * i + j) % 17 for j in range(5)]) for i in range(40)]
    return model, [make_batch(pairs[start : start + 8]) for start in range(0, 40, 8)] * 3


def weights_of(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def test_a_run_in_fp16_goes_on_to_the_same_bit(tmp_path):
    settings = TrainingConfig(num_steps=12, warmup_steps=10)
    path = tmp_path / "half.safetensors"
    model, batches = model_and_batches()
    optimizer, update = adam(model, settings), Update(model, "fp16")
    scaler = update.scaler
    scaler.load_state_dict(scaler.state_dict() | {"growth_interval": 4})  # so that the scale changes on the way
    for record in train(model, optimizer, batches, settings, update=update):
        if record.step_num == 6:
            save_checkpoint(path, model, optimizer, 6, scaler=scaler)
    resumed, _ = model_and_batches()
    other, fresh = adam(resumed, settings), Update(resumed, "fp16")
    new = fresh.scaler.get_scale()
    assert load_checkpoint(path, resumed, other, scaler=fresh.scaler) == 6
    assert fresh.scaler.get_scale() != new
    list(train(resumed, other, batches[6:], settings, steps_done=6, update=fresh))
    assert torch.equal(weights_of(model), weights_of(resumed))
    assert fresh.scaler.state_dict() == scaler.state_dict()


def test_an_overflow_is_tried_again_at_half_the_scale_and_costs_no_step():
    settings = TrainingConfig(num_steps=3, warmup_steps=10)
    model, batches = model_and_batches(p_drop=0.0)
    update, records, overflows = Update(model, "fp16"), [], []
    update.scaler.load_state_dict(update.scaler.state_dict() | {"scale": 2.0**40})
    for record in train(model, adam(model, settings), batches, settings, update=update):
        records.append(record)
        overflows.append(update.overflows)
    assert [record.step_num for record in records] == [1, 2, 3]
    assert overflows[0] > 0 == overflows[2]
    assert update.scaler.get_scale() == 2.0 ** (40 - sum(overflows))
    # The same weights as from a scale that never overflowed.
    plain, _ = model_and_batches(p_drop=0.0)
    others = list(train(plain, adam(plain, settings), batches, settings, update=Update(plain, "fp16")))
    torch.testing.assert_close(weights_of(model), weights_of(plain), rtol=1e-3, atol=1e-5)
    assert [r.learning_rate for r in records] == [r.learning_rate for r in others]


@pytest.mark.parametrize(
    ("precision", "settings", "bad"),
    [(None, {}, math.inf), ("fp32", {}, math.inf), ("fp32", {"max_grad_norm": 1.0}, math.nan), ("bf16", {}, -math.inf)],
)
def test_a_gradient_that_is_no_number_under_a_finite_loss_leaves_weights_and_averages(precision, settings, bad):
    config = TrainingConfig(num_steps=3, warmup_steps=10, **settings)
    model, batches = model_and_batches()
    optimizer = adam(model, config)
    update = Update(model, precision) if precision else one_update
    steps = train(model, optimizer, batches, config, update=update)
    next(steps)
    before, averages = weights_of(model), optimizer.state[model.embedding.weight]["exp_avg"].clone()
    model.embedding.weight.register_hook(lambda gradient: gradient.index_fill(0, torch.tensor([5]), bad))
    with pytest.raises(FloatingPointError, match="step 2 .* gradient"):
        next(steps)
    assert torch.equal(weights_of(model), before)
    assert torch.equal(optimizer.state[model.embedding.weight]["exp_avg"], averages)


def test_in_fp16_such_a_gradient_ends_the_run_when_no_scale_is_left():
    config = TrainingConfig(num_steps=3, warmup_steps=10)
    model, batches = model_and_batches()
    before = weights_of(model)
    model.embedding.weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(FloatingPointError, match="gradient"):
        list(train(model, adam(model, config), batches, config, update=Update(model, "fp16")))
    assert torch.equal(weights_of(model), before)
