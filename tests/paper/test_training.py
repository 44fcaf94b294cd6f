import copy
import itertools
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from transformer_lib import (
    TrainingConfig,
    Transformer,
    TransformerConfig,
    label_smoothing_loss,
    learning_rate,
    reference,
)
from transformer_lib.data import make_batch, token_batches
from transformer_lib.evaluation import perplexity
from transformer_lib.training import adam, epochs, train
from transformer_run.checkpoints import load_checkpoint, save_checkpoint

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.0)
SETTINGS = TrainingConfig(num_steps=6, batch_tokens=40, warmup_steps=4)
PAIRS = [([3 + i % 7, 4 + i % 5], [3 + i % 3] * (1 + i % 4)) for i in range(60)]


@pytest.mark.paper("adam")
def test_adam_makes_the_papers_update():
    model = Transformer(TINY).double()
    before = model.embedding.weight.detach().clone()
    optimizer = adam(model, SETTINGS)
    states = [(weight, 0.0, 0.0) for weight in before.flatten().tolist()]
    for t in (1, 2, 3):
        gradient = torch.randn_like(before)
        optimizer.param_groups[0]["lr"] = 0.01
        model.zero_grad()
        model.embedding.weight.grad = gradient.clone()
        optimizer.step()
        pairs = zip(states, gradient.flatten().tolist(), strict=True)
        states = [reference.adam_step(weight, g, m, v, t, 0.01) for (weight, m, v), g in pairs]
    expected = torch.tensor([weight for weight, *_ in states]).to(before).view_as(before)
    torch.testing.assert_close(model.embedding.weight.detach(), expected)


@pytest.mark.paper("adam")
def test_the_settings_of_adam_reach_the_optimizer():
    def read(config):
        group = adam(fresh_model(), config).param_groups[0]
        return group["betas"], group["eps"]

    assert read(TrainingConfig()) == ((0.9, 0.98), 1e-9)
    assert read(TrainingConfig(beta1=0.8, beta2=0.7, epsilon=0.5)) == ((0.8, 0.7), 0.5)


def steps(model, batches, config=SETTINGS, **options):
    return list(train(model, adam(model, config), batches, config, **options))


def fresh_model(**changes):
    torch.manual_seed(1)
    return Transformer(replace(TINY, **changes)).double()


def test_records_say_what_was_done():
    model, config = fresh_model(), replace(SETTINGS, rate_factor=2.5)
    batches = list(itertools.islice(epochs(PAIRS, TINY, config), 6))
    first_loss = label_smoothing_loss(model(batches[0].source, batches[0].target_input), batches[0].target_output)
    began = time.perf_counter()
    records = steps(model, batches, config)
    assert 0 < sum(r.seconds for r in records) <= time.perf_counter() - began
    assert [r.step_num for r in records] == [1, 2, 3, 4, 5, 6]
    assert records[0].loss_nats_per_token == pytest.approx(first_loss.item())
    assert [r.learning_rate for r in records] == [2.5 * learning_rate(s, 8, 4) for s in range(1, 7)]
    assert [r.target_tokens for r in records] == [b.target_tokens for b in batches]
    assert all(r.tokens_per_second == r.target_tokens / r.seconds > 0 for r in records)


def test_every_group_of_weights_gets_the_rate():
    first, *others = (model := fresh_model()).parameters()
    optimizer = torch.optim.Adam([{"params": [first]}, {"params": others}], lr=0.0)
    for record in train(model, optimizer, epochs(PAIRS, TINY, SETTINGS), SETTINGS):
        assert [group["lr"] for group in optimizer.param_groups] == [record.learning_rate] * 2


def test_every_update_is_made_in_training_mode():
    model, modes = fresh_model(), []
    model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    for _ in train(model, adam(model, SETTINGS), epochs(PAIRS, TINY, SETTINGS), SETTINGS):
        model.eval()  # as a validation between two updates does
    assert modes == [True] * 6


@pytest.mark.parametrize("accumulate", [2, 3])
def test_accumulated_batches_make_the_update_of_one_big_batch(accumulate):
    # Groups of different sizes: a mean of means would give another update.
    groups = [PAIRS[:2], PAIRS[2:9], PAIRS[9:13]] * 3 + [PAIRS[:2], PAIRS[2:9]]  # the last update takes what is left
    small = [make_batch(g) for g in groups]
    chained = itertools.chain.from_iterable
    starts = range(0, len(groups), accumulate)
    together = [list(chained(groups[i : i + accumulate])) for i in starts]
    big = [make_batch(pairs) for pairs in together]
    config = replace(SETTINGS, accumulate=accumulate)
    one, other = fresh_model(), fresh_model()
    records = steps(one, small, config)
    expected = steps(other, big, replace(config, accumulate=1))
    for a, b in zip(records, expected, strict=True):
        expected_loss = pytest.approx(b.loss_nats_per_token, rel=1e-12)
        assert a.loss_nats_per_token == expected_loss
        assert a.target_tokens == b.target_tokens
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-7, atol=1e-9)


def test_epochs_see_every_pair_once_each_in_an_order_of_its_own():
    size = len(list(token_batches(PAIRS, 30)))
    every, orders = sorted([*source, TINY.eos_id] for source, _ in PAIRS), set()
    for seed in range(3):
        batches = epochs(PAIRS, TINY, replace(SETTINGS, batch_tokens=30, seed=seed))
        for _ in range(3):
            epoch = [next(batches).source.tolist() for _ in range(size)]
            assert sorted(row for batch in epoch for row in batch) == every
            orders.add(str(epoch))
    assert len(orders) == 9


def test_a_model_trains_on_ids_of_its_own():
    model, config = fresh_model(pad_id=12, bos_id=12, eos_id=0), replace(SETTINGS, batch_tokens=400)  # as in Marian's
    batch = next(epochs(PAIRS, model.config, config))
    assert sorted(zip(batch.source.tolist(), batch.target_output.tolist(), strict=True)) == sorted(
        ([*source, 0], [*target, 0] + [12] * (4 - len(target))) for source, target in PAIRS
    )
    assert batch.target_input[:, 0].tolist() == [12] * len(PAIRS)
    logits = model(batch.source, batch.target_input)
    expected = label_smoothing_loss(logits, batch.target_output, pad_id=12).item()
    record = next(train(model, adam(model, config), epochs(PAIRS, model.config, config), config))
    assert record.loss_nats_per_token == pytest.approx(expected)


@pytest.mark.parametrize("other", [{"pad_id": 12}, {"bos_id": 12}, {"eos_id": 12}])
def test_batches_with_other_special_ids_than_the_models_are_refused(other):
    model, batches = fresh_model(**other), [make_batch(PAIRS)]
    with pytest.raises(ValueError, match="ids"):
        next(train(model, adam(model, SETTINGS), batches, SETTINGS))
    with pytest.raises(ValueError, match="ids"):
        perplexity(model, batches)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_resumed_run_ends_with_the_same_weights_to_the_bit(tmp_path, accumulate):
    config = replace(SETTINGS, num_steps=10, accumulate=accumulate)
    whole = fresh_model(p_drop=0.3)
    steps(whole, epochs(PAIRS, TINY, config), config)

    first = fresh_model(p_drop=0.3)
    optimizer = adam(first, config)
    for record in train(first, optimizer, epochs(PAIRS, TINY, config), config):
        if record.step_num == 4:
            save_checkpoint(tmp_path / "step-000004", first, optimizer, record.step_num)
        if record.step_num == 7:
            break  # three steps past the checkpoint, then the run dies

    torch.manual_seed(99)
    second = Transformer(first.config).double()
    optimizer = adam(second, config)
    done = load_checkpoint(tmp_path / "step-000004", second, optimizer)
    assert done == 4
    records = list(
        train(second, optimizer, epochs(PAIRS, TINY, config, skip=done * config.accumulate), config, steps_done=done)
    )
    assert [r.step_num for r in records] == [5, 6, 7, 8, 9, 10]
    for p, q in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_step_rate_and_remedy():
    model, config = Transformer(TINY), replace(SETTINGS, rate_factor=1e30)
    records = train(model, adam(model, config), epochs(PAIRS, TINY, config), config)
    assert next(records).step_num == 1
    kept = copy.deepcopy(model.state_dict())
    with pytest.raises(FloatingPointError, match="rate_factor"):
        next(records)
    assert all(torch.equal(weight, kept[name]) for name, weight in model.state_dict().items())  # of the step before


def test_long_gradients_are_shortened_where_asked(monkeypatch):
    norms = []

    def step(optimizer, *_):
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        norms.append(torch.nn.utils.get_total_norm(gradients).item())

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    steps(fresh_model(), epochs(PAIRS, TINY, SETTINGS))
    whole, limit = norms.copy(), sorted(norms)[3]  # some are shorter
    norms.clear()
    steps(fresh_model(), epochs(PAIRS, TINY, SETTINGS), replace(SETTINGS, max_grad_norm=limit))
    assert norms == pytest.approx([min(norm, limit) for norm in whole], rel=1e-4)


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="pairs"):
        next(epochs([], TINY, SETTINGS))


def test_the_core_needs_nothing_but_torch_numpy_jaxtyping_and_safetensors():
    program = """
import sys
for name in "altair matplotlib spacy tokenizers sacrebleu tqdm transformer_run ctranslate2 onnx transformers".split():
    sys.modules[name] = None
import torch, transformer_lib
from transformer_lib.data import WordTokenizer
config = transformer_lib.TransformerConfig(vocabulary_size=9, num_layers=1, d_model=8)
print(transformer_lib.Transformer(config)(torch.tensor([[3]]), torch.tensor([[1]])).shape)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "torch.Size([1, 1, 9])", done.stderr[-2000:]
