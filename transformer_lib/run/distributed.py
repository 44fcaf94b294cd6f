"""Training in several processes: who does what, and when their gradients meet."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed import PrefixStore, rendezvous  # pyright: ignore[reportPrivateImportUsage]
from torch.nn.parallel import DistributedDataParallel


class Processes(NamedTuple):
    """The place of this process among those that train one model; (0, 1) alone."""

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


def exchange(replica: nn.Module, now: bool) -> AbstractContextManager[None]:
    """Inside the `with` block, backward passes exchange gradients, or keep them for a later exchange."""
    if now or not isinstance(replica, DistributedDataParallel):
        return contextlib.nullcontext()
    return replica.no_sync()


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of what every process has here."""
    if processes().world_size > 1:
        torch.distributed.all_reduce(value)
    return value


def meet(device: str) -> str:
    """Meet the other processes that `torchrun` started; returns the device of this one. Without torchrun, nothing."""
    if "RANK" not in os.environ:
        return device
    kind = torch.device(device).type
    if kind == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    # After a restart the launcher's store still holds the addresses of processes that are gone.
    store, rank, world_size = next(rendezvous("env://"))
    store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    backend = "nccl" if kind == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    return device


def leave() -> None:
    """Leave the others, where `meet` found them."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def agreed(decision: bool, device: str) -> bool:
    """What the first process decided: clocks differ, and either all go on or none."""
    if processes().world_size == 1:
        return decision
    flag = torch.tensor(int(decision), device=device)
    torch.distributed.broadcast(flag, src=0)
    return bool(flag.item())


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """Inside the `with` block the first process goes first; the others enter when it has left."""
    rank, world_size = processes()
    if rank > 0:
        torch.distributed.barrier()
    yield
    if rank == 0 and world_size > 1:
        torch.distributed.barrier()
