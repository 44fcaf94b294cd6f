"""One writer to a folder. (What a run writes, and how it goes on: test_cli.py.)"""

import os
import signal
import subprocess
import sys

import pytest

from transformer_run.training_run import only_writer

HOLDER = """
import sys
from pathlib import Path
from transformer_run.training_run import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_by_name(tmp_path):
    folder = tmp_path / "run"
    with only_writer(folder):
        (folder / "translator.json").touch()
        with pytest.raises(ValueError, match=folder.name):
            only_writer(folder).__enter__()
    with only_writer(folder):  # the first has ended
        pass
    assert (folder / "translator.json").exists()


@pytest.mark.posix
def test_a_lock_that_is_a_link_leaves_what_is_behind_it(tmp_path):
    mine, folder = tmp_path / "mine", tmp_path / "run"
    mine.write_text("my thesis")
    folder.mkdir()
    (folder / ".lock").symlink_to(mine)
    with pytest.raises(ValueError, match=r"\.lock"):
        only_writer(folder).__enter__()
    assert mine.read_text() == "my thesis"


@pytest.mark.parametrize("name", ["run", "."])
def test_a_folder_in_which_nothing_was_written_goes_unless_it_was_there_before(tmp_path, name):
    with only_writer(tmp_path / name):
        assert (tmp_path / name).exists()
    assert tmp_path.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.posix
def test_the_hold_ends_with_a_killed_process(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="run"):
            only_writer(tmp_path / "run").__enter__()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with only_writer(tmp_path / "run"):
        pass
