"""Text to tokens to batches, and the corpora. Nothing here knows the model."""

from .batches import Batch, make_batch, token_batches
from .corpora import CORPORA, load_pairs
from .number_words import english_number, german_number
from .tokenizers import SubwordTokenizer, Tokenizer, Vocabulary, WordTokenizer, load_tokenizer, train_tokenizer
