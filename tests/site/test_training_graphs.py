"""The graphs of a training step: they compute what the library computes, healthy or with a defect, step for step.

The graphs of a defect are judged by a copy of the package that has it, in a process of its own. There,
test_the_graphs_compute_what_the_package_computes runs too, and learns from a file beside the copy which defect it is.
"""

import contextlib
import gzip
import itertools
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import transformer_lib
from transformer_lib import Transformer, greedy_decode, record_attention
from transformer_lib.data.batches import Batch
from transformer_lib.training import adam, train
from workshop.lab.forked import run_pytest
from workshop.site import export_training
from workshop.site.export_training import HEALTHY, KINDS, OFFERED, TRAINING, copy_with_defect, file_of, planted
from workshop.site.training_graphs import CROSS
from workshop.site.training_task import MODEL, NUMBERS, PAIRS, ROWS, SETTINGS, TOKENIZER, description

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(transformer_lib.__file__).parents[1] / "planted.txt"
NAME = PLANTED.read_text("utf-8") if PLANTED.exists() else HEALTHY
ORIGIN = json.loads((TRAINING / "provenance.json").read_text("utf-8"))
FILES = [file_of(name, kind) for name in (HEALTHY, *OFFERED) for kind in KINDS]
TASK = json.loads((TRAINING / "task.json").read_text("utf-8"))


def content(name, kind):
    return gzip.decompress((TRAINING / file_of(name, kind)).read_bytes())


@cache
def session(name, kind):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content(name, kind), options, providers=["CPUExecutionProvider"])


def computed(name, kind, feed):
    return [np.asarray(array) for array in session(name, kind).run(None, feed)]


def make_task(withheld=()):
    """The batch of the page: all numbers, those withheld without a target, and empty rows for the reader's pairs."""

    def padded(rows, width):
        return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])

    ids = [(TOKENIZER.encode(english), TOKENIZER.encode(german)) for english, german in PAIRS]
    empty = [([], [])] * (ROWS - NUMBERS)
    targets = [[] if n in withheld or n >= NUMBERS else [*german, 2] for n, (_, german) in enumerate([*ids, *empty])]
    return Batch(
        padded([[*english, 2] for english, _ in ids + empty], TASK["source_length"]),
        padded([[1, *german] for _, german in ids + empty], TASK["target_length"]),
        padded(targets, TASK["target_length"]),
        sum(map(len, targets)),
    )


class Run:
    """A model that the graphs train."""

    def __init__(self, name, weights, batch):
        self.name, self.batch, self.step, self.losses = name, batch, 0, []
        self.weights = weights.numpy().copy()
        self.m, self.v = np.zeros_like(self.weights), np.zeros_like(self.weights)

    def learn(self, steps):
        for _ in range(steps):
            self.step += 1
            rate = transformer_lib.learning_rate(self.step, MODEL.d_model, SETTINGS.warmup_steps)
            feed = {
                "weights": self.weights,
                "m": self.m,
                "v": self.v,
                "rate": np.array(rate, dtype=np.float32),
                "step_num": np.array(self.step, dtype=np.float32),
                "source": self.batch.source.numpy(),
                "target_input": self.batch.target_input.numpy(),
                "target_output": self.batch.target_output.numpy(),
            }
            loss, self.weights, self.m, self.v, self.cross = computed(self.name, "step", feed)
            self.losses.append(float(loss))

    def translations(self):
        feed = {"weights": self.weights, "source": self.batch.source.numpy()}
        [tokens] = computed(self.name, "greedy", feed)
        return [up_to_eos(row) for row in tokens.tolist()]

    def right(self):
        wanted = [TOKENIZER.encode(german) for _, german in PAIRS]
        return sum(found == target for found, target in zip(self.translations(), wanted, strict=False))


def up_to_eos(row):
    return row[: row.index(2)] if 2 in row else row


def fresh(seed=0):
    torch.manual_seed(seed)
    model = Transformer(MODEL)
    return model, torch.cat([weight.detach().flatten() for weight in model.parameters()])


def at(run):
    """The library's model and optimizer in the state of this run."""
    model, _ = fresh()
    optimizer = adam(model, SETTINGS)
    start = 0
    for weight in model.parameters():
        part = slice(start, start := start + weight.numel())
        weight.data = torch.from_numpy(run.weights[part].copy()).view_as(weight)
        optimizer.state[weight] = {
            "step": torch.tensor(float(run.step)),
            "exp_avg": torch.from_numpy(run.m[part].copy()).view_as(weight),
            "exp_avg_sq": torch.from_numpy(run.v[part].copy()).view_as(weight),
        }
    return model, optimizer


def written_out(model):
    """A defect may lie in the form written out; the healthy package trains with the fused kernel."""
    return contextlib.nullcontext() if NAME == HEALTHY else record_attention(model)


@pytest.mark.slow
def test_the_graphs_compute_what_the_package_computes():
    batch = make_task(withheld={21, 47})
    model, weights = fresh()
    run = Run(NAME, weights, batch)
    run.learn(6)
    with written_out(model):
        steps = train(model, adam(model, SETTINGS), itertools.repeat(batch), replace(SETTINGS, num_steps=6))
        losses = [record.loss_nats_per_token for record in steps]
    assert run.losses == pytest.approx(losses, abs=1e-4)

    # Rounding grows from step to step, so a later step is compared from the same state.
    run.learn(74)
    model, optimizer = at(run)
    with written_out(model.eval()):
        tokens = greedy_decode(model, batch.source[:NUMBERS], max_length=TASK["target_length"])
    with record_attention(model) as attention, torch.no_grad():
        model(batch.source, batch.target_input)
    assert run.translations()[:NUMBERS] == [up_to_eos(row) for row in tokens.tolist()]
    with written_out(model):
        [record] = train(model, optimizer, itertools.repeat(batch), replace(SETTINGS, num_steps=81), steps_done=80)
    run.learn(1)
    assert run.losses[-1] == pytest.approx(record.loss_nats_per_token, abs=1e-4)
    torch.testing.assert_close(torch.from_numpy(run.cross), attention[CROSS], atol=1e-4, rtol=0)
    after = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    moved = (torch.from_numpy(run.weights) - after).abs()
    assert moved.mean() < 0.01 * record.learning_rate  # Adam divides small gradients by small roots: not each to 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", [OFFERED[0], *(pytest.param(name, marks=pytest.mark.deep) for name in OFFERED[1:])])
def test_the_graphs_of_a_defect_compute_what_the_package_with_it_computes(name, tmp_path):
    copy_with_defect(name, tmp_path)
    (tmp_path / "planted.txt").write_text(name, "utf-8")
    test = f"{Path(__file__)}::{test_the_graphs_compute_what_the_package_computes.__name__}"
    arguments = "-q -o addopts= -p no:cacheprovider -p no:xdist".split()
    done = run_pytest(tmp_path, [*arguments, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), test])
    assert done.returncode == 0, done.output[-1500:]
    assert "1 passed" in done.output


@pytest.mark.deep
def test_the_softmax_over_the_queries_has_a_healthy_loss_and_translates_next_to_nothing():
    _, weights = fresh()
    healthy, broken = (Run(name, weights, make_task()) for name in (HEALTHY, "softmax over the queries"))
    for run in (healthy, broken):
        run.learn(SETTINGS.num_steps)
    assert healthy.right() >= 95
    assert broken.losses[-1] == pytest.approx(healthy.losses[-1], abs=0.05)
    assert broken.right() <= 5


def test_the_files_are_those_on_record_and_small():
    assert list(ORIGIN) == FILES, "the page's list has the order of the record"
    assert {path.name for path in TRAINING.glob("*.gz")} == set(FILES)
    for file, origin in ORIGIN.items():
        exported = gzip.decompress((TRAINING / file).read_bytes())
        assert export_training.sha256(exported) == origin["sha256"]
        if origin["defect"]:
            stale = f"the defect has changed: run {origin['command']}"
            assert tuple(origin["defect"].values()) == planted(origin["name"]), stale
    # Packed, one graph with its 87,936 weights would be larger.
    assert sum((TRAINING / file).stat().st_size for file in FILES) < 300_000
    whole = [path for path in TRAINING.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in whole) <= 8_000_000


def test_the_task_on_file_is_that_of_the_package():
    assert json.loads(json.dumps(description())) == TASK
