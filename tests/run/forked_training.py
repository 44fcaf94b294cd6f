"""`python -m transformer_run train` in processes forked from one that has imported torch: a start takes a moment."""

import multiprocessing
import os
import socket
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

from transformer_lib.data.number_words import number_pairs


def small_corpus(folder: Path, train_size: int = 2000) -> list[str]:
    """The options for a few number words as files: making all 20,000 at each start would take longer than the steps."""
    options = ["--source", "en", "--target", "de"]
    for option, split in (("--data", "train"), ("--validation", "val")):
        pairs = number_pairs(split, train_size=train_size, held_out=100)
        files = [folder / f"{split}.{language}" for language in ("en", "de")]
        for file, lines in zip(files, zip(*pairs, strict=True), strict=True):
            file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        options += [option, *map(str, files)]
    return options


def _train(arguments: list[str], environment: dict[str, str], said: str) -> None:
    import torch

    from transformer_run import cli

    torch.set_num_threads(1)
    os.environ.update(environment)
    with Path(said).open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(cli.main(["train", *arguments]))


def start(said: Path, *arguments: str, **environment: str) -> BaseProcess:
    """Begin to train; what the process prints is added to this file."""
    forks = multiprocessing.get_context("forkserver")  # here, since Windows has none and collects the tests too
    forks.set_forkserver_preload(["torch", "torch.distributed", "torch._dynamo"])
    process = forks.Process(target=_train, args=([*arguments], environment, str(said)))
    process.start()
    return process


def train_together(said: Path, count: int, *arguments: str) -> list[int | None]:
    """Train in so many processes, as torchrun would start them, and wait for the end; their exit codes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)} if count > 1 else {}
    places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} if store else {} for rank in range(count)]
    processes = [start(said, *arguments, **store, **place) for place in places]
    for process in processes:
        process.join(300)
        process.kill()  # one that does not come back; the others have ended
    return [process.exitcode for process in processes]
