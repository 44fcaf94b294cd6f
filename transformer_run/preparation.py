"""What a run makes of its texts before the first step: the pairs, an untrained translator, and ids on the disk."""

import hashlib
import itertools
import json
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from io import BufferedWriter
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from transformer_lib.config import TransformerConfig
from transformer_lib.data.batches import Ids, token_counts
from transformer_lib.data.corpora import load_pairs
from transformer_lib.data.text_files import Pair, TextPairs
from transformer_lib.data.tokenizers import SPECIALS, UNK_ID, WordTokenizer, train_tokenizer
from transformer_lib.transformer import Transformer

from .checkpoints import whole
from .own_corpus import Corpus, Limits, Sides
from .settings import RUN_CONFIG, RunConfig
from .translator import Translator, progress_bar

ENCODED, SEAL = "encoded", "sha256"  # in the folder of a run: the ids of its training pairs; and their digest
SIDES = ("source", "target")


def read_corpus(config: RunConfig) -> Corpus:
    """The pairs of a run: of a corpus by name, or of the files of one's own.

    Raises:
        FileNotFoundError: a file of one's own is no longer where it was.
        ValueError: other pairs than those that the run began with, or what Corpus and load_pairs raise.
    """
    limits = Limits(config.max_length, config.max_ratio) if config.clean else None
    shown = partial(progress_bar, total=None, verb="reading")
    if isinstance(config.data, str):
        splits = (load_pairs(config.data, split, config.source, config.target) for split in ("train", "val"))
        corpus = Corpus(next(splits), next(splits), limits, shown)
    else:
        for file in [*config.data, *(config.validation or [])]:
            if not Path(file).exists():
                raise FileNotFoundError(f"{file} is gone; put it back, or --resume with new --data and --validation")
        held_out = TextPairs(config.validation) if config.validation else None
        files = TextPairs(config.data, config.clean, "delete the pair, or add --clean to leave such pairs out")
        corpus = Corpus(files, held_out, limits, shown)
    if config.digest not in (None, corpus.digest):
        own = " and ".join([*config.data, *(config.validation or [])])
        name = config.data if isinstance(config.data, str) else own
        problem = f"{name} changed since the run began: sha256 {corpus.digest[:12]}, was {config.digest[:12]}"
        raise ValueError(f"{problem}; put the old content back, or train into another folder")
    return corpus


def new_translator(config: RunConfig, pairs: Corpus) -> Translator:
    """An untrained translator with tokenizers made from the training pairs."""

    def texts(*sides: int) -> Iterable[str]:
        return Sides(progress_bar(pairs, len(pairs), "learning the vocabulary"), *sides)

    sizes: dict[str, int] = {}
    try:
        if config.tokenizer == "spacy":  # words of two languages: two vocabularies
            languages = (config.source, config.target)
            tokenizers = [train_tokenizer("spacy", texts(side), code, 0) for side, code in enumerate(languages)]
            sizes["source_vocabulary_size"] = len(tokenizers[0])
        else:
            tokenizers = [train_tokenizer(config.tokenizer, texts(0, 1), None, config.vocabulary_size)] * 2
    except ValueError as error:
        if isinstance(config.data, str):
            raise
        raise ValueError(f"{' and '.join(config.data)}: {error}") from error
    model = Transformer(config.model_config(len(tokenizers[1]), **sizes))
    return Translator(model, tokenizers[0], tokenizers[1], config.source, config.target)


def prepare(folder: Path, config: RunConfig, pairs: Corpus, newest: Path | None) -> tuple[Translator, list]:
    """Write the run's settings and encoded pairs; returns the translator that it begins with and the ids to validate.

    Args:
        newest: the checkpoint that a resumed run goes on from.

    Raises:
        ValueError: the checkpoint is of another run, or what encode_once and check_token_counts raise.
    """
    base = newest or config.begun_from
    translator = Translator.load(base) if base else new_translator(config, pairs)
    is_own = all(getattr(translator.model.config, name) == value for name, value in config.model.items())
    if not is_own or (translator.source, translator.target) != (config.source, config.target):
        raise ValueError(f"{base} is of another run than {folder / RUN_CONFIG}; take it away")
    replace(config, digest=pairs.digest).write(folder)
    val_ids, limit = translator.encode(pairs.held_out), config.training.batch_tokens
    train_ids = encode_once(folder, translator, pairs)
    check_token_counts("training", pairs, train_ids, translator.model.config, limit)
    check_token_counts("validation", pairs.held_out, val_ids, translator.model.config, limit)
    return translator, val_ids


class EncodedPairs(Sequence[tuple[Ids, Ids]]):
    """Sentence pairs as ids in memory-mapped arrays: only what is read takes memory, and all processes share it.

        source_ids.npy        the ids of all source sentences, one after the other
        source_starts.npy     where each begins, and behind the last one where it ends
        target_ids.npy, target_starts.npy

    Args:
        folder: that `write` has filled.
    """

    def __init__(self, folder: Path):
        # A memoryview gives a sentence several times as fast as the array does.
        self._ids, self._starts = (
            [memoryview(np.load(folder / f"{side}_{part}.npy", mmap_mode="r")) for side in SIDES]
            for part in ("ids", "starts")
        )

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence, (2 sides, pairs): enough to plan batches without reading an id."""
        return np.stack([np.diff(starts).astype(np.int32) for starts in self._starts])

    def __len__(self) -> int:
        return len(self._starts[0]) - 1

    def __getitem__(self, i):  # pyright: ignore[reportIncompatibleMethodOverride]
        """The ids of pair i; lists, as a tokenizer gives them."""
        if not 0 <= i < len(self):
            raise IndexError(f"pair {i} of {len(self)}")
        source, target = (
            ids[starts[i] : starts[i + 1]].tolist() for ids, starts in zip(self._ids, self._starts, strict=True)
        )
        return source, target

    @classmethod
    def write(cls, folder: Path, pairs: Iterable[tuple[Ids, Ids]], vocabulary_size: int) -> "EncodedPairs":
        """Write the pairs, one after the other, into a folder that exists.

        Args:
            vocabulary_size: the larger one of the two sides'; ids take as few bytes as it allows.
        """
        kind = np.min_scalar_type(vocabulary_size - 1)
        starts = [array("q", [0]) for _ in SIDES]
        with ExitStack() as stack:
            files = [stack.enter_context((folder / f"{side}_ids.npy").open("wb")) for side in SIDES]
            for file in files:
                _write_header(file, kind, 0)
            for pair in pairs:
                for file, begun, ids in zip(files, starts, pair, strict=True):
                    file.write(array(kind.char, ids))
                    begun.append(begun[-1] + len(ids))
            for file, begun in zip(files, starts, strict=True):
                file.seek(0)
                _write_header(file, kind, begun[-1])
        for side, begun in zip(SIDES, starts, strict=True):
            np.save(folder / f"{side}_starts.npy", np.frombuffer(begun, np.int64))
        return cls(folder)


def _write_header(file: BufferedWriter, kind: np.dtype, length: int) -> None:
    # Of a .npy file, written before its length is known and again after: numpy leaves room in the header.
    npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": (length,)})


def encode_once(folder: Path, translator: Translator, pairs: Corpus) -> EncodedPairs:
    """The ids of the training pairs, written once; a resumed run takes those that its folder has, if they are whole.

    Raises:
        OSError: a full disk.
        ValueError: what has the name of their folder is something else.
    """
    path, config = folder / ENCODED, translator.model.config
    of = pairs.digest + json.dumps(translator.described())
    if not (path / SEAL).is_file() or (path / SEAL).read_bytes() != _seal(path, of):
        if path.exists() and not (path / SEAL).exists():
            raise ValueError(f"{path} holds no pairs of a run; move it away, or name another folder for the run")
        shutil.rmtree(path, ignore_errors=True)  # of other pairs, or damaged
        ids = (translator.encode([pair])[0] for pair in progress_bar(pairs, len(pairs), "encoding"))
        with whole(path) as part:
            part.mkdir()
            EncodedPairs.write(part, ids, max(config.vocabulary_size, config.source_vocabulary_size or 0))
            (part / SEAL).write_bytes(_seal(part, of))
    return EncodedPairs(path)


def _seal(folder: Path, of: str) -> bytes:
    """One digest of what was encoded and of its arrays."""
    sha256 = hashlib.sha256(of.encode())
    for path in sorted(path for path in folder.glob("*.npy") if path.is_file()):  # a pipe would never end
        with path.open("rb") as file:
            sha256.update(hashlib.file_digest(file, "sha256").digest())
    return sha256.hexdigest().encode()


def check_token_counts(
    what: str, pairs: Iterable[Pair], ids: Sequence[tuple[Ids, Ids]], config: TransformerConfig, batch_tokens: int
) -> None:
    """Raise ValueError for a pair too long for a batch or for the model's positions: before any step could be lost."""
    limits = {"batch_tokens": batch_tokens}
    if config.positions == "learned":
        limits["max_positions"] = config.max_positions
    name = min(limits, key=limits.__getitem__)
    widths = token_counts(ids).max(axis=0) + 1  # <bos> or <eos>
    if widths.max() > limits[name]:
        source, _ = next(itertools.islice(pairs, int(widths.argmax()), None))
        which = f"the {what} pair that begins {source[:40]!r} has {widths.max()} tokens on a side"
        remedy = "raise it (--training or --model), or take long pairs out, as --clean --max-length 300 does"
        raise ValueError(f"{which}, more than {name} = {limits[name]}; {remedy}")


def lacking(what: str, pairs: Iterable[Pair], ids: Iterable[tuple[Ids, Ids]], translator: Translator) -> Iterator[str]:
    """What share of these texts the vocabulary lacks, and what it lacks in the most texts; nothing if it has all."""
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    by_words = isinstance(tokenizers[1], WordTokenizer)
    total, lost, counts = 0, 0, Counter[str]()
    for pair, both in zip(pairs, ids, strict=True):
        for text, tokens, tokenizer in zip(pair, both, tokenizers, strict=True):
            total += len(tokens) if by_words else len(text.replace(" ", ""))
            if unknown := tokens.count(UNK_ID):
                lost += unknown
                counts.update(tokenizer.unseen(text))
    if lost:
        named = ", ".join(f"{sign!r} ({count})" for sign, count in counts.most_common(10))
        share = f"{lost:,} of {total:,} {'words' if by_words else 'characters'} ({lost / total:.2%})"
        yield f"it lacks {share} of the {what} texts, read as {SPECIALS[UNK_ID]}; in how many texts: {named}"


def heads(config: TransformerConfig, is_new: bool) -> Iterator[str]:
    """How wide the heads are; of a new model also what Marian's format needs, before the hours of training."""
    each = config.d_k if config.d_k == config.d_v else f"d_k = {config.d_k}, d_v = {config.d_v}"
    yield f"{config.num_heads} heads of {each} in a model of {config.d_model}"
    width = config.d_model / config.num_heads
    if is_new and not config.d_k == config.d_v == width:
        fitting = f"--model … d_k={width:g} d_v={width:g}" if width.is_integer() else "num_heads that divide d_model"
        needs = f"Marian needs heads of d_model / num_heads = {width:g}"
        yield f"{needs}; for a translator to export there, start anew with {fitting}"
