"""Sentences to token ids and back: words with a vocabulary, or subword units."""

import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, get_args

from .normalization import normalized

PAD_ID, BOS_ID, EOS_ID, UNK_ID = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
TokenizerKind = Literal["bpe", "spacy", "space"]
# Of a character, or of a word of spaCy's, in the texts that a vocabulary is made of. Rarer ones are <unk>, so that the
# model learns to read it; one that is met once would teach nothing of itself.
LEAST_COUNT = 2
USUAL_SIZE = 8000  # of a vocabulary of subwords; texts that give fewer have a smaller one
WORD_START, STAND_IN = "▁", "\ufdd0"  # the mark of a space; what stands for a ▁ of the text itself, and is no character
MOST_WARNINGS = 10


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

    bleu_tokenization = "none"  # what sacreBLEU must still do to the output: nothing, it is words already

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
        """The text's words, joined by spaces: what a perfect `decode` would write."""
        return " ".join(self._split(text))

    def unseen(self, text: str) -> list[str]:
        """The words that the vocabulary does not have, and `encode` reads as `<unk>`."""
        return [word for word in dict.fromkeys(self._split(text)) if word not in self.vocabulary.ids]

    def to_json(self) -> dict[str, Any]:
        """Settings and vocabulary, for `load_tokenizer`."""
        return {
            "kind": "words",
            "language": self.language,
            "lowercase": self.lowercase,
            "vocabulary": self.vocabulary.tokens,
        }


class SubwordTokenizer:
    """Byte-pair encoding of Sennrich et al. (2016), by the `tokenizers` library.

    A piece that begins a word is written with ▁ before it. A punctuation mark is a piece of its own, so that a word
    has the same pieces before a full stop as elsewhere. A character that the vocabulary does not have is `<unk>`.
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
        vocabulary_size: int | None,
        characters: int = sys.maxunicode,
    ) -> "SubwordTokenizer":
        """Learn the merges from these texts.

        Args:
            vocabulary_size: None: 8,000, or what the texts give.
            characters: so many, the most frequent ones, are learned.

        Raises ValueError if the texts do not fill the vocabulary,
        or have more characters than it.
        """
        tokenizers = _import_tokenizers()
        pieces = tokenizers.models.BPE(unk_token=SPECIALS[UNK_ID])
        model = tokenizers.Tokenizer(pieces)
        split = tokenizers.pre_tokenizers
        words_and_marks = [split.Metaspace(), split.Punctuation()]
        model.pre_tokenizer = split.Sequence(words_and_marks)
        model.decoder = tokenizers.decoders.Metaspace()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocabulary_size or USUAL_SIZE,
            special_tokens=list(SPECIALS),
            limit_alphabet=characters,
            show_progress=False,
        )
        model.train_from_iterator(map(_marked, texts), trainer)
        _check_size(model.get_vocab_size(), vocabulary_size)
        return cls(model)

    def __len__(self) -> int:
        return self._model.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Ids of the pieces."""
        return self._model.encode(_marked(text), add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """The pieces up to `<eos>`, put together to words."""
        return self._model.decode(_sentence(ids), skip_special_tokens=False).replace(STAND_IN, WORD_START)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id."""
        return [self._model.id_to_token(i) for i in ids]

    def normalize(self, text: str) -> str:
        """The text, normalized: what a perfect `decode` would write."""
        return normalized(text)

    def unseen(self, text: str) -> list[str]:
        """The characters that the vocabulary does not have, and `encode` reads as `<unk>`."""
        signs = dict.fromkeys(_marked(text).replace(" ", ""))
        return [sign.replace(STAND_IN, WORD_START) for sign in signs if self._model.token_to_id(sign) is None]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `tokenizers`, for `load_tokenizer`."""
        return {"kind": "bpe", "model": json.loads(self._model.to_str())}


Tokenizer = WordTokenizer | SubwordTokenizer


def train_tokenizer(kind: str, texts: Iterable[str], language: str | None, vocabulary_size: int | None) -> Tokenizer:
    """A tokenizer by name: "bpe", "spacy" (lower-cased) or "space".

    Characters of "bpe" and words of "spacy" that are met less than LEAST_COUNT times are `<unk>`.

    Args:
        texts: read twice for "bpe"; an iterator is held in memory.
        vocabulary_size: of "bpe", None: 8,000, or what the texts give; the other two take every word.

    Raises:
        ValueError: an unknown name, or texts too few for the vocabulary of "bpe".
    """
    if kind == "bpe":
        texts = list(texts) if isinstance(texts, Iterator) else texts
        counts = Counter[str]()
        for text in texts:
            counts.update(f" {_marked(text)}")  # a space for each ▁
        return SubwordTokenizer.train(texts, vocabulary_size, sum(n >= LEAST_COUNT for n in counts.values()))
    if kind == "spacy":
        return WordTokenizer.train(texts, language, lowercase=True, min_frequency=LEAST_COUNT)
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


def word_splitter(language: str | None, lowercase: bool) -> Callable[[str], list[str]]:
    """A function from a text to its words, normalized; it can be pickled."""
    if language is None:
        return partial(_words, None, lowercase)
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
    return partial(_words, rules, lowercase)


def _words(rules: Callable[[str], Iterable[Any]] | None, lowercase: bool, text: str) -> list[str]:
    text = normalized(text).lower() if lowercase else normalized(text)
    return text.split() if rules is None else [token.text for token in rules(text) if not token.is_space]


def warned_of_unseen(lines: Iterable[str], tokenizer: Tokenizer) -> Iterator[str]:
    """The lines, with a warning for each that the vocabulary does not cover or CR divides; MOST_WARNINGS at most.

    A sentence in capitals that is cut into twice as many tokens as in lower case is one that the model does not know.
    """
    left = MOST_WARNINGS
    for number, line in enumerate(lines, start=1):
        unseen = tokenizer.unseen(line) if left else []
        signs = " ".join(map(repr, unseen[:10])) + " …" * (len(unseen) > 10)
        lacks = f"the vocabulary lacks {signs}, read as {SPECIALS[UNK_ID]}" if unseen else ""
        divided = "only a line feed ends a line, and CR is a space" if "\r" in line else ""
        cut = [len(tokenizer.encode(form)) for form in (line, line.lower())] if left and line.isupper() else [0, 1]
        capitals = "its capitals were hardly met in training; try lower case" if cut[0] > 2 * cut[1] else ""
        if left and (found := "; ".join(filter(None, (lacks, divided, capitals)))):
            left -= 1
            warnings.warn(f"line {number}: {found}", stacklevel=2)
        yield line


def _marked(text: str) -> str:
    return normalized(text).replace(WORD_START, STAND_IN)


def _check_size(found: int, asked: int | None) -> None:
    wanted = asked or USUAL_SIZE
    if found > wanted:
        remedy = f"{found - len(SPECIALS):,} distinct characters, and each takes a place; ask for {found} or more"
        raise ValueError(f"vocabulary_size = {wanted}, but these texts have {remedy}")
    if asked and found < asked:
        raise ValueError(f"vocabulary_size = {wanted}, but these texts give {found} tokens; ask for that many or fewer")


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
