"""CTranslate2, running the weights of a Marian model of transformers."""

import tempfile

import ctranslate2
import torch
from ctranslate2.converters.transformers import BartLoader
from torch import Tensor

from benchmarks.peers.marian import marian
from benchmarks.work import BOS, EOS, PAD, Shape

SPECIAL = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", 3: "<unk>"}


class Peer:
    """It only decodes. It takes words, so the ids travel as strings."""

    def __init__(self, shape: Shape, bf16: bool = False):
        self.words = [SPECIAL.get(i) or f"w{i}" for i in range(shape.vocabulary)]
        self.ids = {word: i for i, word in enumerate(self.words)}
        model = marian(shape)
        self.count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        model.final_logits_bias[:, PAD] = -1e9
        # Marian's own loader drops the last entry of the vocabulary; its parent keeps all.
        model.config.normalize_before = model.config.normalize_embedding = False
        spec = BartLoader().get_model_spec(model)
        for register in (spec.register_source_vocabulary, spec.register_target_vocabulary):
            register(self.words)
        spec.config.bos_token, spec.config.eos_token = SPECIAL[BOS], SPECIAL[EOS]
        spec.config.unk_token, spec.config.decoder_start_token = SPECIAL[3], SPECIAL[BOS]
        spec.validate()
        spec.optimize(quantization=None)
        self.folder = tempfile.TemporaryDirectory()
        spec.save(self.folder.name)
        self.use_threads(torch.get_num_threads())

    def use_threads(self, threads: int) -> None:
        """Load the weights anew: the number is fixed when they are loaded."""
        self.translator = ctranslate2.Translator(
            self.folder.name, device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
        )

    def parameters(self) -> int:
        """Those of the model that was converted."""
        return self.count

    def start_decoding(self) -> None:
        """Nothing to do."""

    def greedy(self, source: Tensor, length: int) -> list[list[int]]:
        """A beam of one."""
        return self.beam(source, length, 1)

    def beam(self, source: Tensor, length: int, beam_size: int) -> list[list[int]]:
        """A min_decoding_length forbids `</s>`."""
        sentences = [[self.words[i] for i in row if i != PAD] for row in source.tolist()]
        results = self.translator.translate_batch(
            sentences,
            beam_size=beam_size,
            length_penalty=0.6 if beam_size > 1 else 1.0,
            min_decoding_length=length,
            max_decoding_length=length,
        )
        return [[self.ids[word] for word in result.hypotheses[0]] for result in results]
