"""How much of a batch is padding, and what torchtext made of the same text: Multi30k, German to English.

    TRANSFORMER_LIB_DATA=... python experiments/padding.py

Three ways of filling batches, with words of spaCy and with subword units, at several sizes of batch and with several
seeds; the share of last words with other pieces before their full stop, with punctuation split off and without; then
the vocabularies and BLEU scores of torchtext 0.18.0 (recorded by it), of 0.6.0 (live) and of this library.
"""

import hashlib
import json
import random
import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import tokenizers

from transformer_lib.data import Tokenizer, Vocabulary, load_pairs, make_batch, token_batches, train_tokenizer
from transformer_lib.data.batches import Batch
from transformer_lib.data.tokenizers import SPECIALS, UNK_ID
from transformer_lib.evaluation import bleu
from workshop.lab.experiment import record
from workshop.lab.provenance import ROOT

SEEDS = [0, 1, 2]
BATCH_TOKENS = [1000, 2000, 4000, 8000, 16_000, 25_000]
SUBWORDS = 10_000
POOL = 100  # torchtext sorts the pairs of so many batches at a time

Pairs = list[tuple[list[int], list[int]]]


def equal_numbers(pairs: Pairs, sentences: int) -> Iterator[Batch]:
    """Batches of so many sentences, in the order of the list."""
    for i in range(0, len(pairs), sentences):
        yield make_batch(pairs[i : i + sentences])


def shuffled(pairs: Pairs, seed: int) -> Pairs:
    """The pairs in an order that the seed fixes."""
    return random.Random(seed).sample(pairs, len(pairs))


def sorted_pools(pairs: Pairs, sentences: int) -> Pairs:
    """The pairs, sorted by target and source length within each pool."""
    pool = sentences * POOL
    pools = (pairs[i : i + pool] for i in range(0, len(pairs), pool))
    return [pair for some in pools for pair in sorted(some, key=lambda p: (len(p[1]), len(p[0])))]


def shares(batches: Iterator[Batch]) -> dict[str, float]:
    """The share of padding among all cells, source and target; the batches; the most cells of one side."""
    cells = real = number = largest = 0
    for batch in batches:
        sides = batch.source, batch.target_output
        cells += sum(side.numel() for side in sides)
        real += sum(int((side != 0).sum()) for side in sides)
        largest = max(largest, *(side.numel() for side in sides))
        number += 1
    return {"padding": round(1 - real / cells, 5), "batches": number, "largest": largest}


def ways(pairs: Pairs, batch_tokens: int, seed: int) -> dict[str, dict[str, float]]:
    """The shares of three ways of filling batches, all with about batch_tokens tokens on the target side."""
    mixed = shuffled(pairs, seed)
    sentences = round(batch_tokens / statistics.mean(len(target) + 1 for _, target in pairs))
    return {
        "as they come": shares(equal_numbers(mixed, sentences)),
        "sorted in pools": shares(equal_numbers(sorted_pools(mixed, sentences), sentences)),
        "token_batches": shares(token_batches(pairs, batch_tokens, seed)),
    }


def lengths(tokens: list[int]) -> dict[str, Any]:
    """How many sentences have each length."""
    counts = Counter(tokens)
    return {"mean": round(statistics.mean(tokens), 3), "sentences": {str(n): counts[n] for n in sorted(counts)}}


def of_tokenizers(train: list[tuple[str, str]], val: list[tuple[str, str]]) -> dict[str, Any]:
    """Vocabulary, lengths, unknown tokens and padding, for words and for subword units."""
    german, english = zip(*train, strict=True)
    subwords = train_tokenizer("bpe", [*german, *english], None, SUBWORDS)
    kinds: dict[str, tuple[Tokenizer, Tokenizer]] = {
        "spaCy words": (train_tokenizer("spacy", german, "de", 0), train_tokenizer("spacy", english, "en", 0)),
        "BPE": (subwords, subwords),
    }
    counts: dict[str, Any] = {}
    for name, (source, target) in kinds.items():
        ids, held_out = ([(source.encode(one), target.encode(other)) for one, other in some] for some in (train, val))
        sides = {}
        for i, (language, tokenizer) in enumerate((("de", source), ("en", target))):
            unseen = [token == UNK_ID for pair in held_out for token in pair[i]]
            sides[language] = {
                "vocabulary": len(tokenizer),
                "lengths": lengths([len(pair[i]) for pair in ids]),
                "unknown_in_val": round(sum(unseen) / len(unseen), 5),
            }
        padding = {str(n): {str(seed): ways(ids, n, seed) for seed in SEEDS} for n in BATCH_TOKENS}
        counts[name] = {"sides": sides, "padding": padding}
        print(name, {n: {way: p["padding"] for way, p in padding[n]["0"].items()} for n in padding}, flush=True)
    return counts


def before_a_full_stop(train: list[tuple[str, str]]) -> dict[str, Any]:
    """The English sentences that end in a word and a full stop, and in how many this word has other pieces without it.

    With punctuation split off, as in the library, and without, when a piece may join letters and the stop.
    """
    texts = [side for pair in train for side in pair]
    plain = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=SPECIALS[UNK_ID]))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    plain.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(vocab_size=SUBWORDS, special_tokens=list(SPECIALS), show_progress=False),
    )
    library = train_tokenizer("bpe", texts, None, SUBWORDS)
    cuts: dict[str, Callable[[str], list[str]]] = {
        "punctuation split off": lambda text: library.tokens(library.encode(text)),
        "punctuation left on": lambda text: plain.encode(text).tokens,
    }
    ends = [english.split()[-1] for _, english in train]
    words = Counter(end[:-1] for end in ends if end.endswith(".") and end[:-1].isalpha())
    changed = {
        name: sum(count for word, count in words.items() if cut(word + ".") != [*cut(word), "."])
        for name, cut in cuts.items()
    }
    sentences = words.total()
    print(sentences, changed, flush=True)
    return {
        "vocabulary": SUBWORDS,
        "sentences": sentences,
        "other_pieces": {name: round(count / sentences, 5) for name, count in changed.items()},
    }


def of_torchtext(train: list[tuple[str, str]]) -> dict[str, Any]:
    """Vocabularies and BLEU: torchtext 0.18.0 as recorded, 0.6.0 live, this library."""
    warnings.filterwarnings("ignore")  # torchtext 0.6.0 is old, and its dependencies say so
    from torchtext import __version__, data
    from torchtext.data.metrics import bleu_score

    recorded = json.loads((ROOT / "tests/fixtures/torchtext_0_18.json").read_text("utf-8"))
    vocabularies = {}
    for i, language in enumerate(("de", "en")):
        words, of_0_18 = [pair[i].lower().split() for pair in train], recorded["vocabularies"][language]
        field = data.Field()
        field.build_vocab(words, min_freq=recorded["min_freq"])
        made = {
            f"torchtext {__version__}": [*SPECIALS, *field.vocab.itos[2:]],
            "this library": Vocabulary.build(words, recorded["min_freq"]).tokens,
        }
        found = {
            name: {"size": len(tokens), "sha256": hashlib.sha256("\n".join(tokens).encode()).hexdigest()}
            for name, tokens in made.items()
        }
        own = {"size": of_0_18["size"], "sha256": of_0_18["sha256_of_newline_joined"]}
        vocabularies[language] = {"torchtext 0.18.0, recorded": own} | found
    test = [english.lower().split() for _, english in load_pairs("multi30k", "test_2016_flickr", "de", "en")]
    damaged = {
        "identity": test,
        "every_7th_token_dropped": [[t for i, t in enumerate(r) if i % 7 != 6] for r in test],
        "first_token_repeated": [[r[0], *r] for r in test],
        "reversed": [r[::-1] for r in test],
    }
    ours = {
        name: bleu([" ".join(h) for h in hypotheses], [" ".join(r) for r in test], tokenize="none")
        for name, hypotheses in damaged.items()
    }
    scores = {
        name: {
            "torchtext 0.18.0, recorded": recorded["bleu"][name],
            f"torchtext {__version__}": bleu_score(hypotheses, [[r] for r in test]),
            "this library": ours[name].score / 100,
        }
        for name, hypotheses in damaged.items()
    }
    return {
        "made_with": recorded["made_with"],
        "words": "between spaces, lower-cased; seen twice or more",
        "vocabularies": vocabularies,
        "bleu": scores,
        "bleu_signature": ours["identity"].signature,
    }


def measured() -> dict[str, Any]:
    """The record of both halves."""
    train, val = (load_pairs("multi30k", split, "de", "en") for split in ("train", "val"))
    return {
        "what": "share of padding by way of batching; last words with other pieces before a full stop; vocabularies "
        "and BLEU of torchtext and of this library",
        "data": f"Multi30k task 1 raw, German to English: {len(train):,} pairs of train; val for unknown tokens",
        "tokenizers": of_tokenizers(train, val),
        "seeds": SEEDS,
        "last_words": before_a_full_stop(train),
        "torchtext": of_torchtext(train),
    }


if __name__ == "__main__":
    record("padding", __doc__, measured)
