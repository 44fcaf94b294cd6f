import functools
import math
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command_line import files_of, rewrite
from kills import kills
from safetensors.torch import load_file, save_file

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints
from transformer_lib.data import make_batch
from transformer_lib.training import adam, train
from transformer_lib.weight_files import digest, parsed, read_file
from transformer_run.checkpoints import (
    PART,
    RunCheckpoints,
    load_checkpoint,
    save_checkpoint,
    whole,
    write_file,
)

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.0)
SETTINGS = TrainingConfig(num_steps=6, batch_tokens=40, warmup_steps=4)
DAMAGED = "altered"


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


def save(run, model, optimizer, step_num, val_perplexity=None):
    """Write a checkpoint of a run, as training does."""
    save_checkpoint(run.path(step_num), model, optimizer, step_num, val_perplexity)
    run.remove_old()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "step-000002.safetensors"
    save_checkpoint(path, *trained(), 2, val_perplexity=3.5)
    return path


def snapshot(model, optimizer):
    """Everything that loading may change, in a form that compares."""
    return repr([plain(model.state_dict()), plain(optimizer.state_dict())])


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return sorted((str(key), plain(item)) for key, item in value.items())
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def test_a_checkpoint_is_one_file_and_no_pickle(saved):
    assert list(saved.parent.iterdir()) == [saved]
    model, _ = trained()
    tensors, weights = load_file(saved), model.state_dict()
    assert all(torch.equal(tensors[name], weight) for name, weight in weights.items())
    keys = ("step", "exp_avg", "exp_avg_sq")
    names = {f"optimizer.{i}.{key}" for i, _ in enumerate(model.parameters()) for key in keys}
    assert tensors.keys() == {*weights, *names}
    described = read_file(saved).described
    assert [described[key] for key in ("step_num", "val_perplexity")] == [2, 3.5]
    assert described["versions"]["torch"] == torch.__version__
    assert TransformerConfig(**described["config"]) == TINY
    (saved.parent / "usual").touch()
    assert saved.stat().st_mode == (saved.parent / "usual").stat().st_mode  # no more private than other files


def test_loading_restores_the_optimizer_and_leaves_the_random_states(saved):
    model, optimizer = trained()
    other = fresh_model()
    torch.nn.init.zeros_(other.embedding.weight)
    other_optimizer = adam(other, replace(SETTINGS, beta1=0.5))
    generators = torch.get_rng_state()
    assert load_checkpoint(saved, other, other_optimizer) == 2
    assert snapshot(other, other_optimizer) == snapshot(model, optimizer)
    assert torch.equal(torch.get_rng_state(), generators)


def test_an_infinite_perplexity_is_none(saved):
    save_checkpoint(saved, *trained(), 2, val_perplexity=float("inf"))
    assert read_file(saved).described["val_perplexity"] is None


# What a reader must refuse. Each leaves the model and the optimizer as they were.


def refused(path, message, model=None, optimizer=None):
    model = model or fresh_model()
    optimizer = optimizer or adam(model, SETTINGS)
    before = snapshot(model, optimizer)
    with pytest.raises(ValueError, match=message) as caught:
        load_checkpoint(path, model, optimizer)
    assert snapshot(model, optimizer) == before
    assert str(path) in str(caught.value)


def length_of_header(size):
    return size.to_bytes(8, "little")


@pytest.mark.parametrize(
    "damaged",
    [
        *(lambda content, length=length: content[:length] for length in (0, 7, 9, 500, -1)),
        *(lambda content, size=size: length_of_header(size) + content[8:] for size in (1 << 63, 90 << 20)),
        *(lambda _, size=size: length_of_header(size) + b" " * (90 << 20) for size in (1 << 63, 90 << 20)),
    ],
)
def test_a_truncated_checkpoint_and_a_header_of_any_size_are_refused(saved, damaged):
    saved.write_bytes(damaged(saved.read_bytes()))
    refused(saved, DAMAGED)


@pytest.mark.posix
@pytest.mark.parametrize("read", [lambda p: load_checkpoint(p, fresh_model()), lambda p: average_checkpoints([p])])
def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    for path in ("none", "loop", "dangling"):
        with pytest.raises(FileNotFoundError, match=path):
            read(tmp_path / path)
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(ValueError, match=path.name):
            read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": None}, DAMAGED),
        ({"config": {"d_modle": 8}}, "vocabulary_size"),
        ({"optimizer": {"kind": "Adam"}}, "param_groups"),
        ({"optimizer": {"kind": "SGD", "param_groups": []}}, "SGD"),
        ({"change": lambda t: t.pop("embedding.weight")}, "embedding.weight"),
        ({"change": lambda t: t.update(extra=torch.zeros(1))}, "extra"),
        ({"change": lambda t: t.update({"embedding.weight": torch.zeros(2, 3)})}, "embedding.weight"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(saved, changes, message):
    rewrite(saved, **changes)
    refused(saved, message)


def test_another_config_or_optimizer_is_refused(saved):
    refused(saved, "d_ff.*norm_order", fresh_model(d_ff=12, norm_order="pre"))
    refused(saved, "num_decoder_layers", fresh_model(num_decoder_layers=2))
    model = fresh_model()
    refused(saved, "Adam.*SGD", model, torch.optim.SGD(model.parameters()))
    half = torch.optim.Adam(list(model.parameters())[:3])
    refused(saved, "optimizer", model, half)
    with pytest.raises(ValueError, match="optimizer"):
        save_checkpoint(saved, fresh_model(), half, 1)
    optimizer = torch.optim.SGD(model.parameters())
    optimizer.state[model.embedding.weight]["momentum_buffer"] = None
    with pytest.raises(ValueError, match="momentum_buffer"):
        save_checkpoint(saved, model, optimizer, 1)


class Trap:
    def __reduce__(self):
        return (print, ("code ran",))


def test_loading_runs_no_code(saved, tmp_path, capsys, monkeypatch):
    # As in PyTorch 2.5, the oldest that the package takes: code runs unless the caller forbids it.
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda *given, **named: load(*given, **{"weights_only": False, **named}))
    torch.save({"model": Trap()}, saved)
    refused(saved, DAMAGED)
    torch.save({"model": Trap()}, tmp_path / "trap.pt")
    for path in (tmp_path / "trap.pt", saved):
        with pytest.raises(ValueError, match=DAMAGED):
            average_checkpoints([path])
    assert capsys.readouterr().out == ""


# Writing: whole or not at all.


def test_what_is_no_checkpoint_is_not_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("unique")
    for path in (tmp_path / "thesis", tmp_path / "thesis" / "chapter"):
        with pytest.raises(ValueError, match=path.name):
            save_checkpoint(path, *trained(), 0)
    assert files_of(tmp_path) == {"thesis/chapter": b"unique"}


@pytest.mark.parametrize("step_num", [1, 2])
def test_a_kill_before_any_file_operation_leaves_the_last_checkpoint(tmp_path, monkeypatch, step_num):
    """Of a new step, after which the old checkpoint is removed, and of one that is written again."""
    run = RunCheckpoints(tmp_path / "run", keep_last=1)
    old, new = trained(1), trained(2)

    def begin():
        shutil.rmtree(run.folder, ignore_errors=True)
        save(run, *old, 1)

    for done in kills(monkeypatch, begin, lambda: save(run, *new, step_num)):
        model = fresh_model()
        run.clean()
        load_checkpoint(run.newest_intact()[0], model, adam(model, SETTINGS))
        expected = [new] if done else [old, new]
        assert any(torch.equal(model.embedding.weight, kept.embedding.weight) for kept, _ in expected)
        assert sorted(run.folder.iterdir()) == run.paths()  # nothing half written is left


@contextmanager
def nothing_fits(share, folder, size):
    """The disk is full after this share of a file, or the folder takes no file at all (share 0)."""
    import resource

    limits, user = resource.getrlimit(resource.RLIMIT_FSIZE), os.geteuid()
    try:
        if share:
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(size * share), limits[1]))
        else:
            folder.chmod(0o555)
            if user == 0:  # root may write anywhere
                os.seteuid(65534)
        yield
    finally:
        os.seteuid(user)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        folder.chmod(0o755)


@pytest.mark.posix
@pytest.mark.parametrize(
    ("share", "reason"), [*((share, "File too large") for share in (0.01, 0.5, 0.99)), (0, "Permission denied")]
)
def test_a_disk_that_takes_nothing_is_a_clear_error(saved, monkeypatch, share, reason):
    before = files_of(saved.parent)
    monkeypatch.chdir(saved.parent)  # whoever is not root may not walk down to it
    size = saved.stat().st_size
    for path in ("step-000004.safetensors", "step-000002.safetensors"):
        with pytest.raises(OSError, match=f"{path}.*{reason}"), nothing_fits(share, saved.parent, size):
            save_checkpoint(path, *trained(), 4)
    assert files_of(saved.parent) == before


def test_a_path_below_a_file_is_a_clear_error(saved):
    with pytest.raises(OSError, match="step-000002"):
        save_checkpoint(saved / "new", *trained(), 1)


# The checkpoints of one run.


def test_the_last_and_the_best_are_kept(tmp_path):
    run = RunCheckpoints(tmp_path, keep_last=2)
    model, optimizer = trained()
    for step_num, score in [(5, 9.0), (10, 4.0), (15, 6.0), (20, None), (25, 4.0), (30, 7.0)]:
        save(run, model, optimizer, step_num, score)
    names = [f"step-0000{step_num}.safetensors" for step_num in (10, 25, 30)]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    again = RunCheckpoints(tmp_path, keep_last=2)  # as after a restart
    assert [p.name for p in again.paths()] == names
    assert again.best().stem == "step-000010"  # the first of two equal ones
    assert [p.name for p in again.last()] == names[1:]
    save(again, model, optimizer, 35, 3.0)
    assert [p.stem for p in again.paths()] == ["step-000030", "step-000035"]
    assert again.best() == again.paths()[-1]


def test_steps_are_ordered_as_numbers(tmp_path):
    run = RunCheckpoints(tmp_path)
    for step_num in (1_000_000, 999_999):
        save(run, *trained(), step_num)
    assert run.last()[-1].stem == "step-1000000"


def test_an_empty_run_says_so(tmp_path):
    run = RunCheckpoints(tmp_path / "none")
    run.clean()
    assert run.paths() == []
    assert run.best() is None
    for load in (run.last, run.chosen, run.newest_intact):
        with pytest.raises(FileNotFoundError, match="train first"):
            load()
    with pytest.raises(ValueError, match="keep_last"):
        RunCheckpoints(tmp_path, keep_last=0)


def test_a_checkpoint_whose_score_was_altered_is_not_the_best_and_removes_none(tmp_path):
    run = RunCheckpoints(tmp_path, keep_last=1)
    save(run, *trained(), 1, 1.5)
    save(run, *trained(), 2, 7.5)
    content = run.path(2).read_bytes()
    assert content.count(b"7.5") == 1
    for damaged in (content[:-1], content.replace(b"7.5", b"0.5")):
        run.path(2).write_bytes(damaged)
        assert run.best() == run.path(1)
    save(run, *trained(), 3, 8.5)
    assert run.best() == run.path(1)


@pytest.mark.posix
def test_links_are_not_followed_when_a_run_tidies_up(tmp_path):
    run = RunCheckpoints(tmp_path / "run", keep_last=1)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("unique")
    run.folder.mkdir()
    (run.folder / "step-000001.safetensors").symlink_to(tmp_path / "thesis")
    (run.folder / "step-000002.safetensors").symlink_to(tmp_path / "thesis" / "chapter")
    (run.folder / f"step-000004.safetensors{PART}").symlink_to(tmp_path / "thesis")
    save(run, *trained(), 3)
    with pytest.raises(OSError, match="step-000004"):
        save(run, *trained(), 4)
    run.clean()
    assert [p.stem for p in run.paths()] == ["step-000003"]
    assert files_of(tmp_path / "thesis") == {"chapter": b"unique"}


def test_cleaning_removes_what_a_kill_left_and_nothing_else(saved):
    folder = saved.parent
    (folder / f"step-000004.safetensors{PART}").mkdir()
    shutil.copy(saved, folder / f"step-000004.safetensors{PART}" / ".tmp")
    kept = ["step-000003.safetensors.damaged", "notes", "step-by-step.part"]
    for name in kept:
        shutil.copy(saved, folder / name)
    RunCheckpoints(folder).clean()
    assert {p.name for p in folder.iterdir()} == {saved.name, *kept}


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
    weights = [tmp_path / f"{i}.safetensors" for i in range(5)]
    for path, model in zip(weights, models, strict=True):
        save_file(model.state_dict(), path)
    forms = ["bare", "inside"]
    others = [average_checkpoints(str(tmp_path / f"{form}{i}.pt") for i in range(5)) for form in forms]
    for other in (*others, average_checkpoints(weights), average_checkpoints([*paths[:3], *weights[3:]])):
        assert other.keys() == mean.keys()
        assert all(torch.equal(other[name], weight) for name, weight in mean.items())


def test_the_mean_of_integers_is_rounded_and_not_cut_off(tmp_path):
    for i, values in enumerate(([1, 5, -1, 0], [2, 5, -2, 1], [2, 5, -2, 0])):
        torch.save({"steps": torch.tensor(values), "seen": torch.tensor([i > 0])}, tmp_path / f"{i}.pt")
    mean = average_checkpoints(sorted(tmp_path.iterdir()))
    assert mean["steps"].tolist() == [2, 5, -2, 0]  # of 5/3, 5, -5/3, 1/3
    assert mean["seen"].tolist() == [True]  # in two of three


@pytest.mark.paper("ckpt-avg")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sum_is_in_double_precision(tmp_path, dtype):
    """One large number and many small ones, each less than half of its last digit."""
    weights = torch.tensor([1.0, *[torch.finfo(dtype).eps / 4] * 8], dtype=dtype)
    for i, weight in enumerate(weights):
        torch.save({"w": weight.clone(), "none": torch.empty(0)}, tmp_path / f"{i}.pt")
    mean = average_checkpoints([tmp_path / f"{i}.pt" for i in range(len(weights))])
    expected = math.fsum(weights.tolist()) / len(weights)
    assert mean["w"].dtype == dtype
    assert mean["w"].item() == torch.tensor(expected, dtype=torch.float64).to(dtype).item()
    assert mean["none"].shape == (0,)


@pytest.mark.paper("ckpt-avg")
def test_checkpoints_without_a_common_mean_are_refused(saved, tmp_path):
    other = fresh_model(d_ff=12)
    save_checkpoint(tmp_path / "other", other, adam(other, SETTINGS), 0)
    with pytest.raises(ValueError, match="feed_forward"):
        average_checkpoints([saved, tmp_path / "other"])
    with pytest.raises(ValueError, match="paths"):
        average_checkpoints([])
    torch.save({"weights": 3}, tmp_path / "foreign.pt")
    with pytest.raises(ValueError, match="foreign.pt"):
        average_checkpoints([tmp_path / "foreign.pt"])
    for name, content in (("a.safetensors", b"\x00" * 20), ("b.pt", b"PK\x03\x04 no"), ("c.pt", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=name):
            average_checkpoints([tmp_path / name])


MODEL_MB = 64


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_averaging_holds_the_sum_and_one_file(tmp_path):
    """Five files; the sum is twice as large as one, the file that is read and the mean are each as large."""
    state = {"wide": torch.ones(MODEL_MB * 2**18 // 2), "tall": torch.ones(MODEL_MB * 2**18 // 2)}
    save_file(state, tmp_path / "0.safetensors")
    torch.save(state, tmp_path / "0.pt")
    del state
    program = """
import sys
from pathlib import Path
from transformer_lib import average_checkpoints
def peak():
    return next(int(s.split()[1]) for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("VmHWM"))
before = peak()
for path in sys.argv[1:]:
    print((peak() - before) / 1024, average_checkpoints([path] * 5)["wide"][-1].item())
print((peak() - before) / 1024)
"""
    paths = [str(tmp_path / name) for name in ("0.safetensors", "0.pt")]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True)
    (_, first), (one, second), (both,) = ([float(n) for n in line.split()] for line in done.stdout.splitlines())
    assert first == second == 1.0
    assert MODEL_MB * 2 < one <= both < MODEL_MB * 4.5, f"{one:.0f} MB, then {both:.0f} MB"


def test_a_text_is_written_with_the_same_line_ends_on_every_system(tmp_path):
    write_file(tmp_path / "new" / "notes.txt", "für\nalle\n")
    assert (tmp_path / "new" / "notes.txt").read_bytes() == "für\nalle\n".encode()


def test_writing_deletes_no_folder_that_it_did_not_make(tmp_path):
    mine = tmp_path / "notes.json.part" / "chapter"
    mine.parent.mkdir()
    mine.write_text("unique")
    for text in ("old", "new"):
        write_file(tmp_path / "notes.json", text)
    assert mine.read_text() == "unique"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.json", "notes.json.part"]
    assert (tmp_path / "notes.json").read_text() == "new"
    with pytest.raises(OSError, match="untouched"), whole(mine.parent) as part:
        part.mkdir()
    assert mine.read_text() == "unique"


def test_the_digest_is_of_the_text_and_of_names_types_shapes_and_numbers():
    tensor = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    others = [
        {"b": tensor},
        {"a": tensor, "b": tensor},
        {"a": tensor.reshape(4)},
        {"a": tensor.view(torch.int32)},
        {"a": tensor.T},
        {"a": tensor.nextafter(torch.tensor(9.0))},
        {"a": torch.empty(0)},
        {"a": torch.tensor(1.0)},
        {},
    ]
    assert len({digest(text, state) for state in [{"a": tensor}, *others] for text in "xy"}) == 2 * (1 + len(others))
    assert digest("", {"a": tensor, "b": tensor.T}) == digest("", {"b": tensor.T.contiguous(), "a": tensor.clone()})


@pytest.mark.parametrize(("text", "message"), [("", "Expecting"), ("[3]", r"\[3\]"), ("[" * 200_000, "nested")])
def test_a_text_that_is_no_object_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parsed(text)
