"""A file of 10,000 lines by the command line: the library's decoder beside CTranslate2; and BLEU in 8 bits.

    TRANSFORMER_LIB_DATA=... python experiments/engines.py

Both decode greedily and with the paper's beam of four, a whole command each, in turns. The lines are of Tatoeba's
training part, for the time and for whether the two agree; BLEU is that of its test part. Beside other work the
processor's own seconds say more than those that passed, and with one thread nothing waits for another.
"""

import os
import statistics
import subprocess
import sys
import time
from typing import Any

from transformer_lib.data import load_pairs
from transformer_lib.evaluation import bleu
from transformer_run.export import Engine
from transformer_run.translator import Translator
from workshop.lab.experiment import record

NAME, ENGINES = "tatoeba_de_en", ("pytorch", "ctranslate2")
KINDS, BEAMS = ("seconds", "of_the_processor"), (1, 4)


def translated(engine: str, threads: int, beam_size: int, lines: list[str]) -> dict[str, Any]:
    """What the command writes, with the seconds that it took and those of the processor in it."""
    command = [sys.executable, "-m", "transformer_run", "translate", NAME, "--threads", str(threads)]
    command += ["--engine", engine, "--beam-size", str(beam_size)]
    before, started = os.times(), time.perf_counter()
    text = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run(command, input=text, capture_output=True, check=True)
    after = os.times()
    worked = after.children_user + after.children_system - before.children_user - before.children_system
    passed = time.perf_counter() - started
    return {
        "seconds": round(passed, 2),
        "of_the_processor": round(worked, 2),
        "lines": done.stdout.decode().split("\n"),
    }


def in_8_bits() -> dict[str, Any]:
    """BLEU of greedy translations with the weights as floats and as 8-bit integers."""
    translator, pairs = Translator.load(NAME), load_pairs("tatoeba", "test", "de", "en")
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    found = {
        kind: Engine(translator, threads=2, int8=kind == "int8").translate(sources) for kind in ("float32", "int8")
    }
    equal = sum(a == b for a, b in zip(*found.values(), strict=True))
    scores = {kind: bleu(hypotheses, references) for kind, hypotheses in found.items()}
    return {
        "sentences": len(pairs),
        "equal": equal,
        "bleu": {kind: round(score.score, 2) for kind, score in scores.items()},
        "signature": str(scores["int8"].signature),
    }


def compared(repeats: int, beam_size: int, threads: int, sources: list[str]) -> dict[str, Any]:
    """Both engines on one file, in turns: their times, and how many translations are equal."""
    runs = [{engine: translated(engine, threads, beam_size, sources) for engine in ENGINES} for _ in range(repeats)]
    written = [[run[engine].pop("lines")[:-1] for engine in ENGINES] for run in runs]
    ratios = {kind: [run["pytorch"][kind] / run["ctranslate2"][kind] for run in runs] for kind in KINDS}
    return {
        "beam_size": beam_size,
        "equal": sum(a == b for a, b in zip(*written[0], strict=True)),
        "runs": runs,
        "times_as_fast": {kind: round(statistics.median(found), 2) for kind, found in ratios.items()},
    }


def measured(repeats: int, lines: int, threads: int) -> dict[str, Any]:
    """Times, agreement and scores."""
    sources = [source for source, _ in load_pairs("tatoeba", "train", "de", "en")[:lines]]
    load = os.getloadavg()[0]
    return {
        "what": "translations of a file by the command line, with either decoder",
        "translator": NAME,
        "lines": len(sources),
        "threads_of_the_command": threads,
        "decoders": [compared(repeats, beam_size, threads, sources) for beam_size in BEAMS],
        "load_before": round(load, 2),
        "tatoeba_test": in_8_bits(),
    }


if __name__ == "__main__":
    record("engines", __doc__, measured, repeats=5, lines=10_000, threads=2)
