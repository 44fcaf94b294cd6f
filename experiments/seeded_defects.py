"""What each seeded defect does to a model that is trained with it, when no test stops it.

    python experiments/seeded_defects.py
    python experiments/seeded_defects.py --only "a resumed run draws other dropout"    one defect that has changed

For every defect of workshop/lab/defects.toml, a copy of the package gets that one fault, and a small model learns
English to German number words with it: trained, stopped halfway and resumed, averaged, decoded. The package without a
defect does the same, with more seeds, to show how far the seed alone moves the figures.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints, record_attention
from transformer_lib.data import WordTokenizer, english_number, german_number, token_batches
from transformer_lib.evaluation import exact_match, perplexity
from transformer_lib.training import adam, epochs, train
from transformer_run.checkpoints import load_checkpoint, save_checkpoint
from transformer_run.translation import translate
from workshop.lab.defects import DEFECTS, Defect
from workshop.lab.experiment import recorded
from workshop.lab.patches import copied, plant
from workshop.lab.provenance import provenance, write_result
from workshop.lab.small_model import SIZES, NumberWords

HEALTHY_SEEDS = 5
ONE = "import json, sys; from experiments.seeded_defects import one_run; "
ONE += "print(json.dumps(one_run(int(sys.argv[1]), json.loads(sys.argv[2]))))"
LIMIT, TRAINED_ON, SCORED_ON = 100_000, 8000, 300  # the numbers: below, how many to learn from, how many to score
TRAINING: dict[str, Any] = {"num_steps": 320, "batch_tokens": 500, "accumulate": 2, "warmup_steps": 600}
AVERAGED = [240, 260, 280, 300, 320]  # the steps whose weights are averaged
RESUMED = 160  # the step at which the run is stopped and resumed


def one_run(seed: int, changes: dict[str, Any]) -> dict[str, float]:
    """Train and score with the package that this process imports."""
    torch.set_num_threads(1)
    numbers = random.Random(0).sample(range(LIMIT), TRAINED_ON + SCORED_ON)
    pairs = [(english_number(n), german_number(n)) for n in numbers]
    learned, scored = pairs[:TRAINED_ON], pairs[TRAINED_ON:]
    words = NumberWords(learned, scored, WordTokenizer.train(side for pair in learned for side in pair))
    train_ids, settings = words.ids(learned), TrainingConfig(**TRAINING, seed=seed)
    torch.manual_seed(seed)

    def fresh() -> tuple[Transformer, torch.optim.Optimizer]:
        model = Transformer(TransformerConfig(vocabulary_size=len(words.tokenizer), **{**SIZES, **changes}))
        return model, adam(model, settings)

    def score(beam_size: int) -> float:
        sentences = [source for source, _ in scored]
        # The written-out attention runs, as in training: a defect may lie in it.
        with record_attention(model):
            translations = translate(model, sentences, words.tokenizer, words.tokenizer, 100, beam_size=beam_size)
        return exact_match(translations, [target for _, target in scored])

    result = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {step: Path(folder, f"step-{step:06}") for step in [RESUMED, *AVERAGED]}
        model, optimizer = fresh()
        done, loss = 0, math.nan
        while done < settings.num_steps:
            with record_attention(model):
                batches = epochs(train_ids, model.config, settings, skip=done * settings.accumulate)
                for record in train(model, optimizer, batches, settings, done):
                    done, loss = record.step_num, record.loss_nats_per_token
                    if done in files:
                        save_checkpoint(files[done], model, optimizer, done)
                    if done == RESUMED:
                        break
            if done == RESUMED:
                result["halfway"] = score(1)
                model, optimizer = fresh()
                load_checkpoint(files[RESUMED], model, optimizer)
        result["last_loss_nats_per_token"] = round(loss, 4)
        result["last"] = score(1)
        model.load_state_dict(average_checkpoints([files[step] for step in AVERAGED]))
    result["greedy"] = score(1)
    result["beam_4"] = score(4)
    result["perplexity"] = round(perplexity(model, token_batches(words.ids(scored), settings.batch_tokens)), 4)
    return result


def run_copy(defect: Defect, seed: int) -> dict[str, Any]:
    """One run, in a process that imports a copy of the package with this defect."""
    with tempfile.TemporaryDirectory() as folder:
        copied(folder)
        if defect.file:
            plant(folder, defect.file, defect.right, defect.wrong)
        command = [sys.executable, "-c", ONE, str(seed), json.dumps(dict(defect.model))]
        environment = os.environ | {"PYTHONPATH": folder, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def run_jobs(jobs: Sequence[tuple[Defect, int]], workers: int) -> Iterator[dict[str, Any]]:
    """The run of each job in turn, several side by side, one thread each; progress is printed."""
    with ThreadPoolExecutor(workers) as pool:
        done = tqdm(pool.map(run_copy, *zip(*jobs, strict=True)), total=len(jobs))
        for (defect, seed), run in zip(jobs, done, strict=True):
            tqdm.write(f"{defect.name}, {dict(defect.model)}: {run}")
            yield {"seed": seed} | run


def main() -> None:
    """Run everything, write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="runs of each defect (default: 2)")
    parser.add_argument("--workers", type=int, default=1, help="runs side by side (default: 1)")
    parser.add_argument("--only", metavar="DEFECT", help="measure this one again; its entry gets its own provenance")
    args = parser.parse_args()
    started = time.monotonic()
    measured = [defect for defect in DEFECTS if defect.runs and args.only in (None, defect.name)]
    if not measured:
        parser.error(f"--only {args.only!r}: no defect of workshop/lab/defects.toml that runs has this name")
    kinds = [] if args.only else dict.fromkeys(tuple(sorted(defect.model.items())) for defect in measured)
    healthy = [(Defect("nothing changed", model=dict(kind)), seed) for kind in kinds for seed in range(HEALTHY_SEEDS)]
    runs = run_jobs([*healthy, *((defect, seed) for defect in measured for seed in range(args.seeds))], args.workers)
    of_healthy = [{"model": dict(defect.model)} | next(runs) for defect, _ in healthy]
    found = {
        d.name: {"file": d.file, "model": dict(d.model), "runs": [next(runs) for _ in range(args.seeds)]}
        for d in measured
    }
    origin = provenance(0, time.monotonic() - started)
    if args.only:  # new runs of one defect, in the record of all
        result = recorded("seeded_defects")
        result["defects"][args.only] = found[args.only] | {"recorded": origin}
    else:
        result = {
            "what": "a small model trained with each seeded defect; shares of unseen numbers translated to the letter",
            "data": f"English to German number words below {LIMIT:,}: {TRAINED_ON:,} to learn, {SCORED_ON} to score",
            "model": SIZES | {"p_drop": 0.1},
            "training": TRAINING | {"averaged": AVERAGED, "resumed": RESUMED},
            "healthy": of_healthy,
            "defects": found,
            **origin,
        }
    print(f"written to {write_result('seeded_defects', result).name}")


if __name__ == "__main__":
    main()
