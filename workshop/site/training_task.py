"""What is learned in the page: a hundred numbers in words, and a few pairs of the reader's own, in one batch.

The model is the one of the front page, with a few words more: ids that the reader's own pairs may use.
"""

from typing import Any

from torch import nn

from transformer_lib import TrainingConfig, Transformer, TransformerConfig
from transformer_lib.data import WordTokenizer, english_number, german_number

NUMBERS = 100
OWN_PAIRS, OWN_WORDS = 8, 16  # at most
ROWS = NUMBERS + OWN_PAIRS
SOURCE_LENGTH, TARGET_LENGTH = 4, 5  # three words and <eos>; four words and <bos> or <eos>
PAIRS = [(english_number(n), german_number(n)) for n in range(NUMBERS)]
TOKENIZER = WordTokenizer.train(text for pair in PAIRS for text in pair)
MODEL = TransformerConfig(
    vocabulary_size=len(TOKENIZER) + OWN_WORDS,
    num_layers=1,
    d_model=64,
    d_ff=128,
    num_heads=2,
    d_k=32,
    d_v=32,
    p_drop=0.0,
)
SETTINGS = TrainingConfig(num_steps=250, warmup_steps=400)


def initial_weights(model: Transformer) -> list[dict[str, Any]]:
    """For each weight its name, its shape, and how it is drawn: "uniform" up to ±size, "normal" of that standard
    deviation, or "constant"."""
    found = []
    for prefix, module in model.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            if isinstance(module, nn.Linear) and name == "weight":
                drawn = ("uniform", (6 / sum(weight.shape)) ** 0.5)  # Glorot's
            elif weight.dim() == 2:
                drawn = ("normal", model.config.d_model**-0.5)
            else:
                drawn = ("constant", float(isinstance(module, nn.LayerNorm) and name == "weight"))
            found.append({"name": f"{prefix}.{name}", "shape": list(weight.shape), "drawn": drawn[0], "size": drawn[1]})
    return found


def description() -> dict[str, Any]:
    """All that the page must know of the task, to be written as JSON."""
    special = MODEL.pad_id, MODEL.bos_id, MODEL.eos_id
    vocabulary = [TOKENIZER.tokens([i])[0] for i in range(len(TOKENIZER))]
    return {
        "rows": ROWS,
        "source_length": SOURCE_LENGTH,
        "target_length": TARGET_LENGTH,
        "own_words": OWN_WORDS,
        "special": dict(zip(("pad", "bos", "eos"), special, strict=True)),
        "vocabulary": vocabulary,
        "vocabulary_size": MODEL.vocabulary_size,
        "pairs": PAIRS,
        "weights": initial_weights(Transformer(MODEL)),
        "d_model": MODEL.d_model,
        "warmup_steps": SETTINGS.warmup_steps,
        "num_steps": SETTINGS.num_steps,
        "epsilon_ls": SETTINGS.epsilon_ls,
    }
