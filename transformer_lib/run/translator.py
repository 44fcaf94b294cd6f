"""A trained translator: its model, its tokenizers and its direction, in the folder of a run or packed into a small one.

    a run's folder                      a packed folder
        translator.json                     translator.json     config, tokenizers, direction
        training.json                       model.safetensors   the weights in 8 bits
        metrics.jsonl
        checkpoints/step-000160/ ...

Reading either runs no code.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ..config import TransformerConfig, check_choice, config_from_dict
from ..data.tokenizers import Tokenizer, load_tokenizer
from ..decoding import Alpha, translate
from ..evaluation import Bleu, bleu, exact_match, import_sacrebleu
from ..transformer import Transformer
from .checkpoints import MODEL, RunCheckpoints, average_checkpoints, load_checkpoint, write_file
from .quantization import dequantize, quantize

# Which weights of a run are used: the newest, those of the lowest validation perplexity, or the mean of the newest few.
Weights = Literal["latest", "best", "average"]
# When a run validates and writes a checkpoint, how many it keeps, and after how many in vain it stops.
SCHEDULE: dict[str, Any] = {"validate_every": 200, "keep_last": 5, "patience": None}
PRETRAINED = Path(__file__).parents[1] / "pretrained"  # the packed translators that come with the package


@dataclass
class Translator:
    """A model, its two tokenizers and its direction."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source: str
    target: str

    def save(self, folder: Path) -> None:
        """Write everything but the weights, which the checkpoints hold."""
        folder.mkdir(parents=True, exist_ok=True)
        shared = self.target_tokenizer is self.source_tokenizer
        described = {
            "source": self.source,
            "target": self.target,
            "model": asdict(self.model.config),
            "source_tokenizer": self.source_tokenizer.to_json(),
            "target_tokenizer": None if shared else self.target_tokenizer.to_json(),
        }
        write_file(folder / "translator.json", json.dumps(described, ensure_ascii=False, separators=(",", ":")))

    def pack(self, folder: Path) -> None:
        """Write everything, the weights in 8 bits: a quarter of their size, and close to what they were."""
        self.save(folder)
        save_file(quantize(self.model.state_dict()), folder / MODEL)
        shutil.copymode(folder / "translator.json", folder / MODEL)  # safetensors makes files for their owner alone

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu", checkpoint: Weights = "latest") -> "Translator":
        """Read the folder of a run, a packed folder, or by its name a translator that comes with the package.

        Args:
            folder: such as "translator", or one of `pretrained_names()`.
            checkpoint: of a run; a packed folder has one set of weights.

        Raises:
            FileNotFoundError: there is no translator.
            ValueError: the folder is truncated, altered or of another program; or an unknown checkpoint.
        """
        check_choice(Weights, checkpoint=checkpoint)
        folder = find_folder(folder)
        translator = cls.untrained(folder, device)
        if (folder / MODEL).exists():
            translator.model.load_state_dict(_packed_weights(folder / MODEL, translator.model.state_dict()))
            return translator
        checkpoints = run_checkpoints(folder)
        load_checkpoint(checkpoints.best() if checkpoint == "best" else checkpoints.latest(), translator.model)
        if checkpoint == "average":
            translator.model.load_state_dict(average_checkpoints(checkpoints.last()))
        return translator

    @classmethod
    def untrained(cls, folder: Path, device: str = "cpu") -> "Translator":
        """Read everything but the weights, which are as new. Raises as load does."""
        path = folder / "translator.json"
        if not path.exists():
            names = ", ".join(pretrained_names())
            remedy = f"run `train` first, or name one that comes with the package: {names}"
            raise FileNotFoundError(f"{folder} holds no trained translator: {path.name} is missing; {remedy}")
        described = read_json(path)
        try:
            config = config_from_dict(TransformerConfig, described["model"])
            source_tokenizer = target_tokenizer = load_tokenizer(described["source_tokenizer"])
            if described["target_tokenizer"] is not None:
                target_tokenizer = load_tokenizer(described["target_tokenizer"])
            direction = described["source"], described["target"]
        except ImportError:
            raise
        except Exception as error:  # the tokenizers library raises bare exceptions
            raise ValueError(f"{path} is altered or no translator of this library: {error!r}") from error
        return cls(Transformer(config).to(device), source_tokenizer, target_tokenizer, *direction)

    def encode(self, pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Both sides of each pair as ids."""
        return [(self.source_tokenizer.encode(s), self.target_tokenizer.encode(t)) for s, t in pairs]

    def translate(
        self, sentences: list[str], progress: bool = False, beam_size: int = 1, alpha: Alpha = 0.6
    ) -> list[str]:
        """One translation for each sentence, in the same order; beam_size 1 decodes greedily.

        Args:
            alpha: of the beam's length penalty; "length" divides a score by the number of tokens.
        """
        tokenizers = self.source_tokenizer, self.target_tokenizer
        done = translate(self.model, sentences, *tokenizers, beam_size=beam_size, alpha=alpha)
        translations = dict(progress_bar(done, len(sentences), "translating") if progress else done)
        return [translations[i] for i in range(len(sentences))]

    def score(self, pairs: list[tuple[str, str]], beam_size: int = 1, alpha: Alpha = 0.6) -> "Scores":
        """Translate the sources and compare with the targets, as far as the tokenizer keeps them.

        Args:
            beam_size, alpha: as translate has them.
        """
        import_sacrebleu()  # before the long work
        tokenizer = self.target_tokenizer
        sources = [source for source, _ in pairs]
        hypotheses = self.translate(sources, True, beam_size, alpha)
        references = [tokenizer.normalize(target) for _, target in pairs]
        score = bleu(hypotheses, references, tokenizer.lowercase, tokenizer.bleu_tokenization)
        return Scores(score, exact_match(hypotheses, references), hypotheses)


class Scores(NamedTuple):
    """What a translator reached on one split."""

    bleu: Bleu
    exact_match: float
    hypotheses: list[str]


def pretrained_names() -> list[str]:
    """The translators that come with the package, such as "tatoeba_de_en": German to English."""
    return sorted(path.parent.name for path in PRETRAINED.glob("*/translator.json"))


def find_folder(folder: Path | str) -> Path:
    """The folder itself; or, if there is none and the package brings a translator of this name, that one's."""
    folder = Path(folder)
    return PRETRAINED / folder if not folder.exists() and str(folder) in pretrained_names() else folder


def run_checkpoints(folder: Path, schedule: dict[str, Any] | None = None) -> RunCheckpoints:
    """The checkpoints in the folder of a run, with the schedule that stands in it unless another is given."""
    if schedule is None and (folder / "training.json").exists():
        schedule = read_json(folder / "training.json").get("schedule")
    return RunCheckpoints(folder / "checkpoints", (schedule or SCHEDULE)["keep_last"])


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ValueError if there is anything else in it."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is truncated or altered: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is altered: it should hold an object, not {content!r:.40}")
    return content


def progress_bar(steps: Iterable[Any], total: int, verb: str, done: int = 0, shown: bool = True) -> Any:
    """The steps, with a bar on standard error: how many are done, how many a second, the time left."""
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("a progress bar needs tqdm: pip install 'executable-transformer[text]'") from error
    return tqdm(steps, total=total, desc=verb, initial=done, mininterval=1.0, disable=not shown)


def _packed_weights(path: Path, expected: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    try:
        weights = dequantize(load_file(path))
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is truncated, altered or of another program: {error}") from error
    found, wanted = ({name: tuple(w.shape) for name, w in state.items()} for state in (weights, expected))
    if found != wanted:
        names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        raise ValueError(f"{path} is of another model than its translator.json: {', '.join(names[:3])} differ")
    return weights
