"""The Transformer, the loss and the translator of OpenNMT-py."""

import sys
import types

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import TorchPeer
from benchmarks.work import EPSILON_LS, FIRST_WORD, PAD, PaddedBatch

# Filters of training text import these at once; the benchmark calls none of them, and one needs a compiler.
try:
    import fasttext  # noqa: F401
except ImportError:
    sys.modules["fasttext"] = types.ModuleType("fasttext")
try:
    import spacy  # noqa: F401
except ImportError:
    sys.modules["spacy"] = types.ModuleType("spacy")

import pyonmttok
from onmt.decoders.transformer import TransformerDecoder
from onmt.encoders.transformer import TransformerEncoder
from onmt.models.model import NMTModel
from onmt.modules import Embeddings
from onmt.translate import GNMTGlobalScorer, Translator
from onmt.utils.loss import LossCompute

SPECIAL = ["<blank>", "<s>", "</s>", "<unk>"]  # its names, in this work's order of ids


class Peer(TorchPeer):
    """Built by hand, as its model_builder builds from options."""

    def build(self) -> NMTModel:
        """Pre-norm, the only order it has; dropout on attention weights off, as in the paper."""
        shape = self.shape
        sizes = (shape.num_layers, shape.d_model, shape.num_heads, shape.d_ff)
        source, target = (
            Embeddings(shape.d_model, shape.vocabulary, PAD, position_encoding=True, dropout=shape.p_drop)
            for _ in range(2)
        )
        target.word_lut.weight = source.word_lut.weight
        model = NMTModel(
            TransformerEncoder(*sizes, shape.p_drop, 0.0, source, 0, 0),
            TransformerDecoder(*sizes, False, "scaled-dot-flash", shape.p_drop, 0.0, target, 0, 0, False, False, -1, 0),
        )
        model.generator = nn.Linear(shape.d_model, shape.vocabulary)
        model.generator.weight = source.word_lut.weight
        for name, parameter in model.named_parameters():  # it leaves matrices without values, for its own start
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        nn.init.normal_(source.word_lut.weight, std=shape.d_model**-0.5)
        return model

    def start_training(self) -> None:
        """Its loss, with smoothing, summed over the tokens."""
        super().start_training()
        criterion = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum", label_smoothing=EPSILON_LS)
        self.compute = LossCompute(criterion, self.model.generator)

    def _states(self, batch: PaddedBatch) -> tuple[Tensor, Tensor, dict]:
        target = F.pad(batch.target_output, (1, 0))  # <bos> comes first; it takes the last place off itself
        target[:, 0] = batch.target_input[:, 0]
        states, attentions = self.model(batch.source[..., None], target[..., None], (batch.source != PAD).sum(1))
        return target, states, attentions

    def logits(self, batch: PaddedBatch) -> Tensor:
        """For the check alone: training makes them inside the loss."""
        return self.model.generator(self._states(batch)[1])

    def loss(self, batch: PaddedBatch) -> Tensor:
        """Its sum, divided by the tokens as its trainer does."""
        target, states, attentions = self._states(batch)
        made = {"tgt": target[..., None], "srclen": (batch.source != PAD).sum(1)}
        return self.compute(made, states, attentions)[0] / batch.target_tokens

    def start_decoding(self) -> None:
        """Its translator sets attention's dropout to 0 itself when it loads a model."""
        super().start_decoding()
        for module in self.model.modules():
            if hasattr(module, "dropout_p"):
                module.dropout_p = 0.0
        with torch.no_grad():
            self.model.generator.bias[PAD] = -1e9
        words = [f"w{i}" for i in range(FIRST_WORD, self.shape.vocabulary)]
        self.vocabulary = pyonmttok.build_vocab_from_tokens(words, special_tokens=SPECIAL)
        if len(self.vocabulary) != self.shape.vocabulary:
            raise RuntimeError(f"the vocabulary has {len(self.vocabulary)} entries, not {self.shape.vocabulary}")

    def _translate(self, source: Tensor, length: int, beam_size: int, **settings: object) -> list[list[int]]:
        scorer = GNMTGlobalScorer(0.6, 0.0, "wu", "none")
        vocabularies = {"src": self.vocabulary, "tgt": self.vocabulary, "decoder_start_token": "<s>"}
        translator = Translator(
            self.model,
            vocabularies,
            min_length=length,
            max_length=length,
            max_length_ratio=0,
            beam_size=beam_size,
            global_scorer=scorer,
            report_score=False,
            **settings,
        )
        batch = {"src": source[..., None], "srclen": (source != PAD).sum(1)}
        predictions = translator.translate_batch(batch, attn_debug=False)["predictions"]
        return [best[0].tolist() for best in predictions]

    def greedy(self, source: Tensor, length: int) -> list[list[int]]:
        """Its greedy search: sampling among the single best."""
        return self._translate(source, length, 1, random_sampling_topk=1)

    def beam(self, source: Tensor, length: int, beam_size: int) -> list[list[int]]:
        """Its beam search, with the paper's length penalty."""
        return self._translate(source, length, beam_size)
