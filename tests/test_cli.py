import io
import json
import subprocess
import sys
from functools import partial

import pytest

from transformer_lib import cli
from transformer_lib.data import corpora
from transformer_lib.data.number_words import number_pairs

SMALL = ["--model", "d_model=16", "d_ff=16", "num_layers=1", "num_heads=2", "d_k=8", "d_v=8"]
STEPS = ["--training", "batch_tokens=200", "warmup_steps=10"]
TRAIN = ["--data", "number_words", "--tokenizer", "space", "--source", "en", "--target", "de", "--device", "cpu"]


def run(*arguments):
    return cli.main([str(a) for a in arguments])


class Stdin:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)

    def isatty(self):
        return False


@pytest.fixture(scope="module", autouse=True)
def few_numbers():
    """A small corpus: reading 20,000 pairs in every run would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "number_pairs", partial(number_pairs, train_size=400, held_out=20))
        yield


@pytest.fixture(scope="module")
def translator(few_numbers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "numbers"
    assert run("train", folder, *TRAIN, *SMALL, *STEPS, "num_steps=6", "--validate-every", 3) == 0
    return folder


def test_training_writes_metrics_and_a_checkpoint(translator):
    lines = [json.loads(line) for line in (translator / "metrics.jsonl").read_text().splitlines()]
    assert [line["step_num"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["step_num"] for line in lines if "val_perplexity" in line] == [3, 6]
    files = {"translator.json", "training.json", "checkpoint.pt", "metrics.jsonl"}
    assert {p.name for p in translator.iterdir()} == files


def test_the_vocabulary_comes_from_the_training_pairs_alone(tmp_path, monkeypatch):
    words = {"train": "one two three", "val": "four", "test": "five"}
    monkeypatch.setattr(cli, "load_pairs", lambda _corpus, split, _source, _target: [(words[split], words[split])] * 9)
    assert run("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=1") == 0
    tokenizer = cli.Translator.load(tmp_path).source_tokenizer
    unknown = tokenizer.encode("five")
    assert tokenizer.encode("four") == unknown
    assert len({*tokenizer.encode("one two three"), *unknown}) == 4


def test_evaluation_says_how_it_decoded(translator, capsys, monkeypatch):
    monkeypatch.setattr(cli, "load_pairs", lambda *_: [("one", "eins"), ("two", "zwei")])
    for beam_size, words in ((1, "greedy"), (4, "beam 4")):
        assert run("evaluate", translator, "--split", "val", "--beam-size", beam_size, "--device", "cpu") == 0
        assert f"en to de, {words}\n" in capsys.readouterr().out
    assert run("evaluate", translator, "--beam-size", 0) == 2
    assert "beam_size = 0 must be an integer of at least 1" in capsys.readouterr().err


def test_a_resumed_run_goes_on_where_the_checkpoint_stands(translator):
    assert run("train", translator, *TRAIN, "--training", "num_steps=8", "--resume") == 0
    lines = [json.loads(line) for line in (translator / "metrics.jsonl").read_text().splitlines()]
    assert [line["step_num"] for line in lines] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_run_never_overwrites_another(translator, capsys):
    before = (translator / "checkpoint.pt").read_bytes()
    assert run("train", translator, *TRAIN, *SMALL) == 2
    assert "holds a trained translator; add --resume to go on, or name another folder" in capsys.readouterr().err
    assert (translator / "checkpoint.pt").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--training", "batch_tokens=300"], "batch_tokens = 300 (was 200)"),
        (["--model", "d_ff=99"], "d_ff = 99 (was 16)"),
        (["--source", "de", "--target", "en"], "source = 'de' (was 'en'), target = 'en' (was 'de')"),
        (["--data", "multi30k"], "data = 'multi30k' (was 'number_words')"),
        (["--tokenizer", "bpe"], "tokenizer = 'bpe' (was 'space')"),
    ],
)
def test_a_resumed_run_keeps_its_settings(translator, capsys, arguments, message):
    assert run("train", translator, "--resume", "--device", "cpu", *arguments) == 2
    assert f"{message}: a resumed run keeps its settings; only num_steps may change" in capsys.readouterr().err


def test_a_resumed_run_without_steps_left_says_so(translator, capsys):
    assert run("train", translator, "--resume", "--device", "cpu", "--training", "num_steps=2") == 2
    assert "num_steps = 2, but" in capsys.readouterr().err


def test_records_past_the_checkpoint_are_written_anew(tmp_path):
    assert run("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=4", "--validate-every", 2) == 0
    with (tmp_path / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step_num": 5}\n{"step_num": 6}\n')  # steps that no checkpoint kept
    assert run("train", tmp_path, *TRAIN, "--training", "num_steps=5", "--resume") == 0
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step_num"] for line in lines] == [1, 2, 3, 4, 5]
    assert "loss_nats_per_token" in lines[-1]


@pytest.mark.parametrize(
    ("steps", "message"),
    [(2, "stopped before the first checkpoint"), (4, "stopped at the checkpoint of step 3; --resume")],
)
def test_an_interrupt_says_what_is_kept(monkeypatch, capsys, tmp_path, steps, message):
    real = cli.train

    def interrupted(*arguments):
        for record in real(*arguments):
            yield record
            if record.step_num == steps:
                raise KeyboardInterrupt

    monkeypatch.setattr(cli, "train", interrupted)
    assert run("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=9", "--validate-every", 3) == 130
    assert message in capsys.readouterr().err
    assert (tmp_path / "checkpoint.pt").exists() == (steps > 3)


def test_the_seed_fixes_a_run(tmp_path):
    losses = []
    for name in ("one", "two"):
        assert run("train", tmp_path / name, *TRAIN, *SMALL, *STEPS, "num_steps=3", "seed=5") == 0
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss_nats_per_token"] for line in lines])
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("translator.json", b"", "translator.json is truncated or altered: Expecting value"),
        ("translator.json", b"{}", "translator.json is altered or no translator of this library: KeyError('model')"),
        ("translator.json", b"[]", "translator.json is altered: it should hold an object, not []"),
        ("translator.json", b'"\xff"', "translator.json is truncated or altered"),
        ("checkpoint.pt", b"PK", "checkpoint.pt is truncated, altered or no checkpoint of this library"),
    ],
)
def test_a_damaged_folder_is_refused(translator, tmp_path, capsys, name, content, message):
    for path in translator.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_bytes(content)
    assert run("translate", tmp_path, "--device", "cpu") == 2
    assert message in capsys.readouterr().err


def test_translate_gives_a_line_for_every_line(translator, monkeypatch, capsys):
    odd = "\ufeffforty seven\n\n   \nfünf 犬 🙂\r\n".encode() + b"\xff\xfe one\nlast " + b"one " * 1100
    monkeypatch.setattr(sys, "stdin", Stdin(odd))
    assert run("translate", translator, "--device", "cpu") == 0
    captured = capsys.readouterr()
    assert "line 6 has 1101 tokens; the first 1000 are read" in captured.err
    lines = captured.out.split("\n")
    assert len(lines) == 7
    assert lines[1] == lines[2] == lines[6] == ""
    assert "line 5 is not UTF-8" in captured.err
    assert "unreadable bytes are replaced" in captured.err


def test_evaluate_prints_scores_with_their_signature(translator, capsys, tmp_path):
    assert (
        run("evaluate", translator, "--data", "number_words", "--output", tmp_path / "out.txt", "--device", "cpu") == 0
    )
    out = capsys.readouterr().out
    assert "BLEU = " in out
    assert "on number_words test, en to de" in out
    assert "signature = nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:" in out
    assert "exact match = " in out
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "wmt99"], "error: unknown corpus 'wmt99'; known: number_words, multi30k"),
        (["--tokenizer", "char"], "error: unknown tokenizer 'char'; known: bpe, spacy, space"),
        (["--model", "num_head=4"], "error: unknown key 'num_head' for TransformerConfig; did you mean 'num_heads'?"),
        (["--training", "steps=4"], "error: unknown key 'steps' for TrainingConfig; did you mean 'num_steps'?"),
        (["--model", "d_model"], "error: 'd_model' is not a setting; write it as key=value"),
        (["--model", "vocabulary_size=500"], "error: vocabulary_size: fixed by the tokenizer; see --vocabulary-size"),
        (["--model", "p_drop=x"], "error: p_drop = 'x' must be at least 0 and less than 1"),
        (["--validate-every", "0"], "error: validate_every = 0 must be an integer of at least 1"),
        (["--vocabulary-size", "-1"], "error: vocabulary_size = -1 must be an integer of at least 1"),
        (["--threads", "-1"], "error: threads = -1 must be an integer of at least 1"),
        (["--device", "nonsense"], "error: device 'nonsense' cannot be used here"),
        (["--model", "norm_order=before"], "error: norm_order = 'before' is not one of 'post', 'pre'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_settings_end_with_one_clear_line(tmp_path, capsys, arguments, message):
    assert run("train", tmp_path / "new", *TRAIN, *arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(message)
    assert not (tmp_path / "new").exists()


def test_a_folder_without_a_translator_is_refused(tmp_path, capsys):
    assert run("translate", tmp_path) == 2
    assert "holds no trained translator: translator.json is missing; run `train` first" in capsys.readouterr().err


def test_help_names_the_commands():
    done = subprocess.run(
        [sys.executable, "-m", "transformer_lib", "--help"], capture_output=True, text=True, check=True
    )
    assert "train|translate|evaluate" in done.stdout


@pytest.mark.slow
def test_multi30k_trains_evaluates_and_translates(multi30k, tmp_path, capsys, monkeypatch):
    data = ["--data", "multi30k", "--device", "cpu"]
    settings = ["--vocabulary-size", 1000, *SMALL, "--training", "num_steps=3", "batch_tokens=500"]
    assert run("train", tmp_path, *data, *settings) == 0
    assert run("evaluate", tmp_path, "--device", "cpu", "--split", "val") == 0
    out = capsys.readouterr().out
    assert "tok:13a" in out
    assert "on multi30k val" in out
    monkeypatch.setattr(sys, "stdin", Stdin(b"Ein Hund.\nZwei Hunde.\n"))
    assert run("translate", tmp_path, "--device", "cpu") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.slow
def test_spacy_words_give_each_language_its_own_vocabulary(multi30k, tmp_path):
    settings = ["--tokenizer", "spacy", *SMALL, "--training", "num_steps=1", "batch_tokens=500"]
    assert run("train", tmp_path, "--data", "multi30k", "--device", "cpu", *settings) == 0
    saved = json.loads((tmp_path / "translator.json").read_text())
    assert saved["model"]["source_vocabulary_size"] != saved["model"]["vocabulary_size"]
