"""The rows of Table 3, scaled down: several seeds of each.

    TRANSFORMER_LIB_DATA=... python experiments/table_3.py                     Multi30k, English to German, on a GPU
    ... --minutes 9                                                            no run starts after that; call it again
    python experiments/table_3.py --data number_words                          a small version for one CPU core
    python experiments/table_3.py --smoke                                      every stage at a tiny size

A row is scaled by one rule (see SCALES): every width is divided by the same number, so is every number of layers; heads
stay; dropout moves from the base's by as much as in the paper. A run is a row and a seed; a run that is done is read
from its folder, so a call that was cut goes on where it stopped.
"""

import argparse
import math
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from transformer_lib import TABLE_3, Transformer, TransformerConfig, count_parameters
from transformer_lib.config import Table3Row, TrainingConfig
from transformer_lib.data import Tokenizer, load_pairs, token_batches, train_tokenizer
from transformer_lib.evaluation import bleu, exact_match, perplexity
from transformer_lib.training import adam, epochs, train
from transformer_run.translation import translate
from workshop.lab.experiment import runs
from workshop.lab.provenance import provenance, write_result

BEAM = 4  # as in the paper; like there, no checkpoints are averaged
BASE_ROW = TABLE_3["base"]
# A row or two of each letter: what one CPU core does in half an hour.
FEW_ROWS = ["base", "A h=1", "A h=4", "B d_k=16", "C N=2", "C d_model=256", "C d_model=1024", "C d_ff=1024"]
FEW_ROWS += ["D p_drop=0.0", "D epsilon_ls=0.0", "E"]


@dataclass(frozen=True)
class Scale:
    """How the paper's rows become small: what is divided, and the training that all rows share."""

    data: str
    widths: int  # d_model, d_ff, d_k and d_v are divided by this
    layers: int  # and num_layers by this
    p_drop: float  # of the base
    num_steps: int
    batch_tokens: int
    warmup_steps: int
    vocabulary_size: int = 0  # of subword units; 0: words
    trained_on: int | None = None  # pairs; None: all
    scored_on: int | None = None


SCALES = {
    # Dropout, vocabulary, batch and warm-up have about the size with which the literature trains on Multi30k.
    "multi30k": Scale("multi30k", 4, 2, 0.3, 6000, 4096, 2000, vocabulary_size=8000),
    "number_words": Scale("number_words", 16, 2, 0.1, 240, 1000, 240, trained_on=4000, scored_on=300),
    "smoke": Scale("number_words", 16, 2, 0.1, 6, 300, 10, trained_on=200, scored_on=12),
}


def scaled(row: Table3Row, scale: Scale, vocabulary_size: int) -> tuple[TransformerConfig, TrainingConfig]:
    """The small model of a row of the paper's table, and its training."""
    paper = row.model
    widths = {name: getattr(paper, name) // scale.widths for name in ("d_model", "d_ff", "d_k", "d_v")}
    moved = scale.p_drop + paper.p_drop - BASE_ROW.model.p_drop
    model = replace(
        paper,
        **widths,
        vocabulary_size=vocabulary_size,
        num_layers=paper.num_layers // scale.layers,
        p_drop=round(moved, 3) if paper.p_drop else 0.0,  # a row without dropout has none here either
    )
    longer = row.training.num_steps // BASE_ROW.training.num_steps  # big trains three times as long
    training = TrainingConfig(
        num_steps=longer * scale.num_steps,
        batch_tokens=scale.batch_tokens,
        warmup_steps=scale.warmup_steps,
        epsilon_ls=row.training.epsilon_ls,
    )
    return model, training


@cache
def corpus(scale: Scale) -> tuple[list[tuple[str, str]], list[tuple[str, str]], Tokenizer]:
    """Pairs to learn from, pairs to score, the tokenizer of both languages."""
    learned = load_pairs(scale.data, "train", "en", "de")[: scale.trained_on]
    scored = load_pairs(scale.data, "val", "en", "de")[: scale.scored_on]
    kind = "bpe" if scale.vocabulary_size else "space"
    texts = [side for pair in learned for side in pair]
    return learned, scored, train_tokenizer(kind, texts, None, scale.vocabulary_size)


def one_run(name: str, seed: int, scale: Scale, device: str) -> dict[str, Any]:
    """Train one row with one seed; score it on the validation set."""
    torch.set_num_threads(1)  # many runs side by side; a GPU needs no more to be fed
    started = time.monotonic()
    learned, scored, tokenizer = corpus(scale)
    train_ids, val_ids = ([(tokenizer.encode(s), tokenizer.encode(t)) for s, t in some] for some in (learned, scored))
    model_config, training = scaled(TABLE_3[name], scale, len(tokenizer))
    training = replace(training, seed=seed)
    torch.manual_seed(seed)
    model = Transformer(model_config).to(device)
    loss = math.nan
    for record in train(model, adam(model, training), epochs(train_ids, model_config, training), training):
        loss = record.loss_nats_per_token
    of_val = perplexity(model, token_batches(val_ids, scale.batch_tokens))
    hypotheses = translate(model, [s for s, _ in scored], tokenizer, tokenizer, beam_size=BEAM)
    references = [tokenizer.normalize(t) for _, t in scored]
    score = bleu(hypotheses, references, tokenizer.lowercase, tokenizer.bleu_tokenization)
    seconds = round(time.monotonic() - started, 1)
    return {
        "row": name,
        "seed": seed,
        "parameters": count_parameters(model),
        "last_loss_nats_per_token": round(loss, 4),
        "perplexity": round(of_val, 4),
        "bleu": round(score.score, 2),
        "bleu_signature": score.signature,
        "exact_match": round(exact_match(hypotheses, references), 4),
        "seconds": seconds,
        "trained": provenance(seed, seconds),
    }


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    cuda = torch.cuda.is_available()
    parser.add_argument("--data", choices=["multi30k", "number_words"], default="multi30k")
    parser.add_argument(
        "--rows", nargs="+", choices=list(TABLE_3), metavar="ROW", help="default: all; on number words a few"
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of each row (default: 3)")
    parser.add_argument("--steps", type=int, help="of training, in place of those of SCALES; a result of its own")
    parser.add_argument("--workers", type=int, default=8 if cuda else 1, help="runs side by side")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after so long")
    parser.add_argument("--device", default="cuda" if cuda else "cpu")
    parser.add_argument("--folder", type=Path, help="of the runs (default: checkpoints/table_3/DATA)")
    parser.add_argument("--smoke", action="store_true", help="every stage at a tiny size; nothing is recorded")
    args = parser.parse_args()
    if args.smoke:
        args.folder = args.folder or Path(tempfile.mkdtemp(prefix="table-3-smoke-"))
    args.name = "smoke" if args.smoke else args.data + (f"_{args.steps}_steps" if args.steps else "")
    args.folder = args.folder or Path("checkpoints/table_3") / args.name
    args.rows = args.rows or (list(TABLE_3) if args.data == "multi30k" else FEW_ROWS)
    return args


def main() -> None:
    """Run what is not done yet; write the result once nothing is missing."""
    args = _parsed()
    started = time.monotonic()
    scale = SCALES["smoke" if args.smoke else args.data]
    scale = replace(scale, num_steps=args.steps or scale.num_steps)
    # Seeds outside, rows inside: a call that is cut leaves whole tables behind.
    jobs = [(row, seed, scale, args.device) for seed in range(args.seeds) for row in args.rows]
    cases = {f"{row.replace(' ', '_')}.seed{seed}": (row, seed, *how) for row, seed, *how in jobs}
    done = runs(args.folder, one_run, cases, args.workers if args.workers > 1 else 0, time.time() + 60 * args.minutes)
    if len(done) < len(jobs):
        print(f"{len(done)} of {len(jobs)} runs are done; the same command goes on with the rest")
        return
    origin = provenance(0, time.monotonic() - started)
    path = write_result(
        f"table_3_{args.name}",
        {
            "what": f"Table 3's rows scaled down, {args.seeds} seeds each, English to German, on {scale.data}",
            "data": f"{scale.data}: train to learn, val to score; beam {BEAM}, no averaging, as in the paper's table",
            "scale": asdict(scale),
            "seeds": args.seeds,
            "runs": done,
            # Of all calls together: a call that goes on reads what the ones before it have done.
            **(origin | {"seconds": round(sum(run["seconds"] for run in done), 1)}),
        },
        *([args.folder] if args.smoke else []),
    )
    print(f"written to {path}")


if __name__ == "__main__":
    main()
