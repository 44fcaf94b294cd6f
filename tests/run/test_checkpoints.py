import functools
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints
from transformer_lib.data import make_batch
from transformer_lib.run import checkpoints
from transformer_lib.run.checkpoints import RunCheckpoints, load_checkpoint, read_checkpoint, save_checkpoint
from transformer_lib.training import adam, train

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.0)
SETTINGS = TrainingConfig(num_steps=6, batch_tokens=40, warmup_steps=4)
FILES = ["checkpoint.json", "model.safetensors", "training.safetensors"]
DAMAGED = "is truncated, altered or no checkpoint of this library: "


def fresh_model(**changes):
    torch.manual_seed(1)
    return Transformer(replace(TINY, **changes)).double()


@functools.cache
def trained(steps=2):
    """A model and its optimizer, which has tensors to save; the same ones at each call, not to be changed."""
    model = fresh_model()
    optimizer = adam(model, SETTINGS)
    list(train(model, optimizer, [make_batch([([3, 4], [5])])] * steps, SETTINGS))
    return model, optimizer


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "step-000002"
    save_checkpoint(path, *trained(), 2, val_perplexity=3.5)
    return path


def snapshot(model, optimizer):
    """Everything that loading may change, in a form that compares."""
    generators = [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()]
    return repr([plain(model.state_dict()), plain(optimizer.state_dict()), *generators])


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return sorted((str(key), plain(item)) for key, item in value.items())
    return [plain(item) for item in value] if isinstance(value, list) else value


def content_of(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def rewrite(path, **changes):
    """Change checkpoint.json as its writer would, with digests that fit."""
    content = json.loads((path / "checkpoint.json").read_text()) | changes
    content.pop("digest")
    if "sha256" not in changes:
        content["sha256"] = {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in FILES[1:]}
    (path / "checkpoint.json").write_bytes(checkpoints._sealed(content))


def test_a_checkpoint_is_three_files_and_no_pickle(saved):
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
    assert sorted(p.name for p in saved.iterdir()) == FILES
    model, _ = trained()
    weights = load_file(saved / "model.safetensors")
    assert all(torch.equal(weights[name], weight) for name, weight in model.state_dict().items())
    training = load_file(saved / "training.safetensors")
    names = {f"optimizer.{n}.{key}" for n, _ in model.named_parameters() for key in ("step", "exp_avg", "exp_avg_sq")}
    assert {n for n in training if not n.startswith("random.cuda")} == names | {
        f"random.{source}" for source in ("torch", "python", "numpy")
    }
    described = read_checkpoint(saved)
    assert [described[key] for key in ("step_num", "val_perplexity", "format")] == [2, 3.5, 1]
    assert described["versions"]["torch"] == torch.__version__
    assert TransformerConfig(**described["config"]) == TINY
    assert len({(saved / name).stat().st_mode for name in FILES}) == 1  # the weights are no more private than the rest


def test_loading_restores_the_optimizer_and_every_random_state(saved):
    model, optimizer = trained()
    random.gauss(0, 1)  # leaves a second number waiting, part of the state
    np.random.standard_normal()
    save_checkpoint(saved, model, optimizer, 2)
    before = snapshot(model, optimizer)
    numbers = [torch.rand(3).tolist(), random.gauss(0, 1), random.random(), np.random.standard_normal(3).tolist()]
    other = fresh_model()
    torch.nn.init.zeros_(other.embedding.weight)
    other_optimizer = adam(other, replace(SETTINGS, beta1=0.5))
    for generator in (random, np.random):
        generator.seed(5)
    assert load_checkpoint(saved, other, other_optimizer) == 2
    assert snapshot(other, other_optimizer) == before
    again = [torch.rand(3).tolist(), random.gauss(0, 1), random.random(), np.random.standard_normal(3).tolist()]
    assert again == numbers


def test_loading_the_weights_alone_leaves_the_random_states(saved):
    model, before = fresh_model(), torch.get_rng_state()
    torch.rand(3)
    drawn = torch.get_rng_state()
    load_checkpoint(saved, model)
    assert not torch.equal(drawn, before)
    assert torch.equal(torch.get_rng_state(), drawn)


def test_an_infinite_perplexity_is_none(saved):
    save_checkpoint(saved, *trained(), 2, val_perplexity=float("inf"))
    assert read_checkpoint(saved)["val_perplexity"] is None


# What a reader must refuse. Each leaves the model, the optimizer and the random states as they were.


def refused(path, message, model=None, optimizer=None):
    model = model or fresh_model()
    optimizer = optimizer or adam(model, SETTINGS)
    jaxtyping.config.update("jaxtyping_disable", True)  # the checks of types draw from Python's generator
    before = snapshot(model, optimizer)
    with pytest.raises(ValueError, match=message) as caught:
        load_checkpoint(path, model, optimizer)
    assert snapshot(model, optimizer) == before
    jaxtyping.config.update("jaxtyping_disable", False)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_any_single_altered_byte_is_noticed(saved, name):
    content = (saved / name).read_bytes()
    generator = random.Random(0)
    places = {0, 7, len(content) - 1, *(generator.randrange(len(content)) for _ in range(30))}
    for place in places:
        altered = bytearray(content)
        altered[place] ^= 1 << generator.randrange(8)
        (saved / name).write_bytes(altered)
        with pytest.raises(ValueError, match=r"step-000002 (is truncated|has format)"):
            load_checkpoint(saved, fresh_model())
    (saved / name).write_bytes(content)
    refused(saved.parent / "step-000002" / ".." / "step-000002" / name, DAMAGED)  # a file of it is no checkpoint
    assert load_checkpoint(saved, fresh_model()) == 2


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("length", [0, 7, -1])
def test_a_truncated_checkpoint_is_refused(saved, name, length):
    (saved / name).write_bytes((saved / name).read_bytes()[:length])
    refused(saved, DAMAGED + f".*{name}.*; use another checkpoint")


@pytest.mark.parametrize("name", FILES)
def test_a_checkpoint_with_a_missing_file_is_refused(saved, name):
    (saved / name).unlink()
    refused(saved, DAMAGED + f"{name} is missing")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "checkpoint.json should hold an object, not \\[\\]"),
        ('{"step": 3}', "checkpoint.json lacks config, format, optimizer, random, sha256, step_num"),
        ('{"format": 2}', "has format 2, this library reads 1; update the library"),
    ],
)
def test_a_foreign_description_is_refused(saved, content, message):
    (saved / "checkpoint.json").write_text(content)
    refused(saved, message)


def test_missing_checkpoints_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint at .*none"):
        load_checkpoint(tmp_path / "none", fresh_model())
    with pytest.raises(FileNotFoundError, match="no checkpoint at .*none"):
        read_checkpoint(tmp_path / "none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": None}, "holds no config of this library"),
        ({"config": {"d_modle": 8}}, "holds no config of this library: unknown key 'd_modle'"),
        ({"optimizer": None}, DAMAGED + "TypeError"),
        ({"optimizer": {"kind": "Adam"}}, DAMAGED + "KeyError"),
        ({"optimizer": {"kind": "SGD", "param_groups": []}}, "is of another optimizer: SGD with 0 groups of 0"),
        ({"random": {}}, DAMAGED + "KeyError"),
        ({"sha256": {}}, DAMAGED + "KeyError"),
    ],
)
def test_a_description_of_something_else_is_refused(saved, changes, message):
    rewrite(saved, **changes)
    refused(saved, message)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.safetensors", lambda t: t.pop("embedding.weight"), "too many or missing: embedding.weight"),
        ("model.safetensors", lambda t: t.update(extra=torch.zeros(1)), "too many or missing: extra"),
        (
            "model.safetensors",
            lambda t: t.update({"embedding.weight": torch.zeros(2, 3)}),
            re.escape("does not hold the weights of this model: embedding.weight is (2, 3) there, (13, 8) here"),
        ),
        (
            "training.safetensors",
            lambda t: t.update({"optimizer.embedding.weight.exp_avg": torch.zeros(2, 3)}),
            re.escape("optimizer.embedding.weight.exp_avg is (2, 3), its parameter (13, 8)"),
        ),
        ("training.safetensors", lambda t: t.update({"optimizer.other.exp_avg": torch.zeros(2)}), "KeyError"),
        ("training.safetensors", lambda t: t.pop("random.numpy"), "KeyError"),
        ("training.safetensors", lambda t: t.update({"random.torch": torch.zeros(2, dtype=torch.uint8)}), "RuntimeErr"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(saved, name, change, message):
    tensors = {key: tensor.clone() for key, tensor in load_file(saved / name).items()}
    change(tensors)
    save_file(tensors, saved / name)
    rewrite(saved)
    refused(saved, message)


def test_a_checkpoint_from_another_config_is_refused(saved):
    message = "is a checkpoint from another config: d_ff is 11 there, 12 here; norm_order is 'post' there, 'pre' here"
    refused(saved, message, fresh_model(d_ff=12, norm_order="pre"))


def test_another_optimizer_is_refused(saved):
    model = fresh_model()
    refused(saved, "Adam with 1 groups of 31 .*, SGD with 1 groups of 31", model, torch.optim.SGD(model.parameters()))
    half = torch.optim.Adam(list(model.parameters())[:3])
    refused(saved, "Adam with 1 groups of 31 parameters there, Adam with 1 groups of 3 here", model, half)
    with pytest.raises(ValueError, match="the optimizer has parameters that are not the model's"):
        save_checkpoint(saved, fresh_model(), half, 1)
    optimizer = torch.optim.SGD(model.parameters())
    optimizer.state[model.embedding.weight]["momentum_buffer"] = None
    with pytest.raises(ValueError, match="momentum_buffer = None of the optimizer is no tensor"):
        save_checkpoint(saved, model, optimizer, 1)


class Trap:
    def __reduce__(self):
        return (print, ("code ran",))


@pytest.mark.parametrize("name", FILES)
def test_loading_runs_no_code(saved, tmp_path, capsys, name):
    torch.save({"model": Trap()}, saved / name)
    refused(saved, DAMAGED)
    if name != "checkpoint.json":  # and with digests that fit
        rewrite(saved)
        refused(saved, DAMAGED)
    torch.save({"model": Trap()}, tmp_path / "trap.pt")
    paths = [tmp_path / "trap.pt"] if name == "training.safetensors" else [tmp_path / "trap.pt", saved]
    for path in paths:  # of a checkpoint, the average reads the weights alone
        with pytest.raises(ValueError, match=DAMAGED):
            average_checkpoints([path])
    assert capsys.readouterr().out == ""


# Writing: whole or not at all.


def test_what_is_no_checkpoint_is_not_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("unique")
    for path in (tmp_path / "thesis", tmp_path / "thesis" / "chapter"):
        with pytest.raises(ValueError, match="exists and is no checkpoint; it is not overwritten: name another path"):
            save_checkpoint(path, *trained(), 0)
    assert content_of(tmp_path) == {"thesis/chapter": b"unique"}


class Killed(BaseException):
    """Stands for a kill: nothing in the library handles it."""


STEPS_OF_WRITING = ["mkdir", "save_file", "_sha256", "write_bytes", "fsync", "rename"]


@pytest.mark.parametrize("again", [False, True], ids=["new", "overwriting"])
@pytest.mark.parametrize("call", STEPS_OF_WRITING)
def test_a_kill_at_any_call_of_writing_leaves_the_last_checkpoint(tmp_path, monkeypatch, call, again):
    """Kill at the first, second, third ... of these calls, until the writing gets through."""
    run = RunCheckpoints(tmp_path / "run", keep_last=1)
    old, new = trained(1), trained(2)
    step_num = 1 if again else 2
    homes = {"save_file": checkpoints, "_sha256": checkpoints, "fsync": checkpoints.os}
    home = homes.get(call, checkpoints.Path)
    real = getattr(home, call)
    rmtree = shutil.rmtree
    for killed_at in range(100):
        rmtree(run.folder, ignore_errors=True)
        run.save(*old, 1)
        calls = 0

        def dying(*arguments, killed_at=killed_at, **options):
            nonlocal calls
            calls += 1
            if calls > killed_at:
                raise Killed
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(home, call, dying)
            patch.setattr(checkpoints.shutil, "rmtree", lambda *_, **__: None)  # a killed process tidies nothing
            try:
                run.save(*new, step_num)
                done = True
            except Killed:
                done = False
        model = fresh_model()
        run.clean()
        run.load_latest(model, adam(model, SETTINGS))
        expected = [new] if done else [old, new]
        assert any(torch.equal(model.embedding.weight, kept.embedding.weight) for kept, _ in expected)
        assert {re.sub(r"\d", "", p.name) for p in run.folder.iterdir()} == {"step-"}  # nothing half written is left
        if done:
            break
    assert 0 < killed_at < 99


def test_between_two_renames_the_old_form_is_read(saved):
    saved.rename(saved.with_name("step-000002.old"))
    assert load_checkpoint(saved, fresh_model()) == 2
    RunCheckpoints(saved.parent).clean()
    assert [p.name for p in saved.parent.iterdir()] == ["step-000002"]


def in_a_process(program, folder):
    """Run a program that begins with an intact checkpoint at step-000002 and tries to save another."""
    start = """
        import os, resource, sys
        from pathlib import Path
        import test_checkpoints as t
        model, optimizer = t.trained()
        os.chdir({folder!r})
    """
    start = textwrap.dedent(start).format(folder=str(folder))
    command = [sys.executable, "-c", start + textwrap.dedent(program)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("share", [0.5, 1.5], ids=["model.safetensors", "training.safetensors"])
def test_a_disk_that_takes_no_more_is_a_clear_error(saved, share):
    """The limit on the size of a file makes the write itself fail, in the middle, as a full disk does."""
    before = content_of(saved.parent)
    limit = int((saved / "model.safetensors").stat().st_size * share)
    done = in_a_process(
        f"""
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        for path in ("step-000004", "step-000002"):
            try:
                t.save_checkpoint(path, model, optimizer, 4)
            except OSError as error:
                print(error)
        """,
        saved.parent,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout + done.stderr
    for path, line in zip(("step-000004", "step-000002"), lines, strict=True):
        assert line.startswith(f"{path} not written: ")
        assert "File too large" in line
        assert line.endswith("make room or name another folder; what was saved before is untouched")
    assert content_of(saved.parent) == before


def test_a_read_only_folder_is_a_clear_error(saved):
    before = content_of(saved.parent)
    saved.parent.chmod(0o555)
    done = in_a_process(
        """
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may write anywhere
        for path in ("step-000004", "step-000002"):
            try:
                t.save_checkpoint(path, model, optimizer, 4)
            except OSError as error:
                print(error)
        """,
        saved.parent,
    )
    saved.parent.chmod(0o755)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout + done.stderr
    assert all("Permission denied" in line and " not written: " in line for line in lines)
    assert content_of(saved.parent) == before


def test_a_path_below_a_file_is_a_clear_error(saved):
    with pytest.raises(OSError, match="model.safetensors.new not written: .*; make room or name another folder"):
        save_checkpoint(saved / "model.safetensors" / "new", *trained(), 1)


# The checkpoints of one run.


def test_the_last_and_the_best_are_kept(tmp_path):
    run = RunCheckpoints(tmp_path, keep_last=2)
    model, optimizer = trained()
    for step_num, score in [(5, 9.0), (10, 4.0), (15, 6.0), (20, None), (25, 4.0), (30, 7.0)]:
        run.save(model, optimizer, step_num, score)
    names = ["step-000010", "step-000025", "step-000030"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    again = RunCheckpoints(tmp_path, keep_last=2)  # as after a restart
    assert [p.name for p in again.paths()] == names
    assert again.best().name == "step-000010"  # the first of two equal ones
    assert [p.name for p in again.last()] == names[1:]
    assert again.latest().name == names[-1]
    again.save(model, optimizer, 35, 3.0)
    assert [p.name for p in again.paths()] == ["step-000030", "step-000035"]
    assert again.best() == again.latest()


def test_steps_are_ordered_as_numbers(tmp_path):
    run = RunCheckpoints(tmp_path)
    for step_num in (1_000_000, 999_999):
        run.save(*trained(), step_num)
    assert run.latest().name == "step-1000000"


def test_an_empty_run_says_so(tmp_path):
    run = RunCheckpoints(tmp_path / "none")
    run.clean()
    assert run.paths() == []
    with pytest.raises(FileNotFoundError, match="no checkpoint in .*none; train first"):
        run.latest()
    with pytest.raises(FileNotFoundError, match="no checkpoint in .*none; train first"):
        run.load_latest(fresh_model())
    with pytest.raises(FileNotFoundError, match="no checkpoint in .*none was validated; use the latest"):
        run.best()
    with pytest.raises(ValueError, match="keep_last = 0 must be an integer of at least 1"):
        RunCheckpoints(tmp_path, keep_last=0)


def test_the_newest_intact_checkpoint_is_loaded(tmp_path):
    run = RunCheckpoints(tmp_path)
    for step_num in (2, 4, 6, 8):
        run.save(*trained(), step_num)
    (tmp_path / "step-000008" / "checkpoint.json").unlink()
    damaged = tmp_path / "step-000006" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(ValueError, match="step-000008 is truncated"):
        load_checkpoint(run.latest(), fresh_model())
    loaded = run.load_latest(fresh_model())
    assert (loaded.path.name, loaded.step_num) == ("step-000004", 4)
    assert [p.name for p in loaded.skipped] == ["step-000008", "step-000006"]
    assert "checkpoint.json is missing" in loaded.skipped[tmp_path / "step-000008"]
    assert "the content of model.safetensors is not what" in loaded.skipped[tmp_path / "step-000006"]
    run.set_aside(loaded.skipped)
    assert [p.name for p in run.paths()] == ["step-000002", "step-000004"]
    assert (tmp_path / "step-000006.damaged" / "model.safetensors").exists()
    with pytest.raises(ValueError, match="no checkpoint in .* can be loaded: .*step-000004 is a checkpoint from"):
        run.load_latest(fresh_model(d_ff=12))


def test_cleaning_removes_what_a_kill_left_and_nothing_else(saved):
    folder = saved.parent
    for name in ("step-000004.part", "step-000002.old", "step-000001.deleted", "step-000003.damaged", "notes"):
        shutil.copytree(saved, folder / name)
    shutil.copytree(saved, folder / "step-000006.old")
    RunCheckpoints(folder).clean()
    left = {p.name for p in folder.iterdir()}
    assert left == {"step-000002", "step-000006", "step-000003.damaged", "notes"}


# The average.


@pytest.mark.paper("ckpt-avg")
def test_the_average_is_the_mean_of_every_weight(tmp_path):
    models = [Transformer(TINY) for _ in range(5)]
    paths = [tmp_path / str(i) for i in range(5)]
    for path, model in zip(paths, models, strict=True):
        save_checkpoint(path, model, adam(model, SETTINGS), 0)
    mean = average_checkpoints(paths)
    for name, weight in mean.items():
        torch.testing.assert_close(weight, torch.stack([m.state_dict()[name] for m in models]).mean(0))
    assert all(torch.equal(w, models[2].state_dict()[n]) for n, w in average_checkpoints(paths[2:3]).items())
    Transformer(TINY).load_state_dict(mean)
    for i, model in enumerate(models):  # state dicts in each form they are found in, and paths as text from a generator
        torch.save(model.state_dict(), tmp_path / f"bare{i}.pt", _use_new_zipfile_serialization=i != 1)
        torch.save({"model": model.state_dict(), "step": 3}, tmp_path / f"inside{i}.pt")
    weights = [path / "model.safetensors" for path in paths]
    forms = ["bare", "inside"]
    others = [average_checkpoints(str(tmp_path / f"{form}{i}.pt") for i in range(5)) for form in forms]
    for other in (*others, average_checkpoints(weights), average_checkpoints([*paths[:3], *weights[3:]])):
        assert other.keys() == mean.keys()
        assert all(torch.equal(other[name], weight) for name, weight in mean.items())


@pytest.mark.paper("ckpt-avg")
def test_the_average_does_not_depend_on_the_pieces(tmp_path, monkeypatch):
    states = [{"a": torch.randn(7, 3), "b": torch.randn(()), "c": torch.empty(0), "d": torch.randn(11)} for _ in "123"]
    states[1]["a"] = states[1]["a"].T.contiguous().T  # the same shape, another order in memory
    for i, state in enumerate(states):
        torch.save(state, tmp_path / f"{i}.pt")
    paths = [tmp_path / f"{i}.pt" for i in range(3)]
    whole = average_checkpoints(paths)
    for span in (1, 5, 21, 22):
        monkeypatch.setattr(checkpoints, "SPAN", span)
        pieces = average_checkpoints(paths)
        assert all(torch.equal(pieces[name], weight) for name, weight in whole.items())
    torch.testing.assert_close(whole["a"], torch.stack([state["a"] for state in states]).mean(0))


@pytest.mark.paper("ckpt-avg")
def test_checkpoints_without_a_common_mean_are_refused(saved, tmp_path):
    other = fresh_model(d_ff=12)
    save_checkpoint(tmp_path / "other", other, adam(other, SETTINGS), 0)
    with pytest.raises(ValueError, match="other.model.safetensors and .* are of different models and have no common"):
        average_checkpoints([saved, tmp_path / "other"])
    with pytest.raises(ValueError, match="no paths: an average needs at least one checkpoint"):
        average_checkpoints([])
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        average_checkpoints([tmp_path / "none.pt"])
    torch.save({"weights": 3}, tmp_path / "foreign.pt")
    with pytest.raises(ValueError, match="foreign.pt holds neither a checkpoint nor a state dict"):
        average_checkpoints([tmp_path / "foreign.pt"])
    for name, content in (("a.safetensors", b"\x00" * 20), ("b.pt", b"PK\x03\x04 no"), ("c.pt", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} {DAMAGED}"):
            average_checkpoints([tmp_path / name])
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    with pytest.raises(ValueError, match=DAMAGED):
        average_checkpoints([saved])


MODEL_MB = 160


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_averaging_takes_the_memory_of_two_models_at_most(tmp_path, ending):
    """Eight files; holding all of them, or one beside a sum in double precision, would take more."""
    state = {"wide": torch.ones(MODEL_MB * 2**18 // 2), "tall": torch.ones(MODEL_MB * 2**18 // 2)}
    first = tmp_path / f"0.{ending}"
    save_file(state, first) if ending == "safetensors" else torch.save(state, first)
    del state
    program = """
import sys
from pathlib import Path
from transformer_lib import average_checkpoints
def peak():
    return next(int(s.split()[1]) for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("VmHWM"))
before = peak()
mean = average_checkpoints(sys.argv[1:])
print((peak() - before) / 1024, mean["wide"][-1].item())
"""
    paths = [str(first)] * 8
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True)
    peak, value = map(float, done.stdout.split())
    assert value == 1.0
    assert MODEL_MB * 0.9 < peak < MODEL_MB * 2, f"{peak:.0f} MB"
