"""Ten thousand odd lines go into `translate`; as many come out. (A zero byte ends it: test_translate.py.)"""

import random
import subprocess
import sys

import pytest

from transformer_run import cli

LINES = 10_000
SCRIPTS = ["abc xyz", "äöü ß ÄÖ", "абв где", "αβγ", "مرحبا", "שלום", "漢字かな", "한국어", "हिन्दी", "ไทย"]
SCRIPTS += ["🙂👩\u200d👩\u200d👧🇩🇪", "e\u0301a\u0308"]
ODD = ["\x07", "\x1b[31m", "\t", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\u200b", "\u202e", "\ufeff"]
WORDS = ["forty", "seven", "hundred", "<eos>", "<pad>", "<unk>", "▁", "-1e9", "%s", "{}", "\\n", "'", '"', "﷽"]


def odd_line(rng):
    """One line of bytes, without the byte that ends a line."""
    kind = rng.randrange(12)
    if kind == 0:
        return b""
    if kind == 1:
        return (" " * rng.randrange(1, 9)).encode()
    if kind == 2:
        return bytes(rng.choice([b for b in range(1, 256) if b != 10]) for _ in range(rng.randrange(1, 40)))
    if kind == 3:  # half a character
        return "forty 🙂".encode()[: -rng.randrange(1, 4)]
    pieces = [rng.choice(rng.choice([SCRIPTS, ODD, WORDS])) for _ in range(rng.randrange(1, 12))]
    return rng.choice(["", " "]).join(pieces).encode()


def odd_lines():
    rng = random.Random(7)
    lines = [odd_line(rng) for _ in range(LINES - 4)]
    lines += [b"x" * 10_000, "ß".encode() * 10_000, b"one " * 3000, b" ".join([b"\xf0\x9f\x99\x82"] * 1500)]
    rng.shuffle(lines)
    return lines


@pytest.mark.deep
@pytest.mark.parametrize(
    ("tokenizer", "extra"), [("space", []), ("bpe", ["--vocabulary-size", "60"]), ("spacy", [])], ids=str
)
def test_ten_thousand_odd_lines_give_ten_thousand_lines(tmp_path, tokenizer, extra):
    small = ["--model", "d_model=8", "d_ff=8", "num_layers=1", "num_heads=1", "d_k=8", "d_v=8"]
    # A few steps at a high rate teach the model to end: otherwise every line would run to its limit.
    steps = ["--training", "num_steps=60", "batch_tokens=400", "warmup_steps=20"]
    run = ["train", str(tmp_path / "t"), "--data", "number_words", "--tokenizer", tokenizer, *extra, *small, *steps]
    machine = ["--device", "cpu", "--threads", "1"]
    assert cli.main([*run, *machine]) == 0
    lines = odd_lines()
    command = [sys.executable, "-m", "transformer_run", "translate", tmp_path / "t", *machine]
    done = subprocess.run(command, input=b"\n".join(lines) + b"\n", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    translations = done.stdout.decode("utf-8").split("\n")
    assert translations.pop() == ""
    assert len(translations) == LINES == len(lines)
    for line, translation in zip(lines, translations, strict=True):
        if not line.strip():
            assert translation == ""
