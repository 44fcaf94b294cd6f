"""The small translator of number words that the experiments share: its pairs, its sizes, its training."""

import itertools
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, label_smoothing_loss
from transformer_lib.data import WordTokenizer, english_number, german_number, load_pairs, make_batch
from transformer_lib.training import StepRecord, adam, epochs, train

Pairs = list[tuple[str, str]]
Ids = list[tuple[list[int], list[int]]]
SIZES: dict[str, Any] = {"num_layers": 2, "d_model": 64, "d_ff": 256, "num_heads": 4, "d_k": 16, "d_v": 16}


class NumberWords(NamedTuple):
    """English to German: pairs to learn from, pairs to score, and the tokenizer of both languages."""

    learned: Pairs
    scored: Pairs
    tokenizer: WordTokenizer

    def ids(self, pairs: Pairs) -> Ids:
        """Pairs of texts as pairs of ids."""
        return [(self.tokenizer.encode(source), self.tokenizer.encode(target)) for source, target in pairs]


def number_words(learned: int | None = None, scored: int | None = None, split: str = "val") -> NumberWords:
    """The first pairs of the training set, and the first of another; None: all."""
    pairs = load_pairs("number_words", "train", "en", "de")[:learned]
    held_out = load_pairs("number_words", split, "en", "de")[:scored]
    return NumberWords(pairs, held_out, WordTokenizer.train(side for pair in pairs for side in pair))


def numbers_below(limit: int, learned: int, scored: int) -> NumberWords:
    """Numbers below a limit, in a mixed order that is always the same: the first to score, the next to learn from."""
    numbers = random.Random(0).sample(range(limit), learned + scored)
    pairs = [(english_number(n), german_number(n)) for n in numbers]
    return NumberWords(pairs[scored:], pairs[:scored], WordTokenizer.train(side for pair in pairs for side in pair))


def train_number_words(
    words: NumberWords, config: dict[str, Any], training: dict[str, Any], seed: int
) -> tuple[Transformer, torch.optim.Optimizer, Iterator[StepRecord]]:
    """A fresh model of this seed, its optimizer, and its updates, which are made as the records are read.

    Args:
        config: fields of TransformerConfig beside the size of the vocabulary.
        training: fields of TrainingConfig beside the seed.
    """
    settings = TrainingConfig(**training, seed=seed)
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocabulary_size=len(words.tokenizer), **config))
    optimizer = adam(model, settings)
    batches = epochs(words.ids(words.learned), model.config, settings)
    return model, optimizer, train(model, optimizer, batches, settings)


def learning_curve(
    model: Transformer, words: NumberWords, measured: list[int], sentences: int, rate: float
) -> tuple[list[float], list[float]]:
    """Train at one rate, on random batches, without smoothing.

    Returns:
        The loss in nats per token and the share of right words, each on the pairs to score, after each of the measured
        numbers of updates.
    """
    learned, scored = words.ids(words.learned), make_batch(words.ids(words.scored))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
    losses, right = [], []
    for step in itertools.count():
        if step in measured:
            with torch.no_grad():
                logits = model(scored.source, scored.target_input)
            real = scored.target_output != 0
            losses.append(round(label_smoothing_loss(logits, scored.target_output, epsilon_ls=0.0).item(), 4))
            right.append(round((logits.argmax(-1) == scored.target_output)[real].float().mean().item(), 4))
        if step == measured[-1]:
            break
        batch = make_batch([learned[i] for i in torch.randint(len(learned), (sentences,))])
        loss = label_smoothing_loss(model(batch.source, batch.target_input), batch.target_output, epsilon_ls=0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses, right
