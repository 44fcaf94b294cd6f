"""Translators that a test makes for itself in seconds: with random weights, or trained for a few hundred steps."""

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig
from transformer_lib.data import load_pairs
from transformer_lib.data.tokenizers import SPECIALS, SubwordTokenizer, Vocabulary, WordTokenizer
from transformer_lib.training import adam, epochs, train
from transformer_run import Translator

SMALL = {"num_layers": 1, "d_model": 8, "d_ff": 13, "num_heads": 2, "d_k": 4, "d_v": 4}
LARGER = {"num_layers": 2, "num_decoder_layers": 1, "d_model": 12, "d_ff": 5, "num_heads": 3, "d_k": 4, "d_v": 4}


def words(size, **settings):
    return WordTokenizer(Vocabulary([*SPECIALS, *(f"w{i}" for i in range(4, size))]), **settings)


@torch.no_grad()
def randomise(module):
    """Gains and biases too: at 1 and 0 a mistake would not show. Matrices keep the size of what they multiply."""
    for name, parameter in module.named_parameters():
        if "embed_positions" not in name:  # Marian's table
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.normal_(centre, 0.3 if parameter.dim() == 1 else parameter.size(-1) ** -0.5)


def random_translator(**config):
    """A translator of words whose weights are all random."""
    model = Transformer(TransformerConfig(vocabulary_size=19, p_drop=0.0, **config)).eval()
    randomise(model)
    target = words(19)
    source = words(config["source_vocabulary_size"]) if config.get("source_vocabulary_size") else target
    return Translator(model, source, target, "de", "en")


def young_translator(**shape):
    """Of number words: it goes round in circles, and writes <unk> for the rarer letters, which it was not taught."""
    torch.manual_seed(0)
    pairs = load_pairs("number_words", "train", "en", "de")[:3000]
    pieces = SubwordTokenizer.train([text for pair in pairs for text in pair], vocabulary_size=40, characters=18)
    shape = {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2, "d_k": 16, "d_v": 16} | shape
    model = Transformer(TransformerConfig(vocabulary_size=len(pieces), **shape))
    translator = Translator(model, pieces, pieces, "en", "de")
    config = TrainingConfig(num_steps=200, batch_tokens=1000, warmup_steps=100)
    for _ in train(model, adam(model, config), epochs(translator.encode(pairs), model.config, config), config):
        pass
    model.eval()
    return translator
