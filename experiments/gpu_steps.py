"""What each saving brings to a training step on a GPU, one by one: a stage of gpu_record.py.

The steps are those of `transformer_lib.training.train`, on sentences of one length, so without padding. Each form of
the step has a fresh model and the same batch; its first steps are not timed. Every step ends by reading the loss, which
waits for the device. The limits of the device are measured in the same run: a large product, and a large copy.
"""

import statistics
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from transformer_lib import BASE, TrainingConfig, Transformer, TransformerConfig, record_attention
from transformer_lib.data import Batch, make_batch
from transformer_lib.training import adam, train
from transformer_run.update import Precision, Update
from workshop.lab.cost import training_flops

LENGTH = 32  # tokens of a sentence on either side


@dataclass(frozen=True)
class Form:
    """One way to make the same step; each in the list adds something to the one before it, or bf16 in place of TF32."""

    name: str
    written_out: bool = False
    precision: Precision = "fp32"
    compile: bool = False
    products: str = "highest"  # of float32; "high" rounds their factors to TF32


FORMS = (
    Form("float32, attention written out", written_out=True),
    Form("+ fused attention"),
    Form("+ TF32", products="high"),
    Form("+ bf16", precision="bf16"),
    Form("TF32, compiled", products="high", compile=True),
    Form("bf16, compiled", precision="bf16", compile=True),
)
TRIED = {"tf32": 2, "bf16": 3}  # what a whole run trains in, as multi30k.py calls it, and its form


class Work(NamedTuple):
    """What is trained and how often."""

    config: TransformerConfig
    tokens: int  # of the batch on which the forms are compared, on each side
    larger: int  # tokens of the batch that TF32 and bf16 get, too
    warm_up: int
    steps: int
    r_drop: float = 0.0


FULL = Work(BASE, 8192, 25_000, warm_up=5, steps=20)
SMOKE = Work(
    TransformerConfig(vocabulary_size=50, num_layers=1, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8),
    2 * LENGTH,
    3 * LENGTH,
    warm_up=1,
    steps=2,
)


def random_batch(config: TransformerConfig, tokens: int) -> Batch:
    """So many tokens on each side, in sentences of one length, without padding."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, config.vocabulary_size, (2, tokens // LENGTH, LENGTH - 1), generator=generator)
    return make_batch(list(zip(*ids.tolist(), strict=True)))  # with <eos> it has LENGTH


def measure(form: Form, work: Work, tokens: int, device: str) -> dict[str, Any]:
    """Speed and memory of one form of the step on a batch of so many tokens."""
    tokens -= tokens % LENGTH
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.set_float32_matmul_precision(form.products)
    model = Transformer(work.config).to(device)
    settings = TrainingConfig(num_steps=work.warm_up + work.steps, batch_tokens=tokens)
    batch = random_batch(work.config, tokens).to(device)
    on_gpu = device.startswith("cuda")
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with record_attention(model) if form.written_out else nullcontext():
        update = Update(model, form.precision, work.r_drop, form.compile)
        records = list(train(model, adam(model, settings), [batch] * settings.num_steps, settings, update=update))
    seconds = [record.seconds for record in records[work.warm_up :]]
    lengths = [LENGTH] * (tokens // LENGTH)
    speed = tokens / statistics.median(seconds)
    return {
        "tokens": tokens,
        "tokens_per_second": round(speed),
        "slowest": round(tokens / max(seconds)),
        "fastest": round(tokens / min(seconds)),
        "first_step_seconds": round(records[0].seconds, 3),
        "tflops": round(training_flops(work.config, lengths, lengths) / tokens * speed / 1e12, 4),
        "peak_memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 3) if on_gpu else None,
        "loss_first_last": [round(records[i].loss_nats_per_token, 3) for i in (0, -1)],
    }


def measured(form: Form, work: Work, tokens: int, device: str) -> dict[str, Any]:
    """The same; where the device has not memory enough, that."""
    try:
        result = measure(form, work, tokens, device)
    except torch.OutOfMemoryError:
        result = {"tokens": tokens, "out_of_memory": True}
    except RuntimeError as error:  # a compiler that does not know the card, for example
        result = {"tokens": tokens, "error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    print(f"{form.name}, {tokens} tokens: {result}", file=sys.stderr, flush=True)
    return result
