from dataclasses import replace

import pytest
import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints
from transformer_lib.checkpoints import load_checkpoint, save_checkpoint
from transformer_lib.training import adam

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.0)
SETTINGS = TrainingConfig(num_steps=6, batch_tokens=40, warmup_steps=4)


def fresh_model(**changes):
    torch.manual_seed(1)
    return Transformer(replace(TINY, **changes)).double()


@pytest.fixture
def saved(tmp_path):
    model = fresh_model()
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, model, adam(model, SETTINGS), 0)
    return path


def test_a_checkpoint_leaves_no_half_written_file(saved):
    assert [p.name for p in saved.parent.iterdir()] == ["checkpoint.pt"]
    assert torch.load(saved, weights_only=True)["step_num"] == 0


def test_a_crash_while_writing_leaves_the_last_checkpoint(saved, monkeypatch):
    before = saved.read_bytes()

    def crash(_state, file):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", crash)
    model = fresh_model()
    with pytest.raises(OSError, match="no space left"):
        save_checkpoint(saved, model, adam(model, SETTINGS), 1)
    assert saved.read_bytes() == before


class Trap:
    def __reduce__(self):
        return (print, ("code ran",))


def test_loading_runs_no_code(tmp_path, capsys):
    torch.save({"config": {}, "model": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(ValueError, match="is truncated, altered or no checkpoint of this library"):
        load_checkpoint(tmp_path / "trap.pt", fresh_model())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": None}, "holds no config of this library"),
        ({"config": {"d_modle": 8}}, "holds no config of this library: unknown key 'd_modle'"),
        ({"model": {}}, "does not hold the weights of this model; too many or missing: decoder.layers.0"),
    ],
)
def test_an_incomplete_checkpoint_is_refused(saved, change, message):
    torch.save(torch.load(saved, weights_only=True) | change, saved)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(str(saved), fresh_model())


def test_a_checkpoint_from_another_config_is_refused(saved):
    other = fresh_model(d_ff=12, norm_order="pre")
    before = [p.clone() for p in other.parameters()]
    message = "is a checkpoint from another config: d_ff is 11 there, 12 here; norm_order is 'post' there, 'pre' here"
    with pytest.raises(ValueError, match=message):
        load_checkpoint(saved, other)
    assert all(torch.equal(p, q) for p, q in zip(before, other.parameters(), strict=True))


@pytest.mark.parametrize(
    "damage", [lambda content: content[: len(content) // 2], lambda _: b"", lambda _: b"PK\x03\x04 no"]
)
def test_a_damaged_checkpoint_is_refused(saved, damage):
    saved.write_bytes(damage(saved.read_bytes()))
    with pytest.raises(ValueError, match="is truncated, altered or no checkpoint of this library"):
        load_checkpoint(saved, fresh_model())


def test_foreign_and_missing_checkpoints_are_refused(tmp_path):
    torch.save({"weights": torch.zeros(2)}, tmp_path / "foreign.pt")
    with pytest.raises(
        ValueError, match="it lacks config, cuda_random_states, model, optimizer, random_state, step_num"
    ):
        load_checkpoint(tmp_path / "foreign.pt", fresh_model())
    with pytest.raises(FileNotFoundError, match="no checkpoint at .*none.pt"):
        load_checkpoint(tmp_path / "none.pt", fresh_model())


@pytest.mark.paper("ckpt-avg")
def test_the_average_is_the_mean_of_every_weight(tmp_path):
    models = [Transformer(TINY) for _ in range(5)]
    paths = [tmp_path / f"{i}.pt" for i in range(5)]
    for path, model in zip(paths, models, strict=True):
        save_checkpoint(path, model, adam(model, SETTINGS), 0)
    mean = average_checkpoints(paths)
    for name, weight in mean.items():
        torch.testing.assert_close(weight, torch.stack([m.state_dict()[name] for m in models]).mean(0))
    assert all(torch.equal(w, models[2].state_dict()[n]) for n, w in average_checkpoints(paths[2:3]).items())
    Transformer(TINY).load_state_dict(mean)
    for i, model in enumerate(models):  # bare state dicts, and paths as text from a generator
        torch.save(model.state_dict(), tmp_path / f"bare{i}.pt")
    bare = average_checkpoints(str(tmp_path / f"bare{i}.pt") for i in range(5))
    assert all(torch.equal(bare[name], weight) for name, weight in mean.items())


@pytest.mark.paper("ckpt-avg")
def test_checkpoints_without_a_common_mean_are_refused(saved, tmp_path):
    other = fresh_model(d_ff=12)
    save_checkpoint(tmp_path / "other.pt", other, adam(other, SETTINGS), 0)
    with pytest.raises(ValueError, match="other.pt and .* are of different models and have no common mean"):
        average_checkpoints([saved, tmp_path / "other.pt"])
    with pytest.raises(ValueError, match="no paths: an average needs at least one checkpoint"):
        average_checkpoints([])
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        average_checkpoints([tmp_path / "none.pt"])
