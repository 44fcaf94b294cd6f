"""One update of a run: the plain one of training.py, with a precision, R-Drop, a compiler or several processes."""

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed import PrefixStore, rendezvous  # pyright: ignore[reportPrivateImportUsage]
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from transformer_lib.config import TrainingConfig
from transformer_lib.data.batches import Batch
from transformer_lib.shapes import Scalar
from transformer_lib.training import batch_loss, diverged, dropout_seed, seeded, shorten_gradient
from transformer_lib.transformer import Transformer

from .r_drop import r_drop_loss

Precision = Literal["fp32", "bf16", "fp16", "auto"]  # the number format of matrix products
T = TypeVar("T")
WAIT = timedelta(hours=6)  # at most, of one rank for another: rank 0 may read a large corpus first
FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Update:
    """What `train` takes as its update. In float32 and one process it does what one_update does, to the bit.

    Several processes (torch.distributed) share out the batches of a step.

    Args:
        precision: "bf16" and "fp16" let matrix products run in 16 bits (torch.autocast), fp16 with a scaled loss;
            weights and sums stay in float32. "auto": what the device multiplies fast.
        r_drop: weight of the second term of R-Drop, a method of 2021; 0: the paper's loss.
        compile: whether torch.compile makes kernels for this model first; pays on a GPU.
        scaler: of the loss in fp16, to be saved with the optimizer; None: a new one.
    """

    overflows = 0  # attempts of the last step in fp16 before the one that counted, at larger scales

    def __init__(
        self,
        model: Transformer,
        precision: Precision = "fp32",
        r_drop: float = 0.0,
        compile: bool = False,
        scaler: GradScaler | None = None,
    ):
        self.r_drop = r_drop
        self.device = next(model.parameters()).device
        self.precision: Precision = chosen_precision(precision, self.device)
        self.scaler = scaler or gradient_scaler(self.precision, self.device)
        self.replica = replica(model)
        self.forward = torch.compile(self.replica, dynamic=True) if compile else self.replica

    def __call__(
        self, model: Transformer, optimizer: Optimizer, batches: Sequence[Batch], config: TrainingConfig, step_num: int
    ) -> float:
        """As one_update. After an overflow in fp16 the step is tried again at half the scale.

        Raises:
            ValueError: fewer batches than processes.
            FloatingPointError: as one_update does; in fp16, at every scale.
        """
        rank, world_size = processes()
        check_accumulate(len(batches))
        target_tokens = sum(batch.target_tokens for batch in batches)
        own = [batch.to(self.device) for batch in batches[rank::world_size]]
        self.overflows = 0
        while True:
            optimizer.zero_grad()
            with seeded(dropout_seed(config.seed, step_num, rank), self.device):
                losses = self.backward(own, target_tokens, world_size, config.epsilon_ls)
            step_loss = sum_over_processes(torch.stack(losses).sum()).item()  # waits for the device
            self.scaler.unscale_(optimizer)
            norm = shorten_gradient(optimizer, config.max_grad_norm)
            scale = self.scaler.get_scale()
            if not math.isfinite(step_loss) or scale < 1 or not (math.isfinite(norm) or self.scaler.is_enabled()):
                raise diverged(step_num, optimizer, step_loss, norm)
            self.scaler.step(optimizer)
            self.scaler.update()
            if self.scaler.get_scale() >= scale:
                return step_loss
            self.overflows += 1

    def loss(self, batch: Batch, epsilon_ls: float) -> Scalar:
        """The sum of the losses of all real target tokens, in nats."""
        with autocast(self.precision, self.device):
            if self.r_drop:
                return r_drop_loss(self.forward, batch, epsilon_ls, self.r_drop)
            return batch_loss(self.forward, batch, epsilon_ls)

    def backward(
        self, batches: Sequence[Batch], target_tokens: int, world_size: int, epsilon_ls: float
    ) -> list[Tensor]:
        """Add the gradients of these batches; returns their losses, each its share of the step's."""
        losses = []
        for i, batch in enumerate(batches, start=1):
            with gradient_sync(self.replica, now=i == len(batches)):
                loss = self.loss(batch, epsilon_ls) / target_tokens
                # The synchronized gradient is the processes' mean.
                self.scaler.scale(loss * world_size).backward()
            losses.append(loss.detach())
        return losses


def chosen_precision(precision: Precision, device: torch.device) -> Precision:
    """What "auto" means on this device; any other precision is itself.

    bf16 on CUDA from capability 8.0 on, fp16 on older cards, whose bfloat16
    PyTorch emulates; elsewhere fp32.
    """
    if precision != "auto":
        return precision
    if device.type != "cuda":
        return "fp32"
    has_bf16 = torch.cuda.get_device_capability(device) >= (8, 0)
    return "bf16" if has_bf16 else "fp16"


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Inside the `with` block matrix products run in this precision; PyTorch chooses which operations follow."""
    return torch.autocast(device.type, FORMATS.get(precision, torch.bfloat16), enabled=precision in FORMATS)


def gradient_scaler(precision: Precision, device: torch.device) -> GradScaler:
    """PyTorch's own scaler of the loss: of fp16; in other precisions it does nothing."""
    return GradScaler(device.type, enabled=precision == "fp16")


class Processes(NamedTuple):
    """The rank of this process among those that train one model, and their number; (0, 1) alone."""

    rank: int
    world_size: int


def processes() -> Processes:
    """Those of torch.distributed, where it has been started."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Processes(torch.distributed.get_rank(), torch.distributed.get_world_size())
    return Processes(0, 1)


def check_accumulate(accumulate: int) -> None:
    """Raises ValueError for fewer batches a step than there are processes to share them."""
    if accumulate < (number := processes().world_size):
        raise ValueError(f"accumulate = {accumulate} is too few for {number} processes; give at least {number}")


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
