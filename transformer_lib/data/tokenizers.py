"""Sentences to token ids and back: words with a vocabulary, or subword units."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, get_args, runtime_checkable

PAD_ID, BOS_ID, EOS_ID, UNK_ID = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
TokenizerKind = Literal["bpe", "spacy", "space"]


@runtime_checkable
class Tokenizer(Protocol):
    """What the rest of the library asks of a tokenizer."""

    lowercase: bool  # whether its output has lost its capitals
    bleu_tokenization: str  # what sacreBLEU must still do to its output: "13a", or "none" if it is words already

    def __len__(self) -> int:
        """Size of the vocabulary."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of the tokens, without `<bos>` and `<eos>`."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The sentence up to `<eos>`, without `<pad>` and `<bos>`."""
        ...

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The written form of each id, one for one: labels for a picture."""
        ...

    def normalize(self, text: str) -> str:
        """The text as a perfect `decode` would write it: what a hypothesis is compared with."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What `load_tokenizer` needs to make this tokenizer again."""
        ...


class Vocabulary:
    """Tokens numbered from 0: the special ones, then by falling frequency, ties in alphabetical order."""

    def __init__(self, tokens: Sequence[str]):
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS:
            raise ValueError(f"a vocabulary begins with {', '.join(SPECIALS)}; this one with {list(tokens[:4])}")
        self.tokens = list(tokens)
        self.ids = {token: i for i, token in enumerate(tokens) if i >= len(SPECIALS)}

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], min_frequency: int = 1) -> "Vocabulary":
        """The vocabulary of tokenized sentences. Tokens rarer than min_frequency will be `<unk>`."""
        counts = Counter(token for sentence in sentences for token in sentence if token not in SPECIALS)
        frequent = [token for token, count in counts.items() if count >= min_frequency]
        return cls([*SPECIALS, *sorted(frequent, key=lambda token: (-counts[token], token))])

    def __len__(self) -> int:
        return len(self.tokens)


class WordTokenizer:
    """Words as tokens: those of spaCy's rules for a language, or those between spaces.

    Args:
        language: a spaCy language code such as "de"; None splits at spaces.
        lowercase: whether words lose their capitals.
    """

    bleu_tokenization = "none"

    def __init__(self, vocabulary: Vocabulary, language: str | None = None, lowercase: bool = False):
        self.vocabulary, self.language, self.lowercase = vocabulary, language, lowercase
        self._split = word_splitter(language, lowercase)

    @classmethod
    def train(
        cls, texts: Iterable[str], language: str | None = None, lowercase: bool = False, min_frequency: int = 1
    ) -> "WordTokenizer":
        """A tokenizer whose vocabulary comes from these texts."""
        split = word_splitter(language, lowercase)
        return cls(Vocabulary.build((split(text) for text in texts), min_frequency), language, lowercase)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Ids of the words; a word outside the vocabulary is `<unk>`."""
        id_of = self.vocabulary.ids.get
        return [id_of(word, UNK_ID) for word in self._split(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """The words up to `<eos>`, joined by spaces."""
        return " ".join(self.tokens(_sentence(ids)))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The word of each id."""
        return [self.vocabulary.tokens[i] for i in ids]

    def normalize(self, text: str) -> str:
        """The text's words, joined by spaces."""
        return " ".join(self._split(text))

    def to_json(self) -> dict[str, Any]:
        """Settings and vocabulary."""
        return {
            "kind": "words",
            "language": self.language,
            "lowercase": self.lowercase,
            "vocabulary": self.vocabulary.tokens,
        }


class SubwordTokenizer:
    """Byte-pair encoding of Sennrich et al. (2016), by the `tokenizers` library.

    A piece that begins a word is written with ▁ before it. A punctuation mark is a piece of its own, so that a word
    has the same pieces before a full stop as elsewhere. A character never seen in training is `<unk>`.
    """

    lowercase = False
    bleu_tokenization = "13a"

    def __init__(self, model: Any):
        self._model = model
        self._model.encode_special_tokens = True  # the text "<eos>" is text, not the end of the sentence

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocabulary_size: int,
    ) -> "SubwordTokenizer":
        """Learn the merges from these texts.

        Raises ValueError if they do not fill the vocabulary.
        """
        tokenizers = _import_tokenizers()
        pieces = tokenizers.models.BPE(unk_token=SPECIALS[UNK_ID])
        model = tokenizers.Tokenizer(pieces)
        tidy = tokenizers.normalizers
        spaces = tidy.Replace(tokenizers.Regex(r"\s+"), " ")
        model.normalizer = tidy.Sequence([tidy.NFC(), spaces, tidy.Strip()])
        split = tokenizers.pre_tokenizers
        words_and_marks = [split.Metaspace(), split.Punctuation()]
        model.pre_tokenizer = split.Sequence(words_and_marks)
        model.decoder = tokenizers.decoders.Metaspace()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        model.train_from_iterator(texts, trainer)
        size = model.get_vocab_size()
        if size != vocabulary_size:
            raise ValueError(
                f"vocabulary_size = {vocabulary_size}, "
                f"but these texts give {size} tokens; "
                "ask for that many or fewer "
                "(but not fewer than their distinct characters)"
            )
        return cls(model)

    def __len__(self) -> int:
        return self._model.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Ids of the pieces."""
        return self._model.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """The pieces up to `<eos>`, put together to words."""
        return self._model.decode(_sentence(ids), skip_special_tokens=False)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id."""
        return [self._model.id_to_token(i) for i in ids]

    def normalize(self, text: str) -> str:
        """The text with single spaces."""
        return self._model.normalizer.normalize_str(text)

    def to_json(self) -> dict[str, Any]:
        """The library's own JSON."""
        return {"kind": "bpe", "model": json.loads(self._model.to_str())}


def train_tokenizer(kind: str, texts: Iterable[str], language: str | None, vocabulary_size: int) -> Tokenizer:
    """A tokenizer by name: "bpe", "spacy" (lower-cased, words seen twice or more) or "space".

    Args:
        vocabulary_size: of "bpe"; the other two take every word.

    Raises:
        ValueError: an unknown name, or texts too few for the vocabulary of "bpe".
    """
    if kind == "bpe":
        return SubwordTokenizer.train(texts, vocabulary_size)
    if kind == "spacy":
        return WordTokenizer.train(texts, language, lowercase=True, min_frequency=2)
    if kind == "space":
        return WordTokenizer.train(texts)
    raise ValueError(f"unknown tokenizer {kind!r}; known: {', '.join(get_args(TokenizerKind))}")


def load_tokenizer(saved: dict[str, Any]) -> Tokenizer:
    """The tokenizer that `to_json` described. Raises ValueError for an unknown kind."""
    if saved.get("kind") == "words":
        return WordTokenizer(Vocabulary(saved["vocabulary"]), saved["language"], saved["lowercase"])
    if saved.get("kind") == "bpe":
        return SubwordTokenizer(_import_tokenizers().Tokenizer.from_str(json.dumps(saved["model"])))
    raise ValueError(f"unknown tokenizer kind {saved.get('kind')!r}; known: words, bpe")


def word_splitter(language: str | None, lowercase: bool):
    """A function from a text to its words."""
    if language is None:
        return lambda text: (text.lower() if lowercase else text).split()
    try:
        import spacy
    except ImportError as error:
        raise ImportError("words of a language need spaCy: pip install spacy") from error
    try:
        rules = spacy.blank(language).tokenizer  # the tokenizer alone; no trained model is downloaded
    except ImportError as error:
        raise ValueError(
            f"spaCy cannot split words of the language {language!r}; take the tokenizer bpe or space: {error}"
        ) from error
    return lambda text: [token.text for token in rules(text.lower() if lowercase else text) if not token.is_space]


def _sentence(ids: Sequence[int]) -> list[int]:
    ids = list(ids)
    end = ids.index(EOS_ID) if EOS_ID in ids else len(ids)
    return [i for i in ids[:end] if i not in (PAD_ID, BOS_ID)]


def _import_tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError("subword units need tokenizers: pip install tokenizers") from error
    return tokenizers
