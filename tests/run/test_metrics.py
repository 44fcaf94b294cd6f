import json

import pytest

from transformer_run.training_run import Metrics


@pytest.mark.parametrize("left", [b'{"step_num": 3, "loss', b"\x00\x00\x00\n", b"[3]\n", b"\n", b"{}\n"])
def test_what_a_kill_cut_short_and_what_comes_after_the_checkpoint_is_dropped(tmp_path, left):
    with Metrics(tmp_path) as metrics:
        for step_num in (1, 2, 3):
            metrics.write({"step_num": step_num})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + left)
    for steps_done in (3, 2, 0):
        with Metrics(tmp_path, steps_done):
            pass
        kept = [json.loads(line) for line in path.read_text().splitlines()]
        assert kept == [{"step_num": step_num} for step_num in range(1, steps_done + 1)]


def test_validations_since_the_best_are_counted(tmp_path):
    with Metrics(tmp_path) as metrics:
        for step_num, perplexity in enumerate([9.0, 5.0, 5.0, 6.0], start=1):
            metrics.write({"step_num": step_num, "val_perplexity": perplexity})
            assert metrics.since_best == [0, 0, 1, 2][step_num - 1]
    with Metrics(tmp_path, steps_done=3) as metrics:
        assert metrics.since_best == 1


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Metrics(None) as metrics:
        metrics.write({"step_num": 1})
    assert metrics.last == {"step_num": 1}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix
def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="metrics.jsonl"):
        Metrics(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "mine"
