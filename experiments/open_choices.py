"""What the choices change that the paper leaves open, or that this library makes otherwise.

    python experiments/open_choices.py

Each choice is turned the other way in a copy of the package, or by a field of the configuration, and the small model of
experiments/seeded_defects.py is trained with it, several seeds each, beside the library as it is.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from experiments.seeded_defects import (
    AVERAGED,
    LIMIT,
    MODEL,
    RESUMED,
    SCORED_ON,
    TRAINED_ON,
    TRAINING,
    Defect,
    run_jobs,
)
from workshop.lab.experiment import record


class Choice(NamedTuple):
    """The other way to do one thing: a line of the package, or fields of the model's configuration."""

    name: str
    file: str = ""
    right: str = ""
    wrong: str = ""
    model: Mapping[str, Any] = MappingProxyType({})


GLOROT = "            if isinstance(module, nn.Linear):\n"
CHOICES = [
    Choice("pre-norm", model={"norm_order": "pre"}),
    Choice("post-norm with a final norm", model={"final_norm": True}),
    Choice("biases in attention", model={"attention_bias": True}),
    Choice("own output matrix", model={"tied_output": False}),
    Choice("learned positions", model={"positions": "learned"}),
    Choice("PyTorch's initial matrices", "transformer_lib/transformer.py", GLOROT, "            if False:\n"),
    Choice("embeddings start at a deviation of 1", "transformer_lib/embeddings.py", "std=d_model**-0.5", "std=1.0"),
    Choice(
        "dropout on the attention weights too",
        "transformer_lib/attention.py",
        "return weights @ value, weights  # (...",
        "return F.dropout(weights, 0.1, torch.is_grad_enabled()) @ value, weights  # (...",
    ),
    Choice(
        "dropout inside the feed-forward network too",
        "transformer_lib/layers.py",
        "self.outer(self.activation(self.inner(states)))",
        "self.outer(nn.functional.dropout(self.activation(self.inner(states)), 0.1, self.training))",
    ),
    Choice(
        "layer norm's ε at 1e-6",
        "transformer_lib/layers.py",
        "LayerNorm(config.d_model)",
        "LayerNorm(config.d_model, 1e-6)",
    ),
    Choice(
        "smoothing spread over the other tokens alone",
        "transformer_lib/fast.py",
        "every_token = log_p.mean(dim=-1)",
        "every_token = (log_p.sum(dim=-1) - right_token) / (logits.size(-1) - 1)",
    ),
    Choice(
        "gradients clipped at a norm of 1",
        "transformer_lib/training.py",
        "limit = math.inf if max_norm is None else max_norm",
        "limit = 1.0",
    ),
    Choice(
        "length penalty without <eos>",
        "transformer_lib/decoding.py",
        "log_probability / length_penalty(len(tokens), alpha)",
        "log_probability / length_penalty(len(tokens) - 1, alpha)",
    ),
    Choice(
        "no length penalty",
        "transformer_run/translation.py",
        "    batch_size: int = 64,\n    beam_size: int = 1,\n    alpha: Alpha = PAPERS_ALPHA",
        "    batch_size: int = 64,\n    beam_size: int = 1,\n    alpha: Alpha = 0.0",
    ),
]


def measured(seeds: int, workers: int) -> dict[str, Any]:
    """The record of every choice, with so many seeds each and so many runs side by side."""
    choices = [Choice("as it is"), *CHOICES]
    jobs = []
    for choice in choices:
        defect = Defect(choice.name, choice.file, choice.right, choice.wrong, "") if choice.file else None
        jobs += [(defect, seed, dict(choice.model)) for seed in range(seeds)]
    runs = run_jobs(jobs, workers)
    return {
        "what": "a small model trained with each open choice turned the other way; shares of unseen numbers right",
        "data": f"English to German number words below {LIMIT:,}: {TRAINED_ON:,} to learn, {SCORED_ON} to score",
        "model": MODEL | {"p_drop": 0.1},
        "training": TRAINING | {"averaged": AVERAGED, "resumed": RESUMED},
        "choices": {choice.name: [next(runs) for _ in range(seeds)] for choice in choices},
    }


if __name__ == "__main__":
    record("open_choices", __doc__, measured, seeds=3, workers=1)
