"""This library, through the functions that its users call."""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.peers import TorchPeer
from benchmarks.work import BETAS, BOS, EOS, EPSILON, EPSILON_LS, PAD, RATE_WARMUP, PaddedBatch, Shape
from transformer_lib import TrainingConfig, Transformer, TransformerConfig, beam_search, greedy_decode
from transformer_lib.data import Batch
from transformer_lib.training import StepRecord, adam, train
from transformer_run.update import Update


def model_config(shape: Shape, **changes: object) -> TransformerConfig:
    """The library's config for these sizes."""
    width = shape.d_model // shape.num_heads
    return TransformerConfig(
        vocabulary_size=shape.vocabulary,
        num_layers=shape.num_layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        num_heads=shape.num_heads,
        d_k=width,
        d_v=width,
        p_drop=shape.p_drop,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        **changes,
    )


def training_config() -> TrainingConfig:
    """The library's settings for this work."""
    return TrainingConfig(
        num_steps=10**9,
        warmup_steps=RATE_WARMUP,
        beta1=BETAS[0],
        beta2=BETAS[1],
        epsilon=EPSILON,
        epsilon_ls=EPSILON_LS,
    )


class Peer(TorchPeer):
    """Training by `train`, which sets the rate of equation (3) itself; decoding with an `<eos>` that never wins."""

    def build(self) -> Transformer:
        """The paper's model."""
        return Transformer(model_config(self.shape))

    def logits(self, batch: PaddedBatch) -> Tensor:
        """As users call the model."""
        return self.model(batch.source, batch.target_input)

    def start_training(self) -> None:
        """Open the loop, which waits for its batches."""
        config, update = training_config(), Update(self.model, "bf16" if self.bf16 else "fp32")
        optimizer = adam(self.model, config)
        self.steps: Iterator[StepRecord] = train(self.model, optimizer, self._fed(), config, update=update)

    def _fed(self) -> Iterator[Batch]:
        while True:
            yield self.batch

    def train_step(self, batch: PaddedBatch, rate: float) -> float:
        """One turn of the loop."""
        self.batch = Batch(*batch)
        record = next(self.steps)
        if abs(record.learning_rate - rate) > 1e-9:
            raise RuntimeError(f"the learning rate is {record.learning_rate}; everybody else's is {rate}")
        return record.loss_nats_per_token

    def start_decoding(self) -> None:
        """A bias that keeps `<eos>` from being chosen leaves the code that runs as it is."""
        weights = self.model.state_dict()
        self.model = Transformer(model_config(self.shape, output_bias=True))
        self.model.load_state_dict(weights, strict=False)
        with torch.no_grad():
            self.model.output_bias[EOS] = -1e9
        self.model.eval()

    @torch.inference_mode()  # as a translator decodes
    def greedy(self, source: Tensor, length: int) -> list[list[int]]:
        """With the cache, as always."""
        return greedy_decode(self.model, source, max_length=length).tolist()

    @torch.inference_mode()
    def beam(self, source: Tensor, length: int, beam_size: int) -> list[list[int]]:
        """With the paper's length penalty."""
        return beam_search(self.model, source, beam_size=beam_size, max_length=length).tolist()
