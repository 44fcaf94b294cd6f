"""Pairs of token ids in arrays that stay on the disk, for a corpus that does not fit into memory."""

from array import array
from collections.abc import Iterable, Sequence
from io import BufferedWriter
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from .batches import Ids

SIDES = ("source", "target")
CHUNK = 1 << 20  # ids that wait in memory before they are written


class EncodedPairs(Sequence[tuple[Ids, Ids]]):
    """Sentence pairs as ids in memory-mapped arrays: only what is read takes memory, and all processes share it.

        source_ids.npy        the ids of all source sentences, one after the other
        source_starts.npy     where each begins, and behind the last one where it ends
        target_ids.npy, target_starts.npy

    Args:
        folder: that `write` has filled.
    """

    def __init__(self, folder: Path):
        self._ids = [np.load(folder / f"{side}_ids.npy", mmap_mode="r") for side in SIDES]
        self._starts = [np.load(folder / f"{side}_starts.npy", mmap_mode="r") for side in SIDES]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence, (2 sides, pairs): enough to plan batches without reading an id."""
        return np.stack([np.diff(starts).astype(np.int32) for starts in self._starts])

    def __len__(self) -> int:
        return len(self._starts[0]) - 1

    def __getitem__(self, i):
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
        with (folder / "source_ids.npy").open("wb") as source, (folder / "target_ids.npy").open("wb") as target:
            writers = _Writer(source, kind), _Writer(target, kind)
            for pair in pairs:
                for writer, ids in zip(writers, pair, strict=True):
                    writer.add(ids)
            for writer in writers:
                writer.close()
        for side, writer in zip(SIDES, writers, strict=True):
            np.save(folder / f"{side}_starts.npy", np.frombuffer(writer.starts, np.int64))
        return cls(folder)


class _Writer:
    # One .npy file, begun before its length is known: numpy leaves room in the header.
    def __init__(self, file: BufferedWriter, kind: np.dtype):
        self.file, self.kind, self.waiting, self.starts = file, kind, array("q"), array("q", [0])
        self._header(0)

    def add(self, ids: Ids) -> None:
        self.waiting.extend(ids)
        self.starts.append(self.starts[-1] + len(ids))
        if len(self.waiting) > CHUNK:
            self._flush()

    def close(self) -> None:
        self._flush()
        self.file.seek(0)
        self._header(self.starts[-1])

    def _flush(self) -> None:
        self.file.write(np.frombuffer(self.waiting, np.int64).astype(self.kind).tobytes())
        self.waiting = array("q")

    def _header(self, length: int) -> None:
        form = {"descr": npy.dtype_to_descr(self.kind), "fortran_order": False, "shape": (length,)}
        npy.write_array_header_1_0(self.file, form)
