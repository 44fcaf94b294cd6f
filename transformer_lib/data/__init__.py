"""Text to tokens to batches, and the corpora. Nothing here knows the model."""

from .batches import Batch, make_batch, token_batches
from .corpora import CORPORA, load_pairs
from .number_words import english_number, german_number
from .tokenizers import SubwordTokenizer, Tokenizer, Vocabulary, WordTokenizer, load_tokenizer, train_tokenizer

__all__ = [
    "CORPORA",
    "Batch",
    "SubwordTokenizer",
    "Tokenizer",
    "Vocabulary",
    "WordTokenizer",
    "english_number",
    "german_number",
    "load_pairs",
    "load_tokenizer",
    "make_batch",
    "token_batches",
    "train_tokenizer",
]
