"""A trained translator: its model, its tokenizers and its direction, in one .safetensors file.

    a run's folder
        training.json                the settings of the run
        metrics.jsonl
        encoded/source_ids.npy ...   the ids of its training pairs
        checkpoints/step-000160.safetensors ...

    a saved or packed folder
        model.safetensors            packed: the weights in 8 bits or fewer

The header of either file is JSON and holds config, tokenizers, direction, a format and one digest of everything.
Reading runs no code; what was altered, or is of another version, is refused.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer_lib.config import TransformerConfig, check_choice, check_positive, config_from_dict
from transformer_lib.data.tokenizers import Tokenizer, load_tokenizer
from transformer_lib.decoding import PAPERS_ALPHA, Alpha, Hypothesis, hypothesis_attention
from transformer_lib.evaluation import Bleu, bleu, bleu_tokenization, exact_match
from transformer_lib.own_parts import check_weights_suffice
from transformer_lib.transformer import Transformer, count_parameters
from transformer_lib.weight_files import Content, average_checkpoints, damaged, differing, read_file

from .alignment import AttentionMap, word_alignment, word_numbers
from .checkpoints import CHECKPOINTS, RunCheckpoints, WhichWeights, save_tensors
from .quantization import dequantize, quantize
from .settings import RUN_CONFIG, RunConfig
from .translation import hypotheses, source_ids, translate

MODEL = "model.safetensors"  # the file in a folder
OF_A_TRANSLATOR = ("config", "source", "target", "source_tokenizer", "target_tokenizer")  # in the header of its file
PRETRAINED = Path(__file__).parent / "pretrained"  # the packed translators that come with the package


class Translation(NamedTuple):
    """A translation, and how good the model holds it to be."""

    text: str
    score: float  # log-probability in nats, divided by the length penalty; 0 of an empty sentence


@dataclass(repr=False)
class Translator:
    """A model, its two tokenizers and its direction."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source: str
    target: str
    weights: str = ""  # which of a run were loaded

    def __repr__(self) -> str:
        sizes = f"{count_parameters(self.model):,} parameters, {len(self.target_tokenizer):,} tokens"
        return f"Translator({self.source} → {self.target}, {sizes})"

    def described(self) -> dict[str, Any]:
        """All but the weights, as the header of a file has it."""
        shared = self.target_tokenizer is self.source_tokenizer
        return {
            "config": asdict(self.model.config),
            "source": self.source,
            "target": self.target,
            "source_tokenizer": self.source_tokenizer.to_json(),
            "target_tokenizer": None if shared else self.target_tokenizer.to_json(),
        }

    def save(self, folder: Path | str) -> None:
        """Write everything into a folder, the weights as they are; `load` gives the same translator.

        Raises:
            ValueError: the folder is that of a run; or the model has parts of your own.
        """
        self._write(Path(folder), self._weights())

    def pack(self, folder: Path | str, bits: int = 8) -> None:
        """Write everything, the weights in 8 bits or fewer: a quarter of their size, and close to what they were.

        Raises ValueError as save does.
        """
        self._write(Path(folder), quantize(self._weights(), bits))

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.cpu().contiguous().clone() for name, weight in self.model.state_dict().items()}

    def _write(self, folder: Path, weights: dict[str, Tensor]) -> None:
        check_weights_suffice(self.model)
        if RunCheckpoints(folder / CHECKPOINTS).paths():
            raise ValueError(f"{folder} is the folder of a run; name another one")
        save_tensors(folder / MODEL, self.described(), weights)

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu", checkpoint: WhichWeights | None = None) -> "Translator":
        """Read a saved folder, that of a run, one file, or by its name a translator that comes with the package.

        Args:
            folder: such as "translator", or one of `pretrained_names()`.
            checkpoint: of a run; None: the best, or the latest of a run that was never validated. Step 0 may be the
                best: the translator that `train --from` began with. Elsewhere there is one set of weights.

        Raises:
            FileNotFoundError: there is no translator.
            ValueError: a file is truncated, altered, of another version or of another program; checkpoints of
                different translators have no mean; or an unknown checkpoint.
        """
        if checkpoint is not None:
            check_choice(WhichWeights, checkpoint=checkpoint)
        folder = find_folder(folder)
        paths, which = [model_file(folder)], ""
        if not paths[0].exists():
            checkpoints = run_checkpoints(folder)
            if not checkpoints.paths():
                remedy = f"run `train` first, or name one that comes with the package: {', '.join(pretrained_names())}"
                raise FileNotFoundError(f"{folder} holds no trained translator; {remedy}")
            paths, which = checkpoints.chosen(checkpoint)
        translator = _read(paths)
        translator.weights = which
        translator.model.to(device).eval()
        return translator

    def encode(self, pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Both sides of each pair as ids."""
        return [(self.source_tokenizer.encode(s), self.target_tokenizer.encode(t)) for s, t in pairs]

    def translate(
        self,
        sentences: Iterable[str],
        progress: bool = False,
        beam_size: int = 1,
        alpha: Alpha = PAPERS_ALPHA,
        n_best: int | None = None,
        return_scores: bool = False,
    ) -> list[Any]:
        """One translation for each sentence, in the same order; beam_size 1 decodes greedily.

        Args:
            alpha: of the beam's length penalty; "length" divides a score by the number of tokens.
            n_best: a list of so many texts for each sentence, no two alike, best first, in place of one; at most
                beam_size. A search that found fewer gives fewer.
            return_scores: a Translation, which is (text, score), in place of each text.

        Raises:
            TypeError: one string in place of a list, or a sentence that is none.
            ValueError: an n_best larger than beam_size, or a value out of range.
        """
        check_n_best(n_best, beam_size)
        sentences = sentences if isinstance(sentences, str) else list(sentences)
        bar = partial(progress_bar, total=len(sentences), verb="translating") if progress else iter
        options: dict[str, Any] = {"beam_size": beam_size, "alpha": alpha, "shown": bar}
        if n_best is None and not return_scores:
            return translate(self.model, sentences, self.source_tokenizer, self.target_tokenizer, **options)
        found = hypotheses(self.model, sentences, self.source_tokenizer, **options)
        ranked = [self._texts(ranked)[: n_best or 1] or [Translation("", 0.0)] for ranked in found]
        kept = ranked if return_scores else [[translation.text for translation in found] for found in ranked]
        return kept if n_best else [found[0] for found in kept]

    def _texts(self, ranked: list[Hypothesis]) -> list[Translation]:
        """Their texts; of hypotheses that are one text in different tokens the first."""
        scores: dict[str, float] = {}
        for hypothesis in ranked:
            scores.setdefault(self.target_tokenizer.decode(hypothesis.tokens), hypothesis.score)
        return [Translation(*text) for text in scores.items()]

    def attention(self, sentence: str, beam_size: int = 1, alpha: Alpha = PAPERS_ALPHA) -> AttentionMap:
        """Translate one sentence and record where every head looked; in a notebook the map draws itself.

        A word of its alignment is what white space separates in the text that the tokens stand for. That text is
        normalized: a mark that is not seen is no word. The tokenizer spacy keeps its tokens apart, so each is a word:
        "Komm mit!" has three.

        Raises:
            ValueError: a sentence without any token.
        """
        [found] = hypotheses(self.model, [sentence], self.source_tokenizer, beam_size, alpha)
        if not found:
            raise ValueError(f"sentence = {sentence!r} has no token to look at")
        [read] = source_ids(self.model, [sentence], self.source_tokenizer)
        config, chosen = self.model.config, found[0].tokens
        source = torch.tensor([[*read, config.eos_id]], device=next(self.model.parameters()).device)
        weights = {name: w[0] for name, w in hypothesis_attention(self.model, source, chosen).items()}
        words = [token for token in chosen if token != config.eos_id]
        sides = word_numbers(read, self.source_tokenizer), word_numbers(words, self.target_tokenizer)
        looked = weights[f"decoder.{config.decoder_layers - 1}.cross"].mean(dim=0)
        return AttentionMap(
            sentence,
            self.target_tokenizer.decode(chosen),
            found[0].score,
            self.source_tokenizer.tokens(source[0].tolist()),
            self.target_tokenizer.tokens(chosen),
            weights,
            word_alignment(looked[: len(words), : len(read)], *sides),
        )

    def score(
        self,
        pairs: list[tuple[str, str]],
        beam_size: int = 1,
        alpha: Alpha = PAPERS_ALPHA,
        tokenization: str | None = None,
        engine: Any = None,
    ) -> "Scores":
        """Translate the sources and compare with the targets, as far as the tokenizer keeps them.

        Args:
            beam_size, alpha: as translate has them.
            tokenization: sacreBLEU's; None: as the script of the targets needs it, or the tokenizer.
            engine: what translates, such as `Engine(translator, int8=True)`; None: this translator, with a bar.
        """
        tokenizer = self.target_tokenizer
        references = [tokenizer.normalize(target) for _, target in pairs]
        if tokenization is None and (tokenization := bleu_tokenization(references)) == "13a":
            tokenization = tokenizer.bleu_tokenization
        bleu(["a"], ["a"], tokenize=tokenization)  # what it refuses, it refuses before the long work
        translated = engine.translate if engine else partial(self.translate, progress=True)
        hypotheses = translated([source for source, _ in pairs], beam_size=beam_size, alpha=alpha)
        score = bleu(hypotheses, references, tokenizer.lowercase, tokenization)
        return Scores(score, exact_match(hypotheses, references), hypotheses, references)


class Scores(NamedTuple):
    """What a translator reached on one split."""

    bleu: Bleu
    exact_match: float
    hypotheses: list[str]
    references: list[str]  # as the tokenizer keeps them


def check_n_best(n_best: int | None, beam_size: int) -> None:
    """Raise ValueError for a number of translations that the beam cannot give."""
    if n_best is not None:
        check_positive(n_best=n_best)
        if n_best > beam_size:
            raise ValueError(f"n_best = {n_best} needs a beam_size (--beam-size) of {n_best} or more, not {beam_size}")


def pretrained_names() -> list[str]:
    """The translators that come with the package, such as "tatoeba_de_en": German to English."""
    return sorted(path.parent.name for path in PRETRAINED.glob(f"*/{MODEL}"))


def find_folder(folder: Path | str) -> Path:
    """The folder itself if it exists; otherwise the folder of the package's translator of this name, if it has one."""
    folder = Path(folder)
    return PRETRAINED / folder if not folder.exists() and str(folder) in pretrained_names() else folder


def model_file(folder: Path) -> Path:
    """The one file of a translator: in this folder, or the path itself."""
    return folder if folder.is_file() else folder / MODEL


def run_checkpoints(folder: Path, keep_last: int | None = None) -> RunCheckpoints:
    """The checkpoints in the folder of a run; it keeps as many as training.json says, unless a number is given."""
    if keep_last is None:
        keep_last = RunConfig.read(folder).keep_last if (folder / RUN_CONFIG).exists() else RunConfig.keep_last
    return RunCheckpoints(folder / CHECKPOINTS, keep_last)


def progress_bar(steps: Iterable[Any], total: int | None, verb: str, done: int = 0, shown: bool = True) -> Any:
    """The steps, with a bar on standard error: how many are done, how many a second, the time left.

    With a total of None it shows the number alone, and nothing at all of what takes less than a second.
    """
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("a progress bar needs tqdm: pip install tqdm") from error
    delay = 1.0 if total is None else 0.0
    return tqdm(steps, total=total, desc=verb, initial=done, mininterval=1.0, delay=delay, disable=not shown)


def _read(paths: list[Path]) -> Translator:
    """The translator in one file, or that of the mean of the weights in several."""
    found = [read_file(path, verified=len(paths) == 1) for path in paths]  # the mean verifies the files that it reads
    path, described = paths[-1], found[-1].described
    config, weights, source_tokenizer, target_tokenizer = _parts(path, found[-1])
    for other, its in zip(paths, found, strict=True):
        if any(its.described.get(key) != described[key] for key in OF_A_TRANSLATOR):
            raise ValueError(f"{other} and {path} are of different translators and have no common mean")
    total = sum(weight.numel() for weight in weights.values())
    if count_parameters(config) != total:  # before memory is taken
        raise damaged(path, f"it holds {total:,} weights, and its config has {count_parameters(config):,}")
    with torch.random.fork_rng([]):  # its first numbers are overwritten, and the caller's go on as before
        model = Transformer(config)
    if names := differing(weights, model.state_dict()):
        raise damaged(path, f"its {names} are of another model than its config")
    model.load_state_dict(weights if len(paths) == 1 else average_checkpoints(paths))
    return Translator(model, source_tokenizer, target_tokenizer, described["source"], described["target"])


def _parts(path: Path, found: Content) -> tuple[TransformerConfig, dict[str, Tensor], Tokenizer, Tokenizer]:
    """The config, the weights and the two tokenizers that a file holds. Raises ValueError if it holds no translator."""
    described = found.described
    try:
        if lacking := [key for key in OF_A_TRANSLATOR if key not in described]:
            raise ValueError(f"it is a checkpoint without {', '.join(lacking)}")
        config = config_from_dict(TransformerConfig, described["config"])
        sizes = config.source_vocabulary_size or config.vocabulary_size, config.vocabulary_size
        source = target = _tokenizer(described["source_tokenizer"], sizes[0])
        if described["target_tokenizer"] is not None:
            target = _tokenizer(described["target_tokenizer"], sizes[1])
        return config, dequantize(found.weights), source, target
    except (ImportError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the tokenizers library panics with exceptions that are no Exception
        raise damaged(path, repr(error)) from error


def _tokenizer(saved: dict[str, Any], size: int) -> Tokenizer:
    """A tokenizer of so many tokens. Raises ValueError for one that could end the process or never end."""
    rules = saved.get("model", {})
    text = json.dumps(rules | {"model": None})
    if rules.get("padding") or rules.get("truncation") or text.count('"Regex"') != text.count(r'"Regex": "\\s+"'):
        raise ValueError("its tokenizer pads, truncates or has patterns that this library does not write")
    tokenizer = load_tokenizer(saved)
    if len(tokenizer) != size:
        raise ValueError(f"its tokenizer has {len(tokenizer)} tokens, its model {size}")
    if not all(isinstance(token, str) for token in tokenizer.tokens(range(size))):
        raise ValueError("its tokenizer has tokens that are no text")
    tokenizer.encode("a")  # some rules fail here first
    return tokenizer
