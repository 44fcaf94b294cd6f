"""A corpus that does not fit into memory: what it takes to prepare it, to cut batches and to go on in its middle.

    python experiments/large_corpus.py --pairs 4500000

The sentences are synthetic: words of a Zipf distribution, as many of them in a sentence as WMT14's English and German
have on average (4.5 million pairs of 116 and 110 million words; Luong et al., 2015). Each part runs in a process of its
own, which says at its end how much memory it held at most; that is read from /proc, so Linux alone can run this. Beside
the seconds stand those in which the processor worked for this process: other programs on the machine lengthen the
former more than the latter.
"""

import hashlib
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from transformer_lib import TrainingConfig, TransformerConfig
from transformer_lib.data.batches import Batch, batch_plan
from transformer_lib.training import epochs
from transformer_run.preparation import ENCODED, EncodedPairs, encode_once, new_translator, read_corpus
from transformer_run.settings import RunConfig
from workshop.lab.experiment import processes, record

SEED, VOCABULARY = 0, 37_000
WORDS = (116 / 4.5, 110 / 4.5)  # in a sentence, on average
SPREAD = 0.7  # standard deviation of the logarithm of a length
LONGEST, CHUNK, FIRST = 250, 10_000, 50  # words of a sentence; pairs written at a time; batches compared
TRAINING = TrainingConfig(batch_tokens=25_000, seed=SEED)
MODEL: dict[str, Any] = {"num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 1, "d_k": 8, "d_v": 8}
PROCESSES = (1, 2, 4)
Part = Callable[[Path, int], dict[str, Any]]


def write_text(folder: Path, pairs: int) -> None:
    """Two files of so many lines."""
    generator = np.random.default_rng(SEED)
    words = np.array([f"w{i}" for i in range(VOCABULARY)], dtype=object)
    shares = 1 / np.arange(1, VOCABULARY + 1)
    bounds = (shares / shares.sum()).cumsum()
    with (
        (folder / "train.en").open("w", encoding="utf-8") as source,
        (folder / "train.de").open("w", encoding="utf-8") as target,
    ):
        for begun in range(0, pairs, CHUNK):
            count = min(CHUNK, pairs - begun)
            length = generator.lognormal(-(SPREAD**2) / 2, SPREAD, count)  # 1 on average
            for file, mean in zip((source, target), WORDS, strict=True):
                own = length * mean * generator.lognormal(-0.02, 0.2, count)
                ends = np.clip(own.round(), 1, LONGEST).astype(int).cumsum().tolist()
                drawn = words[np.searchsorted(bounds, generator.random(ends[-1])).clip(max=VOCABULARY - 1)].tolist()
                file.writelines(" ".join(drawn[a:b]) + "\n" for a, b in zip([0, *ends[:-1]], ends, strict=True))


def memory() -> dict[str, int]:
    """MiB of this process: at most, and of the files mapped into it now."""
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    names = {"peak_mib": "VmHWM", "mapped_mib": "RssFile"}
    return {name: int(fields[field].split()[0]) // 1024 for name, field in names.items()}


def clock() -> np.ndarray:
    """Seconds on the wall, and seconds in which the processor worked for this process."""
    return np.array([time.perf_counter(), time.process_time()])


def imports(_folder: Path, _skip: int) -> dict[str, Any]:
    """Nothing: what a process holds before it has a corpus."""
    return memory()


def prepare(folder: Path, _skip: int) -> dict[str, Any]:
    """Read and split the text, make the vocabulary, write the ids, as `train` does."""
    files = [str(folder / name) for name in ("train.en", "train.de")]
    config = RunConfig(data=files, source="en", target="de", tokenizer="space", model=MODEL, training=TRAINING)
    times = [clock()]
    corpus = read_corpus(config)
    times.append(clock())
    translator = new_translator(config, corpus)
    times.append(clock())
    found = encode_once(folder, translator, corpus)
    times.append(clock())
    wall, cpu = (
        dict(zip(("read_and_split", "vocabulary", "encode"), column, strict=True))
        for column in np.diff(times, axis=0).round(1).T.tolist()
    )
    on_disk = sum(path.stat().st_size for path in (folder / ENCODED).iterdir()) // 2**20
    means = found.lengths.mean(axis=1).round(2).tolist()
    size = {"pairs": len(found), "tokens_per_sentence": means, "vocabulary": len(translator.source_tokenizer)}
    return {**size, "encoded_mib": on_disk, "seconds": wall, "cpu_seconds": cpu, **memory()}


def batches_of(folder: Path, skip: int) -> Iterator[Batch]:
    """What the training loop would get."""
    return epochs(EncodedPairs(folder / ENCODED), TransformerConfig(vocabulary_size=VOCABULARY), TRAINING, skip)


def batches(folder: Path, skip: int) -> dict[str, Any]:
    """The first batches from one on: how long until the first, and which they are."""
    started = clock()
    found = batches_of(folder, skip)
    first = next(found)
    wall, cpu = (clock() - started).round(2).tolist()
    sha256 = hashlib.sha256()
    for batch in itertools.chain([first], itertools.islice(found, FIRST - 1)):
        for array in (batch.source, batch.target_input, batch.target_output):
            sha256.update(array.numpy().tobytes())
    seconds = {"seconds_to_first_batch": wall, "cpu_seconds_to_first_batch": cpu}
    return {**seconds, "sha256": sha256.hexdigest(), **memory()}


def epoch(folder: Path, _skip: int) -> dict[str, Any]:
    """All batches of an epoch, one after the other."""
    started, count = clock(), len(batch_plan(EncodedPairs(folder / ENCODED), TRAINING.batch_tokens, SEED))
    tokens = sum(batch.target_tokens for batch in itertools.islice(batches_of(folder, 0), count))
    wall, cpu = (clock() - started).round(1).tolist()
    return {"batches": count, "target_tokens": tokens, "seconds": wall, "cpu_seconds": cpu, **memory()}


def together(part: Part, folder: Path, number: int = 1, skip: int = 0) -> list[dict[str, Any]]:
    """What a part says in each of so many processes that run at the same time, each with one thread."""
    with patch.dict(os.environ, OMP_NUM_THREADS="1"), processes(number) as pool:
        return list(pool.map(part, [folder] * number, [skip] * number))


def measured(pairs: int) -> dict[str, Any]:
    """All parts, on files that are written for it and removed afterwards."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder, pairs)
        text_mib = sum(path.stat().st_size for path in folder.iterdir()) // 2**20
        found: dict[str, Any] = {"text_mib": text_mib, "imports": together(imports, folder)[0]}
        found["prepare"] = together(prepare, folder)[0]
        found["batches"] = [{"processes": n, "of_each": together(batches, folder, n)} for n in PROCESSES]
        found["epoch"] = together(epoch, folder)[0]
        half = found["epoch"]["batches"] // 2
        found["resumed"] = {"batches_before": half, **together(batches, folder, skip=half)[0]}
    return {
        "what": "a synthetic corpus read, encoded and cut into batches from memory-mapped arrays; the memory of each",
        "data": f"{pairs:,} synthetic pairs with the mean lengths of WMT14 English-German; words at spaces",
        "text_pairs": pairs,
        "batch_tokens": TRAINING.batch_tokens,
        "batches_compared": FIRST,
        "load_average_before": round(load, 1),
        **found,
    }


if __name__ == "__main__":
    record("large_corpus", __doc__, measured, pairs=4_500_000)
