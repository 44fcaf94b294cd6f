"""Pairs of token ids in arrays that stay on the disk, for a corpus that does not fit into memory."""

from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from io import BufferedWriter
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from transformer_lib.data.batches import Ids

SIDES = ("source", "target")


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
