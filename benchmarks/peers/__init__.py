"""One adapter for each library; all have the same methods, and none is imported before it is asked for.

peer = open_peer("torch", work.shape)       # raises where its library cannot be imported
peer.start_training(); peer.train_step(batch, rate) -> the smoothed loss before the update
peer.start_decoding(); peer.greedy(source, length), peer.beam(source, length, beam_size) -> lists of ids
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.work import BETAS, EPSILON, EPSILON_LS, PAD, PaddedBatch, Shape


class Entry(NamedTuple):
    """Where an adapter stands, what it can do, and what a reader should know of how it does it."""

    module: str
    package: str
    tasks: tuple[str, ...]
    notes: str
    bf16: bool = False


ALL = ("train", "greedy", "single", "beam")
NO_BEAM = ("train", "greedy", "single")
PEERS = {
    "this": Entry(
        "this",
        "executable-transformer",
        ALL,
        "`training.train`, its fused `adam`, `greedy_decode` and `beam_search` as they are",
    ),
    "this-bf16": Entry("this", "executable-transformer", ("train",), '`Update(model, "bf16")`', bf16=True),
    "torch": Entry(
        "torch_nn",
        "torch",
        NO_BEAM,
        "dropout on the attention weights and inside the feed-forward network too; Adam as PyTorch makes it by "
        "default, here and for all other peers; no cache, no beam search",
    ),
    "torch-bf16": Entry("torch_nn", "torch", ("train",), "the same under `torch.autocast`", bf16=True),
    "marian": Entry("marian", "transformers", ALL, "SDPA attention, `use_cache=True`"),
    "x-transformers": Entry(
        "x_transformers",
        "x-transformers",
        NO_BEAM,
        "pre-norm, learned positions, dropout inside the feed-forward network, `attn_flash=True`; its beam search "
        "does not take an encoder's output",
    ),
    "opennmt-py": Entry("opennmt", "OpenNMT-py", ALL, "pre-norm; its own loss, which counts hits too"),
    "joeynmt": Entry("joeynmt", "joeynmt", ALL, "its own loss; dropout as in torch.nn.Transformer; no cache"),
    "ctranslate2": Entry(
        "ctranslate2", "ctranslate2", ("greedy", "single", "beam"), "Marian's weights, float32; decodes only"
    ),
}
BASES = {"train": "torch", "greedy": "torch", "single": "torch", "beam": "marian"}


def open_peer(name: str, shape: Shape) -> Any:
    """The adapter of that name, with a model of fresh weights."""
    entry = PEERS[name]
    torch.manual_seed(0)
    return import_module(f"benchmarks.peers.{entry.module}").Peer(shape, entry.bf16)


class TorchPeer(ABC):
    """What all peers in PyTorch share: the same loss, the same Adam, the same step."""

    def __init__(self, shape: Shape, bf16: bool = False):
        self.shape, self.bf16 = shape, bf16
        self.model: nn.Module = self.build()

    @abstractmethod
    def build(self) -> nn.Module:
        """The model, in float32."""

    @abstractmethod
    def logits(self, batch: PaddedBatch) -> Tensor:
        """(sentences, target, vocabulary)."""

    def parameters(self) -> int:
        """Trainable ones; a matrix that is used twice counts once."""
        return sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)

    def start_training(self) -> None:
        """Make the optimizer."""
        self.model.train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=BETAS, eps=EPSILON)

    def loss(self, batch: PaddedBatch) -> Tensor:
        """The smoothed cross-entropy, mean over the real target tokens."""
        logits = self.logits(batch).flatten(0, 1)
        target = batch.target_output.flatten()
        return F.cross_entropy(logits, target, ignore_index=PAD, label_smoothing=EPSILON_LS)

    def train_step(self, batch: PaddedBatch, rate: float) -> float:
        """Forward, loss, backward, Adam."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def start_decoding(self) -> None:
        """No dropout from here on."""
        self.model.eval()
