"""The Transformer, the loss and the search of Joey NMT."""

import logging
from types import SimpleNamespace

from joeynmt.model import build_model
from joeynmt.search import search
from torch import Tensor, nn

from benchmarks.peers import TorchPeer
from benchmarks.work import BOS, EOS, EPSILON_LS, PAD, PaddedBatch

logging.getLogger("joeynmt").setLevel(logging.WARNING)


class Vocabulary:
    """What the model and the search ask of a vocabulary: its size and the special ids."""

    pad_index, bos_index, eos_index, unk_index, sep_index = PAD, BOS, EOS, 3, None

    def __init__(self, size: int):
        self.size = size
        self.specials, self.lang_tags = [], []

    def __len__(self) -> int:
        return self.size


class Peer(TorchPeer):
    """Its own configuration, in the paper's form."""

    def build(self) -> nn.Module:
        """Post-norm, everything tied."""
        shape = self.shape
        side = {
            "type": "transformer",
            "num_layers": shape.num_layers,
            "num_heads": shape.num_heads,
            "hidden_size": shape.d_model,
            "ff_size": shape.d_ff,
            "dropout": shape.p_drop,
            "layer_norm": "post",
            "embeddings": {"embedding_dim": shape.d_model, "scale": True, "dropout": shape.p_drop},
        }
        config = {
            "tied_embeddings": True,
            "tied_softmax": True,
            "embed_initializer": "normal",
            "embed_init_weight": shape.d_model**-0.5,
            "encoder": side,
            "decoder": side,
        }
        vocabulary = Vocabulary(shape.vocabulary)
        model = build_model(config, vocabulary, vocabulary)
        model.loss_function = ("crossentropy", EPSILON_LS)
        return model

    @staticmethod
    def _source(source: Tensor) -> dict[str, Tensor]:
        mask = source != PAD
        return {"src": source, "src_mask": mask.unsqueeze(1), "src_length": mask.sum(1)}

    def _inputs(self, batch: PaddedBatch) -> dict[str, Tensor]:
        target = {"trg_input": batch.target_input, "trg": batch.target_output}
        return self._source(batch.source) | target | {"trg_mask": (batch.target_output != PAD).unsqueeze(1)}

    def logits(self, batch: PaddedBatch) -> Tensor:
        """Of encoder and decoder."""
        return self.model._encode_decode(**self._inputs(batch))[0]

    def loss(self, batch: PaddedBatch) -> Tensor:
        """Its sum, divided by the tokens as its trainer does: a divergence, the cross-entropy less a constant."""
        return self.model(return_type="loss", **self._inputs(batch))[0] / batch.target_tokens

    def _search(self, source: Tensor, length: int, beam_size: int, alpha: float) -> list[list[int]]:
        batch = SimpleNamespace(**self._source(source), has_trg=False)
        ids, _, _ = search(self.model, batch, length, beam_size, alpha, min_output_length=length)
        return ids.tolist()

    def start_decoding(self) -> None:
        """Greedy search may choose padding, beam search may not: a hook forbids it."""
        super().start_decoding()

        def forbid(module: nn.Module, arguments: tuple, logits: Tensor) -> None:
            logits[..., PAD] = -1e9

        self.model.decoder.output_layer.register_forward_hook(forbid)

    def greedy(self, source: Tensor, length: int) -> list[list[int]]:
        """Everything so far through the decoder again at each step."""
        return self._search(source, length, 1, 0.0)

    def beam(self, source: Tensor, length: int, beam_size: int) -> list[list[int]]:
        """The same for each candidate."""
        return self._search(source, length, beam_size, 0.6)
