"""The command line: train a translator, translate lines with it, evaluate it."""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch

from .config import TrainingConfig, TransformerConfig, config_from_dict
from .data.batches import token_batches
from .data.corpora import CORPORA, load_pairs
from .data.tokenizers import Tokenizer, load_tokenizer, train_tokenizer
from .decoding import translate
from .evaluation import Bleu, bleu, exact_match, perplexity
from .training import adam, load_checkpoint, passes, save_checkpoint, train
from .transformer import Transformer, count_parameters


@dataclass
class Translator:
    """A model, its two tokenizers and its direction: what a folder written by `train` holds."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source: str
    target: str

    def save(self, folder: Path) -> None:
        """Write everything but the weights, which the checkpoint holds."""
        folder.mkdir(parents=True, exist_ok=True)
        described = {
            "source": self.source,
            "target": self.target,
            "model": asdict(self.model.config),
            "source_tokenizer": self.source_tokenizer.to_json(),
            "target_tokenizer": self.target_tokenizer.to_json(),
        }
        (folder / "translator.json").write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> "Translator":
        """Read a folder written by `train`. Raises FileNotFoundError or ValueError if it is not one."""
        path = folder / "translator.json"
        if not path.exists():
            raise FileNotFoundError(f"{folder} holds no trained translator: {path.name} is missing; run `train` first")
        described = json.loads(path.read_text(encoding="utf-8"))
        model = Transformer(config_from_dict(TransformerConfig, described["model"])).to(device)
        load_checkpoint(folder / "checkpoint.pt", model)
        source_tokenizer, target_tokenizer = (
            load_tokenizer(described[f"{side}_tokenizer"]) for side in ("source", "target")
        )
        return cls(model, source_tokenizer, target_tokenizer, described["source"], described["target"])

    def encode(self, pairs: list[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Both sides of each pair as ids."""
        return [(self.source_tokenizer.encode(s), self.target_tokenizer.encode(t)) for s, t in pairs]

    def translate(self, sentences: list[str], progress: bool = False) -> list[str]:
        """One translation for each sentence, in the same order."""
        done = translate(self.model, sentences, self.source_tokenizer, self.target_tokenizer)
        translations = dict(_progress(done, len(sentences), "translating") if progress else done)
        return [translations[i] for i in range(len(sentences))]

    def score(self, pairs: list[tuple[str, str]]) -> "Scores":
        """Translate the sources and compare with the targets, as far as the tokenizer keeps them."""
        hypotheses = self.translate([source for source, _ in pairs], progress=True)
        references = [self.target_tokenizer.normalize(target) for _, target in pairs]
        tokenization = self.target_tokenizer.bleu_tokenization
        return Scores(
            bleu(hypotheses, references, tokenize=tokenization), exact_match(hypotheses, references), hypotheses
        )


class Scores(NamedTuple):
    """What a translator reached on one split."""

    bleu: Bleu
    exact_match: float
    hypotheses: list[str]


def new_translator(args: argparse.Namespace, pairs: list[tuple[str, str]]) -> Translator:
    """An untrained translator with tokenizers made from the training pairs."""
    sides = [[side for side, _ in pairs], [side for _, side in pairs]]
    sizes: dict[str, int] = {}
    if args.tokenizer == "spacy":  # words of two languages: two vocabularies
        tokenizers = [
            train_tokenizer("spacy", s, lang, 0) for s, lang in zip(sides, (args.source, args.target), strict=True)
        ]
        sizes["source_vocabulary_size"] = len(tokenizers[0])
    else:
        tokenizers = [train_tokenizer(args.tokenizer, sides[0] + sides[1], None, args.vocabulary_size)] * 2
    config = config_from_dict(
        TransformerConfig, sizes | {"vocabulary_size": len(tokenizers[1])} | _settings(args.model)
    )
    return Translator(Transformer(config).to(args.device), tokenizers[0], tokenizers[1], args.source, args.target)


def run_train(args: argparse.Namespace) -> None:
    """Train on a corpus and write the translator, its checkpoint and its metrics into a folder."""
    folder, checkpoint = args.translator, args.translator / "checkpoint.pt"
    config = _resumed_settings(args) if args.resume else _new_settings(args)
    pairs, held_out = (load_pairs(args.data, split, args.source, args.target) for split in ("train", "val"))
    torch.manual_seed(config.seed)
    translator = Translator.load(folder, args.device) if args.resume else new_translator(args, pairs)
    optimizer = adam(translator.model, config)
    steps_done = load_checkpoint(checkpoint, translator.model, optimizer) if args.resume else 0
    translator.save(folder)
    (folder / "training.json").write_text(json.dumps(asdict(config)), encoding="utf-8")
    size = f"{len(pairs)} pairs, {count_parameters(translator.model)} parameters"
    print(f"{size}, {args.device}, {steps_done} steps done", file=sys.stderr)
    train_ids, val_ids = translator.encode(pairs), translator.encode(held_out)
    records = train(translator.model, optimizer, passes(train_ids, config), config, steps_done)
    stop_at = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
    bar = _progress(records, config.num_steps, "training", steps_done)
    with _metrics(folder / "metrics.jsonl", steps_done) as metrics:
        for record in bar:
            line: dict[str, Any] = asdict(record)
            last = record.step_num == config.num_steps or time.monotonic() > stop_at
            if last or record.step_num % args.validate_every == 0:
                line["val_perplexity"] = perplexity(translator.model, token_batches(val_ids, config.batch_tokens))
                save_checkpoint(checkpoint, translator.model, optimizer, record.step_num)
                bar.set_postfix(loss=record.loss_nats_per_token, val_perplexity=line["val_perplexity"])
            metrics.write(json.dumps(line) + "\n")
            metrics.flush()
            if last:
                break


def _new_settings(args: argparse.Namespace) -> TrainingConfig:
    if (args.translator / "checkpoint.pt").exists():
        raise ValueError(f"{args.translator} holds a trained translator; add --resume to go on, or name another folder")
    return config_from_dict(TrainingConfig, {"num_steps": 2000, "batch_tokens": 4000} | _settings(args.training))


def _resumed_settings(args: argparse.Namespace) -> TrainingConfig:
    saved, path = {}, args.translator / "training.json"
    if path.exists():
        saved = json.loads(path.read_text(encoding="utf-8"))
    given = _settings(args.training)
    changed = [key for key in given if key in saved and key != "num_steps" and given[key] != saved[key]]
    if args.model or changed:
        what = ", ".join([*args.model, *changed])
        raise ValueError(f"{what}: a resumed run keeps its settings; only num_steps may change")
    return config_from_dict(TrainingConfig, saved | given)


def _metrics(path: Path, steps_done: int) -> TextIO:
    """The file of records, cut back to the steps that the checkpoint has behind it, to be written on."""
    kept = path.read_text(encoding="utf-8").splitlines(keepends=True)[:steps_done] if path.exists() else []
    path.write_text("".join(kept), encoding="utf-8")
    return path.open("a", encoding="utf-8")


def run_evaluate(args: argparse.Namespace) -> None:
    """Translate a held-out split and print the scores with their signature."""
    translator = Translator.load(args.translator, args.device)
    scores = translator.score(load_pairs(args.data, args.split, translator.source, translator.target))
    print(f"BLEU = {scores.bleu.score:.2f} on {args.data} {args.split}, {translator.source} to {translator.target}")
    print(f"signature = {scores.bleu.signature}")
    print(f"exact match = {100 * scores.exact_match:.1f} %")
    if args.output:
        args.output.write_text("".join(f"{line}\n" for line in scores.hypotheses), encoding="utf-8")


def run_translate(args: argparse.Namespace) -> None:
    """Translate standard input to standard output: a line in, a line out."""
    translator = Translator.load(args.translator, args.device)
    lines = _lines(sys.stdin.buffer)
    size = 1 if sys.stdin.isatty() else 1000  # at a terminal the answer comes at once
    while chunk := list(itertools.islice(lines, size)):
        for translation in translator.translate(chunk):
            print(translation, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, or 2 after an error message."""
    args = _parser().parse_args(arguments)
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        args.run(args)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the last checkpoint stands", file=sys.stderr)
        return 130
    return 0


def _lines(stream: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            print(f"line {number} is not UTF-8 ({error}); unreadable bytes are replaced", file=sys.stderr)
            yield line.decode("utf-8", errors="replace").strip()


def _settings(assignments: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"{assignment!r} is not a setting; write it as key=value")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value  # a word, such as norm_order=pre
    return settings


def _progress(steps: Iterable[Any], total: int, verb: str, done: int = 0) -> Any:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("the command line needs tqdm: pip install 'transformer-lib[text]'") from error
    return tqdm(steps, total=total, desc=verb, initial=done, mininterval=1.0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m transformer_lib", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="train|translate|evaluate")
    common = argparse.ArgumentParser(add_help=False)
    folder = Path("translator")
    common.add_argument("translator", type=Path, nargs="?", default=folder, help=f"its folder (default: {folder})")
    common.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    common.add_argument("--threads", type=int, help="CPU threads; default: torch's own choice")
    corpus = argparse.ArgumentParser(add_help=False)
    corpus.add_argument("--data", default="number_words", help=f"one of {', '.join(CORPORA)}")

    learn = commands.add_parser("train", parents=[common, corpus], help="train on a corpus and write the folder")
    learn.add_argument("--source", default="de", help="language to translate from (default: de)")
    learn.add_argument("--target", default="en", help="language to translate to (default: en)")
    learn.add_argument("--tokenizer", default="bpe", help="bpe, spacy or space (default: bpe)")
    learn.add_argument("--vocabulary-size", type=int, default=8000, help="of bpe, shared by both languages")
    learn.add_argument("--model", nargs="*", default=[], metavar="KEY=VALUE", help="fields of TransformerConfig")
    learn.add_argument("--training", nargs="*", default=[], metavar="KEY=VALUE", help="fields of TrainingConfig")
    learn.add_argument("--validate-every", type=int, default=200, metavar="STEPS", help="also saves the checkpoint")
    learn.add_argument("--minutes", type=float, help="stop after this long")
    learn.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint")
    learn.set_defaults(run=run_train)

    speak = commands.add_parser("translate", parents=[common], help="translate standard input, line by line")
    speak.set_defaults(run=run_translate)

    judge = commands.add_parser("evaluate", parents=[common, corpus], help="BLEU with its signature on a split")
    judge.add_argument("--split", default="test", help="such as test_2016_flickr of multi30k (default: test)")
    judge.add_argument("--output", type=Path, help="write the hypotheses to this file, one a line")
    judge.set_defaults(run=run_evaluate)
    return parser
