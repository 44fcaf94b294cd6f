"""The settings of a training run, and the forms in which they are given."""

import hashlib
import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from transformer_lib.config import (
    TrainingConfig,
    TransformerConfig,
    check_choice,
    check_positive,
    config_from_dict,
    is_finite,
)
from transformer_lib.data.corpora import CORPORA, check_corpus
from transformer_lib.data.tokenizers import USUAL_SIZE, TokenizerKind
from transformer_lib.weight_files import check_regular, parsed

from .checkpoints import write_file
from .update import Precision

DATA = "two text files, line by line translations, source first; or one with a tab between the sides; plain or gzip, "
DATA += f"UTF-8; or one of {', '.join(CORPORA)}"  # what --data takes
SEVERAL: dict[str, Any] = {"nargs": "+", "metavar": "FILE"}
FOLDER_FIRST = "The run's folder stands before --data"
RUN_CONFIG = "training.json"  # in the folder of a run
FORMAT = 3  # of that file; a change that older readers cannot follow raises it
CODE = re.compile(r"[a-z]{2}([-_]([a-z]{2}|[a-z]{4}|\d{3}))*", re.IGNORECASE)  # with a region or a script: pt_BR
FIXED_BY_TOKENIZER = {"vocabulary_size", "source_vocabulary_size", "pad_id", "bos_id", "eos_id"}
MODELS = {  # by name: fields of TransformerConfig
    "base": {},
    "small": {"num_layers": 2, "d_model": 256, "d_ff": 512, "num_heads": 4},  # that a CPU trains in hours
}
# Of a finished translator on a few hundred other pairs: of rates four times as high and five times as low, the best.
FINE_TUNING = TrainingConfig(num_steps=300, batch_tokens=1000, warmup_steps=100, rate_factor=0.05)
OF_THE_UPDATE = ("precision", "r_drop", "compile")  # which --training takes, too
WATCHED = {"validate_every": 20, "patience": 5}  # steps and validations: few pairs are soon learned by heart
# What a resumed run may change: how far it goes, and what it keeps on the way.
CHANGEABLE = ("num_steps", "validate_every", "keep_last", "patience")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All settings of a run, as training.json in its folder holds them.

    Raises:
        ValueError: a setting out of range, unknown, or fixed by the tokenizer.
    """

    data: str | list[str] = "number_words"  # a key of CORPORA, or the paths of one's own files
    validation: list[str] | None = None  # paths of one's own; None: the corpus's own, or a part of one's own files
    source: str = "de"
    target: str = "en"
    digest: str | None = None  # of the pairs, set when they are first read
    clean: bool = False  # whether pairs that do not look like translations are left out of training
    max_length: int = 500  # characters of a side
    max_ratio: float = 4.0  # of the ratio of a pair's lengths to its median
    tokenizer: str = ""  # "bpe", "spacy" or "space"; empty: as the corpus needs it
    vocabulary_size: int | None = None  # of bpe, both languages together; None: 8,000, or what the texts give
    begun_from: str | None = None  # the translator, by name or folder, whose weights and tokenizer the run began with
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of TransformerConfig
    training: TrainingConfig = TrainingConfig(num_steps=20_000, batch_tokens=4000)  # noqa: RUF009, frozen
    validate_every: int = 200  # steps; a checkpoint is written each time
    precision: Precision = "fp32"  # of matrix products: see Update
    r_drop: float = 0.0  # weight of R-Drop's term of the loss
    compile: bool = False  # whether torch.compile makes kernels for the model first
    keep_last: int = 5  # checkpoints, beside the best
    patience: int | None = None  # validations that bring nothing better; None: no limit

    def __post_init__(self):
        if not self.tokenizer:
            object.__setattr__(self, "tokenizer", "space" if self.data == "number_words" else "bpe")
        check_choice(TokenizerKind, tokenizer=self.tokenizer)
        names = ("vocabulary_size", "validate_every", "keep_last", "max_length", "patience")
        values = {name: getattr(self, name) for name in names}
        check_positive(**{name: value for name, value in values.items() if value is not None})
        check_choice(Precision, precision=self.precision)
        if not isinstance(self.compile, bool):
            raise ValueError(f"compile = {self.compile!r} must be True or False")
        if not is_finite(self.r_drop) or self.r_drop < 0:
            raise ValueError(f"r_drop = {self.r_drop!r} must be a number of at least 0")
        if not self.max_ratio >= 1:
            raise ValueError(f"max_ratio = {self.max_ratio} must be at least 1: how far from its median a ratio may be")
        if not self.source or self.source == self.target:
            raise ValueError(f"source = {self.source!r}, target = {self.target!r}: name two languages")
        if self.validation and isinstance(self.data, str):
            raise ValueError(f"{self.data} has validation pairs of its own; leave --validation out")
        if fixed := FIXED_BY_TOKENIZER & self.model.keys():
            raise ValueError(f"{', '.join(sorted(fixed))}: fixed by the tokenizer and --vocabulary-size; leave it out")
        self.model_config(self.vocabulary_size or USUAL_SIZE)

    def model_config(self, vocabulary_size: int, **sizes: Any) -> TransformerConfig:
        """The model's configuration, for a vocabulary of this size."""
        return config_from_dict(TransformerConfig, {"vocabulary_size": vocabulary_size, **sizes, **self.model})

    def changed(self, settings: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]):
        """The same run with some other settings, and other fields of the model and of the training."""
        own = {name: value for name, value in training.items() if name in OF_THE_UPDATE}
        rest = {name: value for name, value in training.items() if name not in own}
        other = config_from_dict(TrainingConfig, asdict(self.training) | rest)
        return replace(self, **settings, **own, model={**self.model, **model}, training=other)

    def resumed(self, changed: "RunConfig") -> "RunConfig":
        """The changed run, if the changes are such as a run that has begun may take.

        Raises:
            ValueError: other changes; the message names them.
        """
        if changed.precision == "auto":  # as it was chosen where the run began
            changed = replace(changed, precision=self.precision)
        before, after = self._flat(), changed._flat()
        names = [name for name in after if after[name] != before[name] and name not in CHANGEABLE]
        if names:
            listed = ", ".join(f"{name} = {after[name]!r} (was {before[name]!r})" for name in names)
            raise ValueError(f"{listed}: a resumed run keeps its settings but for {', '.join(CHANGEABLE)}")
        return changed

    def write(self, folder: Path) -> None:
        """Write training.json, whole or not at all, with its format and one digest of the settings."""
        settings = asdict(self)
        write_file(folder / RUN_CONFIG, json.dumps({"format": FORMAT, **settings, "sha256": digest(settings)}))

    @classmethod
    def read(cls, folder: Path) -> "RunConfig":
        """What training.json holds.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it is truncated, altered or of another version; the message names the settings that are unknown.
        """
        path = folder / RUN_CONFIG
        try:
            check_regular(path)
            content = parsed(path.read_text("utf-8"))
            if (its_format := content.pop("format", None)) != FORMAT:
                problem = f"format = {its_format!r}, and this library reads {FORMAT}"
                raise ValueError(f"{problem}: use the one that wrote it, or train into another folder")
            written = content.pop("sha256", None)
            if unknown := content.keys() - {f.name for f in fields(cls)}:
                raise ValueError(f"it has {', '.join(sorted(unknown))}, which this library does not know")
            if digest(content) != written:
                raise ValueError("the settings are not what the run wrote; put the old values back")
            content["training"] = config_from_dict(TrainingConfig, content["training"])
            return cls(**content)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            what = error if isinstance(error, ValueError) else repr(error)
            raise ValueError(f"{path} is truncated, altered or of another version: {what}") from error

    def _flat(self) -> dict[str, Any]:
        # Every setting by its name, those of the model and of the training too, given or not.
        # Files may have moved: their digest says what is in them.
        apart = ("model", "training", "digest")
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        own["validation"] = self.validation and "own files"
        own["data"] = self.data if isinstance(self.data, str) else "own files"
        defaults = {f.name: f.default for f in fields(TransformerConfig) if f.name not in FIXED_BY_TOKENIZER}
        return own | defaults | dict(self.model) | asdict(self.training)


def digest(settings: Mapping[str, Any]) -> str:
    """Of all settings, as JSON has them."""
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()


def named_model(given: Sequence[str]) -> dict[str, Any]:
    """The fields of a model by name, then those given one by one."""
    named: dict[str, Any] = {}
    for name in given:
        named |= MODELS.get(name, {})
    return named | assignments([setting for setting in given if setting not in MODELS])


def assignments(given: Sequence[str]) -> dict[str, Any]:
    """The settings in texts such as "p_drop=0.2". Raises ValueError for a text without an equals sign."""
    settings: dict[str, Any] = {}
    for assignment in given:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"{assignment!r} is not a setting; write it as key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            # A word, such as norm_order=pre; True, False and None as the messages write them.
            settings[key] = {"True": True, "False": False, "None": None}.get(value, value)
    return settings


def corpus_or_files(given: list[str] | None) -> str | list[str] | None:
    """The name of a corpus, or the paths of files."""
    if not given or not (given[0] in CORPORA or (len(given) == 1 and not Path(given[0]).exists())):
        return given and existing_files(given)
    if len(given) > 1:
        raise ValueError(f"--data {' '.join(given)}: give one corpus name, or files. {FOLDER_FIRST}")
    check_corpus(given[0])
    return given[0]


def existing_files(files: Sequence[str]) -> list[str]:
    """Their whole paths. Raises ValueError for what is no file."""
    for file in files:
        if Path(file).is_dir():
            raise ValueError(f"{file} is a folder, no file of sentences. {FOLDER_FIRST}")
        if not Path(file).exists():
            raise ValueError(f"{file}: there is no such file. {FOLDER_FIRST}")
        if not Path(file).is_file():
            raise ValueError(f"{file} is no regular file, and a corpus is read several times; write it to a file")
    return [str(Path(file).absolute()) for file in files]  # a run may be resumed from another folder


def named_language(file: str | Path, known: Container[str] = ()) -> str:
    """What a file's ending names: a code of two letters, as it stands or with a region, or one of `known`; else ""."""
    ending = Path(str(file).removesuffix(".gz")).suffix.removeprefix(".")
    return ending if ending in known or CODE.fullmatch(ending) else ""


def check_languages(files: Sequence[str | Path], source: str, target: str) -> None:
    """Raise ValueError for two files whose endings name other languages, or these two in the other order.

    A table in one file says nothing, nor does an ending that names no language, or a code beside a name such as German.
    """
    if len(files) != 2:
        return
    for file, own, other in zip(files, (source, target), (target, source), strict=True):
        said = named_language(file, (source, target))
        if said.lower() != own.lower() and (said == other or _are_two(said, own)):
            remedy = f"name the file of {source} first, then that of {target}; or give the file another ending"
            raise ValueError(f"{file} ends in {said}, and stands for {own} ({source} to {target}): {remedy}")


def _are_two(said: str, own: str) -> bool:
    """Whether two codes are of two languages; regions of one language are one."""
    codes = [re.split("[-_]", code.lower())[0] for code in (said, own) if CODE.fullmatch(code)]
    return len(codes) == 2 and codes[0] != codes[1]
