"""What a translation looked at: its cross-attention by tokens and by words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_lib.attention_maps import attention_axes
from transformer_lib.data.tokenizers import Tokenizer
from transformer_lib.plots import heat_map


@dataclass(frozen=True, repr=False)
class AttentionMap:
    """One sentence, its translation, and where every head of every layer looked.

    In a notebook it draws itself.
    """

    sentence: str
    translation: str
    score: float  # as Translator.translate gives it
    source: list[str]  # tokens that the encoder read, <eos> included
    written: list[str]  # tokens that the decoder chose, in order
    weights: dict[str, Tensor]  # (heads, queries, keys), under the keys of record_attention
    # Pairs (source word, word of the translation), from 0: which source word each word looked at most, by the mean of
    # the heads of the last cross-attention. What a word is, Translator.attention says.
    alignment: list[tuple[int, int]]

    def plot(self, name: str | None = None) -> Any:
        """A chart of one attention, with a list of its heads and their mean.

        Args:
            name: such as "encoder.0.self"; None: the decoder's last cross-attention.

        Raises:
            ValueError: a name that the map does not have.
        """
        name = name or [name for name in self.weights if name.endswith(".cross")][-1]
        if name not in self.weights:
            raise ValueError(f"name = {name!r} is not one of {', '.join(self.weights)}")
        queries, keys = attention_axes(name, self.source, self.written)
        heads = self.weights[name]
        grids = {"mean": heads.mean(dim=0)} | {f"head {i + 1}": head for i, head in enumerate(heads)}
        texts: dict[str, Any] = {"title": f"{name}: {self.translation}", "row_title": "query", "column_title": "key"}
        description = f"Attention weights of {name} while {self.sentence!r} became {self.translation!r}."
        return heat_map(grids, queries, keys, description=description, **texts)

    def _repr_mimebundle_(self, *arguments: Any, **options: Any) -> Any:
        return self.plot()._repr_mimebundle_(*arguments, **options)

    def __repr__(self) -> str:
        return f"AttentionMap({self.sentence!r} → {self.translation!r}, {len(self.weights)} attentions)"


def word_numbers(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """For each token the number of its word, from 0, in the text that these ids decode to."""
    counts = [len(tokenizer.decode(ids[: i + 1]).split()) for i in range(len(ids))]
    return [max(count - 1, 0) for count in counts]


def word_alignment(looked: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> list[tuple[int, int]]:
    """For each word of the translation the source word that its tokens looked at most.

    Args:
        looked: (target tokens, source tokens), weights without the rows and columns of `<eos>`.
        source_words, target_words: of each token, as word_numbers gives them.

    Returns:
        pairs (source word, target word), both from 0, in the order of the translation.
    """
    if not len(source_words) or not len(target_words):
        return []
    by_word = torch.zeros(max(target_words) + 1, max(source_words) + 1)
    for target, row in zip(target_words, looked, strict=True):
        by_word[target].index_add_(0, torch.tensor(source_words), row.float().cpu())
    best = by_word.argmax(dim=1).tolist()
    return [(best[target], target) for target in sorted(set(target_words))]
