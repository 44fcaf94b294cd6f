"""Training in several processes: the rank of each, and when their gradients are added."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed import PrefixStore, rendezvous  # pyright: ignore[reportPrivateImportUsage]
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")
WAIT = timedelta(hours=6)  # at most, of one rank for another: rank 0 may read a large corpus first


class Processes(NamedTuple):
    """The rank of this process among those that train one model, and their number; (0, 1) alone."""

    rank: int
    world_size: int


def processes() -> Processes:
    """Those of torch.distributed, where it has been started."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Processes(torch.distributed.get_rank(), torch.distributed.get_world_size())
    return Processes(0, 1)


def replica(model: nn.Module) -> nn.Module:
    """The model itself, or what lets its gradients become the mean over all processes."""
    if processes().world_size == 1:
        return model
    device = next(model.parameters()).device
    return DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [device])


def gradient_sync(
    replica: nn.Module,
    now: bool,
) -> AbstractContextManager[None]:
    """Inside the `with` block, backward passes average over all ranks.

    If not `now`, they keep their gradients for a later average.
    """
    if now or not isinstance(replica, DistributedDataParallel):
        return contextlib.nullcontext()
    return replica.no_sync()


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of the values of all ranks."""
    if processes().world_size > 1:
        torch.distributed.all_reduce(value)
    return value


def available_device() -> str:
    """The kind of device to train on here: cuda, else mps (Apple's; for one process alone), else cpu."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() and "RANK" not in os.environ else "cpu"


@contextlib.contextmanager
def process_group(device: str) -> Iterator[str]:
    """Inside the `with` block this process belongs to those that `torchrun` started; gives the device of its rank.

    Without torchrun it is alone and keeps the device.
    """
    if "RANK" not in os.environ:
        yield device
        return
    kind = torch.device(device).type
    if kind == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    # After a restart the launcher's store still holds the addresses of processes that are gone.
    store, rank, world_size = next(rendezvous("env://"))
    store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    backend = "nccl" if kind == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, store=store, timeout=WAIT, rank=rank, world_size=world_size)
    try:
        yield device
    finally:
        torch.distributed.destroy_process_group()


def broadcast(value: T, device: str) -> T:
    """What rank 0 has; the other ranks wait for it. (Clocks differ, and either all ranks go on or none.)

    Raises:
        ValueError: in the others, where rank 0 left with an error.
    """
    rank, world_size = processes()
    if world_size == 1:
        return value
    values = [value]
    try:
        torch.distributed.broadcast_object_list(values, src=0, device=torch.device(device))
    except RuntimeError as error:
        if rank == 0:
            raise
        raise ValueError("rank 0 has stopped; its own error says why") from error
    return values[0]
