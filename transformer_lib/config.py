"""The sizes of a model and the settings of its training, with every row of Table 3."""

import difflib
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import torch

NormOrder = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned"]
Activation = Literal["relu", "gelu", "silu"]


def _is_integer(value: object) -> bool:
    # Integral also takes NumPy's integers. While torch.export traces a graph, a length is a SymInt.
    return isinstance(value, numbers.Integral | torch.SymInt) and not isinstance(value, bool)


def check_positive(**sizes: int) -> None:
    """Raise ValueError for the first size that is not an integer of at least 1."""
    for name, value in sizes.items():
        if not _is_integer(value) or value < 1:
            raise ValueError(f"{name} = {value!r} must be an integer of at least 1")


def check_seed(seed: int) -> None:
    """Raise ValueError for one below 0: Python's random draws the same numbers with -1 and 1."""
    if not _is_integer(seed) or seed < 0:
        raise ValueError(f"seed = {seed!r} must be an integer of at least 0")


def _check_kept(config: "TransformerConfig | TrainingConfig") -> None:
    """Raise ValueError for the first integer that JSON, the format of saved configs, cannot keep: NumPy's."""
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, numbers.Integral) and not isinstance(value, int):
            raise ValueError(f"{field.name} = {value!r} must be an integer of Python: int({value})")


def check_fraction(**fractions: float) -> None:
    """Raise ValueError for the first number outside [0, 1)."""
    for name, value in fractions.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 <= value < 1.0:
            raise ValueError(f"{name} = {value!r} must be at least 0 and less than 1")


def is_finite(value: object) -> bool:
    """Whether it is a number that is neither infinite nor NaN."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def check_choice(kind: object, **choices: str) -> None:
    """Raise ValueError for the first name that is not one of the values of the Literal `kind`."""
    for name, value in choices.items():
        if value not in get_args(kind):
            raise ValueError(f"{name} = {value!r} is not one of {', '.join(map(repr, get_args(kind)))}")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes of one Transformer; the defaults are the paper's base model.

    Args:
        vocabulary_size: entries of the shared vocabulary, or of the target's if the source has its own.
        source_vocabulary_size: None for one matrix shared by both languages and the output (section 3.4).
        num_layers: of the encoder, and of the decoder unless num_decoder_layers says otherwise.
        num_decoder_layers: None for as many as the encoder has, as in the paper.
        d_k, d_v: width of one head's queries and keys, and of its values; independent of d_model and num_heads.
        p_drop: probability of dropout, in [0, 1).
        max_positions: rows of the table when positions="learned"; sinusoids have no limit.
        norm_order: "post" is the paper's LayerNorm(x + Sublayer(x)); "pre" normalises first, and once at the end.
        final_norm: a normalisation after each stack; None: as norm_order has it ("post" none, "pre" one).
        attention_bias: whether the four projections of attention add a bias; the paper's do not.
        tied_output: False gives the pre-softmax projection a matrix of its own; the paper ties it (section 3.4).
        output_bias: whether the logits get a bias, one for each token; the paper's do not.
        bos_id: may be the pad_id, as in Marian's models.

    Raises:
        ValueError: a value out of range; the message names it and its limit.
    """

    vocabulary_size: int
    source_vocabulary_size: int | None = None
    num_layers: int = 6
    num_decoder_layers: int | None = None
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int = 64
    d_v: int = 64
    p_drop: float = 0.1
    norm_order: NormOrder = "post"
    positions: Positions = "sinusoidal"
    max_positions: int = 1024
    activation: Activation = "relu"
    final_norm: bool | None = None
    attention_bias: bool = False
    tied_output: bool = True
    output_bias: bool = False
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2

    def __post_init__(self):
        _check_kept(self)
        sizes = ("vocabulary_size", "num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v", "max_positions")
        check_positive(**{name: getattr(self, name) for name in sizes})
        for name in ("source_vocabulary_size", "num_decoder_layers"):
            if getattr(self, name) is not None:
                check_positive(**{name: getattr(self, name)})
        check_fraction(p_drop=self.p_drop)
        check_choice(NormOrder, norm_order=self.norm_order)
        check_choice(Positions, positions=self.positions)
        check_choice(Activation, activation=self.activation)
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"d_model = {self.d_model} must be even: a sinusoid needs pairs of dimensions; "
                "use an even d_model or positions='learned'"
            )
        special = {name: getattr(self, name) for name in ("pad_id", "bos_id", "eos_id")}
        smallest = min(self.vocabulary_size, self.source_vocabulary_size or self.vocabulary_size)
        for name, value in special.items():
            if not _is_integer(value) or not 0 <= value < smallest:
                limit = f"at least 0 and less than the vocabulary's size, {smallest}"
                raise ValueError(f"{name} = {value!r} must be an integer of {limit}")
        for name in ("attention_bias", "tied_output", "output_bias"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} = {getattr(self, name)!r} must be True or False")
        if not (self.final_norm is None or isinstance(self.final_norm, bool)):
            raise ValueError(f"final_norm = {self.final_norm!r} must be True, False or None")
        if self.eos_id in (self.pad_id, self.bos_id):
            raise ValueError(f"eos_id must differ from pad_id and bos_id; got {special}")

    @property
    def decoder_layers(self) -> int:
        """How many layers the decoder has."""
        return self.num_layers if self.num_decoder_layers is None else self.num_decoder_layers

    @property
    def has_final_norm(self) -> bool:
        """Whether a normalisation stands after each stack."""
        return self.norm_order == "pre" if self.final_norm is None else self.final_norm


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of a training run; the defaults are the paper's base model (sections 5.1 to 5.4).

    Args:
        num_steps: updates of the weights.
        batch_tokens: upper limit of tokens in a batch, on each side, padding included.
        accumulate: batches whose gradients make one update.
        rate_factor: what equation (3) is multiplied by; the paper's is 1.
        beta1, beta2, epsilon: of Adam.
        epsilon_ls: label smoothing, in [0, 1).
        max_grad_norm: longer gradients are shortened to this norm; None: never, as in the paper.
        seed: of the initial weights, the order of the batches and dropout.
    """

    num_steps: int = 100_000
    batch_tokens: int = 25_000
    accumulate: int = 1
    warmup_steps: int = 4000
    rate_factor: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    epsilon_ls: float = 0.1
    max_grad_norm: float | None = None
    seed: int = 0

    def __post_init__(self):
        _check_kept(self)
        names = ("num_steps", "batch_tokens", "accumulate", "warmup_steps")
        check_positive(**{name: getattr(self, name) for name in names})
        check_fraction(beta1=self.beta1, beta2=self.beta2, epsilon_ls=self.epsilon_ls)
        for name in ("epsilon", "rate_factor"):
            if not is_finite(getattr(self, name)) or getattr(self, name) <= 0:
                raise ValueError(f"{name} = {getattr(self, name)!r} must be a number greater than 0")
        norm = self.max_grad_norm
        if norm is not None and (isinstance(norm, bool) or not isinstance(norm, numbers.Real) or not norm > 0):
            raise ValueError(f"max_grad_norm = {norm!r} must be a number greater than 0, or None for no limit")
        check_seed(self.seed)
        if self.seed >= 2**32:
            raise ValueError(f"seed = {self.seed} must be less than 2**32 = {2**32}")


# What other toolkits call these fields.
OTHER_NAMES = {
    **dict.fromkeys(("lr", "learning_rate"), "rate_factor"),
    **dict.fromkeys(("steps", "max_steps", "epochs"), "num_steps"),
    **dict.fromkeys(("batch_size", "max_tokens"), "batch_tokens"),
    **dict.fromkeys(("dropout",), "p_drop"),
    **dict.fromkeys(("hidden_size", "embed_dim"), "d_model"),
    **dict.fromkeys(("heads", "nhead"), "num_heads"),
    "layers": "num_layers",
    "label_smoothing": "epsilon_ls",
}
AnyConfig = TypeVar("AnyConfig", TransformerConfig, TrainingConfig)


def config_from_dict(kind: type[AnyConfig], values: Mapping[str, Any]) -> AnyConfig:
    """The config of the given class with these values, as read from JSON or a command line.

    Raises:
        ValueError: a key the class does not have; the message names the nearest one.
    """
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            near = [OTHER_NAMES[key]] if OTHER_NAMES.get(key) in known else difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
            raise ValueError(f"unknown key {key!r} for {kind.__name__}; {hint}")
    return kind(**values)


class Table3Row(NamedTuple):
    """One row of Table 3: the configuration, and what the paper reports for it on newstest2013."""

    model: TransformerConfig
    training: TrainingConfig
    perplexity: float  # per word piece
    bleu: float
    parameters_in_millions: int | None  # None where the paper leaves the cell empty


#: The base model; the paper's English-German vocabulary has about 37,000 entries (section 5.1).
BASE = TransformerConfig(vocabulary_size=37_000)
#: The big model (section 6.1).
BIG = replace(BASE, d_model=1024, d_ff=4096, num_heads=16, p_drop=0.3)


def _row(perplexity: float, bleu: float, millions: int | None = None, epsilon_ls: float = 0.1, **model: Any):
    return Table3Row(replace(BASE, **model), TrainingConfig(epsilon_ls=epsilon_ls), perplexity, bleu, millions)


#: The rows of Table 3 by their names, such as ``A h=4`` and ``B d_k=16``.
#:
#: Source: section 6.2 [table-3].
TABLE_3: dict[str, Table3Row] = {
    "base": _row(4.92, 25.8, 65),
    "A h=1": _row(5.29, 24.9, num_heads=1, d_k=512, d_v=512),
    "A h=4": _row(5.00, 25.5, num_heads=4, d_k=128, d_v=128),
    "A h=16": _row(4.91, 25.8, num_heads=16, d_k=32, d_v=32),
    "A h=32": _row(5.01, 25.4, num_heads=32, d_k=16, d_v=16),
    "B d_k=16": _row(5.16, 25.1, 58, d_k=16),
    "B d_k=32": _row(5.01, 25.4, 60, d_k=32),
    "C N=2": _row(6.11, 23.7, 36, num_layers=2),
    "C N=4": _row(5.19, 25.3, 50, num_layers=4),
    "C N=8": _row(4.88, 25.5, 80, num_layers=8),
    "C d_model=256": _row(5.75, 24.5, 28, d_model=256, d_k=32, d_v=32),
    "C d_model=1024": _row(4.66, 26.0, 168, d_model=1024, d_k=128, d_v=128),
    "C d_ff=1024": _row(5.12, 25.4, 53, d_ff=1024),
    "C d_ff=4096": _row(4.75, 26.2, 90, d_ff=4096),
    "D p_drop=0.0": _row(5.77, 24.6, p_drop=0.0),
    "D p_drop=0.2": _row(4.95, 25.5, p_drop=0.2),
    "D epsilon_ls=0.0": _row(4.67, 25.3, epsilon_ls=0.0),
    "D epsilon_ls=0.2": _row(5.47, 25.7, epsilon_ls=0.2),
    "E": _row(4.92, 25.7, positions="learned"),
    "big": Table3Row(BIG, TrainingConfig(num_steps=300_000), 4.33, 26.4, 213),
}
