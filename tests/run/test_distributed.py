"""Several processes make the same model as one. They talk over gloo, on this machine."""

import copy
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from command_line import equal, files_of, metrics_of
from forked_training import small_corpus, train_together
from safetensors.torch import load_file

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, reference
from transformer_lib.data import make_batch
from transformer_lib.training import adam, train
from transformer_run import training_run, update
from transformer_run.settings import RunConfig
from transformer_run.update import gradient_sync, processes, replica, sum_over_processes

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.0)

SIZES = "d_model=16 d_ff=16 num_layers=1 num_heads=2 d_k=8 d_v=8".split()
OPTIONS = "--tokenizer space --device cpu --threads 1 --validate-every 3".split()


def arguments(folder, p_drop, num_steps, *training):
    model = ["--model", *SIZES, f"p_drop={p_drop}"]
    training = ["--training", f"num_steps={num_steps}", "batch_tokens=100", "warmup_steps=20", *training]
    return [str(folder), *small_corpus(folder.parent), *OPTIONS, *model, *training]


def curve(folder, num_steps):
    """The loss, the tokens and, of each third step, the perplexity of what it made of the weights."""
    lines = metrics_of(folder)
    assert [line["step_num"] for line in lines] == list(range(1, num_steps + 1))
    return [[line["loss_nats_per_token"], line["target_tokens"], line.get("val_perplexity", 0.0)] for line in lines]


def last_weights(folder):
    return load_file(max((folder / "checkpoints").iterdir()))


@pytest.mark.deep
@pytest.mark.parametrize(("counts", "accumulate"), [((2, 4), 4), ((2,), 3)])  # 3 batches do not divide evenly by 2
def test_several_processes_make_the_curve_of_one(tmp_path, counts, accumulate):
    for count in (1, *counts):
        # Of few steps, since clipped gradients and a high rate make more of the rounding from step to step.
        of_run = arguments(tmp_path / str(count), 0.0, 18, f"accumulate={accumulate}", "max_grad_norm=0.5")
        codes = train_together(tmp_path / "said.txt", count, *of_run)
        assert codes == [0] * count, (tmp_path / "said.txt").read_text("utf-8")[-2000:]
    alone = curve(tmp_path / "1", 18)
    assert alone[0][0] > 1.2 * alone[-1][0], "the loss should fall, or equal curves would say little"
    for count in counts:
        other = curve(tmp_path / str(count), 18)
        torch.testing.assert_close(torch.tensor(other), torch.tensor(alone), rtol=2e-5, atol=1e-6)


@pytest.mark.deep
def test_too_few_batches_for_the_processes_are_refused(tmp_path):
    codes = train_together(tmp_path / "said.txt", 2, *arguments(tmp_path / "run", 0.0, 18, "accumulate=1"))
    assert codes == [2, 2]
    said = (tmp_path / "said.txt").read_text("utf-8")
    assert "accumulate = 1" in said
    assert "vocabulary" not in said, "before the corpus is prepared"


def test_a_process_alone_needs_no_launcher():
    model = Transformer(TINY)
    assert processes() == (0, 1)
    assert replica(model) is model
    with gradient_sync(model, now=False):
        assert sum_over_processes(torch.tensor(2.0)) == 2.0


@pytest.mark.parametrize("decision", [False, True])
def test_what_the_first_process_decides_holds_for_all(monkeypatch, decision):
    monkeypatch.setattr(update, "processes", lambda: update.Processes(1, 2))

    def broadcast_object_list(values, src, device):
        assert (src, device) == (0, torch.device("cpu"))
        values[0] = decision

    monkeypatch.setattr(torch.distributed, "broadcast_object_list", broadcast_object_list)
    assert update.broadcast(not decision, "cpu") is decision


def test_each_process_drops_out_others(monkeypatch):
    model, drawn = Transformer(replace(TINY, p_drop=0.5)), []
    model.register_forward_hook(lambda *_: drawn.append(torch.get_rng_state().tolist()))
    one, settings = update.Update(model), TrainingConfig(num_steps=1, batch_tokens=40, accumulate=3)
    monkeypatch.setattr(update, "sum_over_processes", lambda loss: loss)
    for rank in range(3):
        monkeypatch.setattr(update, "processes", lambda rank=rank: update.Processes(rank, 3))
        list(train(model, adam(model, settings), [make_batch([([3, 4], [5])])] * 3, settings, update=one))
    assert len(set(map(tuple, drawn))) == 3


def test_a_process_takes_the_gpu_of_its_number_on_its_own_machine(monkeypatch):
    started = []
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "set_device", started.append)
    monkeypatch.setattr(update, "rendezvous", lambda _: iter([(torch.distributed.HashStore(), 5, 8)]))
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, store, **place: started.append((backend, place))
    )
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: started.append("left"))
    with update.process_group("cuda") as device:
        assert device == "cuda:1"
    assert started == ["cuda:1", ("nccl", {"timeout": update.WAIT, "rank": 5, "world_size": 8}), "left"]


def children(process):
    """Ids of the processes that a launcher started, as soon as there are any."""
    command = ["ps", "-o", "pid=", "--ppid", str(process.pid)]
    while process.poll() is None:
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # it fails where there are none
        if found.stdout:
            return [int(pid) for pid in found.stdout.split()]
    raise AssertionError("the run ended before one of its workers was killed")


@pytest.mark.deep
def test_a_killed_worker_starts_again_from_the_last_checkpoint(tmp_path):
    """Two processes under torchrun, of which one is killed twice, end as two that nobody disturbs, to the bit."""
    command, undisturbed = (arguments(tmp_path / name, 0.1, 60, "accumulate=2") for name in ("two", "one"))
    assert train_together(tmp_path / "undisturbed.txt", 2, *undisturbed) == [0, 0]

    generator, metrics, said = random.Random(0), tmp_path / "two" / "metrics.jsonl", tmp_path / "said.txt"
    launcher = "-m torch.distributed.run --standalone --nproc-per-node 2 --max-restarts 3 -m transformer_run".split()

    def wait_for(condition):
        deadline = time.monotonic() + 120
        while not condition():
            assert torchrun.poll() is None, said.read_text("utf-8")[-3000:]
            assert time.monotonic() < deadline, "the workers make no steps"
            time.sleep(0.01)

    with (
        said.open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [sys.executable, *launcher, "train", *command],
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
            stdout=log,
            stderr=log,
        ) as torchrun,
    ):
        for kills, lines in enumerate((7, 19)):  # so many steps on record, and the last kill is overcome
            wait_for(lambda kills=kills: said.read_text("utf-8").count("resumed from") >= kills)
            wait_for(lambda lines=lines: metrics.exists() and metrics.read_bytes().count(b"\n") >= lines)
            os.kill(generator.choice(children(torchrun)), signal.SIGKILL)
        torchrun.wait(timeout=240)
    assert torchrun.returncode == 0, said.read_text("utf-8")[-3000:]
    assert said.read_text("utf-8").count("resumed from") >= 2, said.read_text("utf-8")[-3000:]
    assert curve(tmp_path / "two", 60) == curve(tmp_path / "one", 60)
    two, one = last_weights(tmp_path / "two"), last_weights(tmp_path / "one")
    assert two.keys() == one.keys()
    assert equal(two, one)


@pytest.mark.slow
def test_the_first_rank_alone_reads_the_texts_and_chooses_and_the_others_take_what_it_has(tmp_path, monkeypatch):
    model = {"d_model": 16, "d_ff": 16, "num_layers": 1, "num_heads": 2, "d_k": 8, "d_v": 8}
    config, called, said = RunConfig(source="en", target="de", model=model, precision="auto"), [], []
    read = training_run.read_corpus
    monkeypatch.setattr(training_run, "read_corpus", lambda config: called.append("read") or read(config))
    monkeypatch.setattr(training_run, "chosen_precision", lambda *_: called.append("precision") or "bf16")
    monkeypatch.setattr(training_run, "broadcast", lambda begun, _: said.append(copy.deepcopy(begun)) or begun)
    first = training_run.Run(tmp_path, config, "cpu", resume=False)
    monkeypatch.setattr(training_run, "broadcast", lambda *_: said[0])
    monkeypatch.setattr(training_run, "processes", lambda: update.Processes(1, 2))
    before = files_of(tmp_path)
    other = training_run.Run(tmp_path, config, "cpu", resume=False)
    assert files_of(tmp_path) == before
    assert called == ["precision", "read"]  # each once, by rank 0
    assert RunConfig.read(tmp_path).precision == first.config.precision == other.config.precision == "bf16"
    assert list(other.train_ids) == list(first.train_ids)
    assert other.translator.source_tokenizer.to_json() == first.translator.source_tokenizer.to_json()
    assert equal(other.translator.model.state_dict(), first.translator.model.state_dict())


@pytest.mark.parametrize(("workers", "numbers"), [(1, 5), (2, 4), (3, 7), (4, 12), (5, 3)])
def test_the_ring_of_the_loops_adds_up_and_sends_as_much_as_it_should(workers, numbers):
    vectors = np.random.default_rng(0).normal(size=(workers, numbers))
    held, sent = reference.ring_all_reduce(vectors)
    np.testing.assert_allclose(held, np.tile(vectors.sum(axis=0), (workers, 1)), rtol=1e-12)
    assert sum(sent) == 2 * (workers - 1) * numbers
    assert max(sent) - min(sent) <= 2
