import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from command_line import SMALL, equal, files_of, metrics_of, raising, run, weights_of

from transformer_lib import average_checkpoints, decoding
from transformer_lib.data import corpora, make_batch
from transformer_lib.data.number_words import number_pairs
from transformer_lib.data.tokenizers import UNK_ID
from transformer_lib.evaluation import perplexity
from transformer_lib.weight_files import read_file
from transformer_run import Translator, cli, preparation, training_run
from transformer_run.checkpoints import PART, only_writer
from transformer_run.cli import run_config
from transformer_run.commands import evaluate
from transformer_run.settings import digest
from transformer_run.training_run import Run
from transformer_run.translator import progress_bar

STEPS = ["--training", "batch_tokens=200", "warmup_steps=10"]
TRAIN = ["--data", "number_words", "--tokenizer", "space", "--source", "en", "--target", "de"]


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


def settings_of(*given):
    """What `train` makes of these options."""
    return run_config(cli.parser().parse_args(["train", *map(str, given)]), resume=False)


def test_a_size_that_bounds_nothing_is_said(tmp_path):
    with pytest.warns(UserWarning, match="--vocabulary-size"):
        settings_of(tmp_path, "--vocabulary-size", 500)


def test_too_little_memory_on_the_device_names_the_settings(translator, monkeypatch, refused):
    monkeypatch.setattr(Translator, "load", raising(torch.OutOfMemoryError("Tried to allocate 2 GiB")))
    assert "2 GiB" in refused("translate", translator)


def test_training_writes_metrics_and_a_checkpoint(translator):
    lines = metrics_of(translator)
    assert [line["step_num"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["step_num"] for line in lines if "val_perplexity" in line] == [3, 6]
    files = {"training.json", "checkpoints", "metrics.jsonl", "encoded", ".lock"}
    assert {p.name for p in translator.iterdir()} == files
    paths = sorted((translator / "checkpoints").iterdir())
    assert [p.name for p in paths] == ["step-000003.safetensors", "step-000006.safetensors"]
    described = [read_file(path).described for path in paths]
    assert [d["val_perplexity"] for d in described] == [line["val_perplexity"] for line in lines[2::3]]


def test_the_vocabulary_comes_from_the_training_pairs_alone(tmp_path, monkeypatch):
    words = {"train": "one two three", "val": "four", "test": "five"}
    pairs = {split: [(text, text.upper())] * 9 for split, text in words.items()}
    monkeypatch.setattr(preparation, "load_pairs", lambda _corpus, split, *_: pairs[split])
    assert run("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=1") == 0
    tokenizer = Translator.load(tmp_path).source_tokenizer
    unknown = tokenizer.encode("five")
    assert tokenizer.encode("four") == unknown
    assert len({*tokenizer.encode("one two three"), *tokenizer.encode("ONE TWO THREE"), *unknown}) == 7


@pytest.mark.slow
def test_each_side_is_split_by_the_rules_of_its_own_language(tmp_path):
    assert run("train", tmp_path, *TRAIN, "--tokenizer", "spacy", *SMALL, *STEPS, "num_steps=1") == 0
    found = Translator.load(tmp_path)
    assert (found.source_tokenizer.language, found.target_tokenizer.language) == ("en", "de")
    assert found.model.config.source_vocabulary_size == len(found.source_tokenizer)
    assert found.source_tokenizer.encode("vierzig") == [UNK_ID]  # a vocabulary for each language


def test_a_run_is_validated_on_the_held_out_pairs(translator):
    found = Translator.load(translator)
    batch = make_batch(found.encode(corpora.load_pairs("number_words", "val", "en", "de")))
    expected = perplexity(found.model, [batch])
    assert metrics_of(translator)[-1]["val_perplexity"] == pytest.approx(expected, rel=1e-5)


def test_evaluation_says_how_it_decoded(translator, capsys, monkeypatch, refused, printed):
    monkeypatch.setattr(evaluate, "load_pairs", lambda *_: [("one", "eins"), ("two", "zwei")])
    for beam_size, words in ((1, "greedy"), (4, "beam 4, alpha 0.6")):
        said = printed("evaluate", translator, "--split", "val", "--beam-size", beam_size)
        assert f"on number_words val, en to de, {words}\n" in said
    out = printed("evaluate", translator, "--beam-size", 2, "--alpha", "length")
    assert "on number_words test, en to de, beam 2, alpha length\n" in out
    assert re.search(r"precisions = [\d./]+, brevity penalty [01]\.\d+, length ratio \d+\.\d+", out)
    for alpha in ("-1", "nan", "short", "500"):
        with pytest.raises(SystemExit):
            run("evaluate", translator, "--alpha", alpha)
        assert "--alpha" in capsys.readouterr().err
    for command in ("evaluate", "translate"):
        assert "--beam-size" in refused(command, translator, "--alpha", 1)
    assert "beam_size" in refused("evaluate", translator, "--beam-size", 0)
    assert "1024" in refused("translate", translator, "--beam-size", 1_000_000)


def test_a_run_never_overwrites_another_nor_a_packed_translator(translator, tmp_path, refused):
    (tmp_path / "model.safetensors").touch()
    for folder in (translator, tmp_path):
        before = files_of(folder)
        assert "--resume" in refused("train", folder, *TRAIN, *SMALL)
        assert files_of(folder) == before


def test_a_folder_has_one_writer(translator, tmp_path, refused):
    shutil.copytree(translator, tmp_path / "live")
    with only_writer(tmp_path / "live"), only_writer(tmp_path / "begun"):
        for folder, how in (("live", ["--resume"]), ("begun", TRAIN)):
            before = files_of(tmp_path / folder)
            assert str(tmp_path / folder) in refused("train", tmp_path / folder, *how)
            assert files_of(tmp_path / folder) == before
    assert not (tmp_path / "begun").exists()  # nothing was written there
    assert run("train", tmp_path / "live", "--resume") == 0


def test_control_characters_never_break_a_line(translator, monkeypatch, tmp_path, printed, stdin):
    monkeypatch.setattr("transformer_run.translator.translate", lambda *_, **__: ["a\nb\x1b[2Jc\u2028d\x85e\u2029f ü"])
    (tmp_path / "pairs.tsv").write_text("four\tvier\n", "utf-8")
    stdin(b"one\n")
    assert printed("translate", translator) == "a b [2Jc d e f ü\n"
    printed("evaluate", translator, "--data", tmp_path / "pairs.tsv", "--output", tmp_path / "out")
    assert (tmp_path / "out").read_text("utf-8") == "a b [2Jc d e f ü\n"


@pytest.mark.parametrize(
    ("command", "stream"), [("translate", "stdin"), ("translate", "stdout"), ("evaluate", "stdout")]
)
def test_a_closed_stream_is_a_clear_error(translator, monkeypatch, stdin, command, stream, refused):
    stdin(b"one\n")
    monkeypatch.setattr(sys, stream, None)
    assert "closed" in refused(command, translator)


@pytest.mark.posix
@pytest.mark.parametrize("name", ["metrics.jsonl", "training.json", "sha256", "source_ids.npy"])
def test_a_pipe_in_the_folder_of_a_run_is_not_waited_for(translator, tmp_path, capsys, name):
    """It is refused by name; among the encoded pairs it is written anew."""
    shutil.copytree(translator, tmp_path, dirs_exist_ok=True)
    [path] = tmp_path.rglob(name)
    path.unlink()
    os.mkfifo(path)
    is_made_anew = path.parent.name == "encoded"
    assert run("train", tmp_path, "--resume") == (0 if is_made_anew else 2)
    assert is_made_anew or name in capsys.readouterr().err
    assert files_of(tmp_path / "encoded") == files_of(translator / "encoded")


def test_a_folder_names_no_corpus_by_its_path(translator, tmp_path, refused):
    shutil.copytree(translator, tmp_path, dirs_exist_ok=True)
    settings = json.loads((tmp_path / "training.json").read_text("utf-8"))
    settings |= {"data": "../../etc/passwd"}
    own = {name: value for name, value in settings.items() if name not in ("format", "sha256")}
    (tmp_path / "training.json").write_text(json.dumps(settings | {"sha256": digest(own)}), "utf-8")
    assert "../../etc/passwd" in refused("evaluate", tmp_path)


def test_a_resumed_run_without_steps_left_says_so(translator, refused):
    assert "num_steps" in refused("train", translator, "--resume", "--training", "num_steps=2")
    before = files_of(translator)
    assert run("train", translator, "--resume") == 0  # killed at its very end, perhaps
    assert files_of(translator) == before


def test_resuming_falls_back_to_the_newest_intact_checkpoint(tmp_path, capsys):
    assert run("train", tmp_path / "whole", *TRAIN, *SMALL, *STEPS, "num_steps=5", "--validate-every", 1) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
    checkpoints = tmp_path / "damaged" / "checkpoints"
    (checkpoints / "step-000005.safetensors").write_bytes(b"")
    damaged = checkpoints / "step-000004.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    (checkpoints / f"step-000006.safetensors{PART}").mkdir()
    assert run("train", tmp_path / "damaged", "--resume") == 0
    said = capsys.readouterr().err
    assert all(f"step-00000{step}.safetensors" in said for step in (3, 4, 5))
    names = [f"step-00000{i}.safetensors" for i in (1, 2, 3, 4, 5)]
    assert {p.name for p in checkpoints.iterdir()} == {*names, f"{names[3]}.damaged", f"{names[4]}.damaged"}
    assert equal(weights_of(tmp_path / "whole"), weights_of(tmp_path / "damaged"))
    assert metrics_of(tmp_path / "whole", "seconds") == metrics_of(tmp_path / "damaged", "seconds")


def test_resuming_without_an_intact_checkpoint_changes_nothing(tmp_path, refused):
    assert run("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=2", "--validate-every", 1) == 0
    for path in (tmp_path / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    before = files_of(tmp_path)
    assert "step-000002" in refused("train", tmp_path, "--resume")
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("other", [["--model", "d_ff=8"], ["--source", "de", "--target", "en"]])
def test_a_run_goes_on_from_no_checkpoint_of_another(translator, tmp_path, other, refused):
    shutil.copytree(translator, tmp_path / "own")
    assert run("train", tmp_path / "other", *TRAIN, *SMALL, *other, *STEPS, "num_steps=1") == 0
    stray = tmp_path / "own" / "checkpoints" / "step-000099.safetensors"
    shutil.copy(tmp_path / "other" / "checkpoints" / "step-000001.safetensors", stray)
    before = files_of(tmp_path / "own")
    assert stray.name in refused("train", tmp_path / "own", "--resume", "--training", "num_steps=100")
    assert files_of(tmp_path / "own") == before


def scripted(monkeypatch, perplexities):
    """Validation gives these values, one at each step; the run goes on from the step of its model."""
    monkeypatch.setattr(training_run, "perplexity", lambda *_: perplexities.pop(0))


@pytest.mark.slow
def test_training_stops_when_validation_gets_no_better(tmp_path, monkeypatch, capsys):
    values = [9.0, 5.0, 7.0, 4.0, 4.0, 6.0, 5.0, 1.0]
    options = [*TRAIN, *SMALL, "--validate-every", 2, "--patience", 3]
    scripted(monkeypatch, values.copy())
    assert run("train", tmp_path / "whole", *options, *STEPS, "num_steps=100", "--keep-last", 2) == 0
    assert "4.0000" in capsys.readouterr().err
    kept = [f"step-0000{step}.safetensors" for step in ("08", 12, 14)]  # the best and the last two
    assert sorted(p.name for p in (tmp_path / "whole" / "checkpoints").iterdir()) == kept
    for stop in (2, 8, 12):  # the count goes on across a stop
        folder = tmp_path / str(stop)
        scripted(monkeypatch, values.copy())
        assert run("train", folder, *options, *STEPS, f"num_steps={stop}", "--keep-last", 2) == 0
        scripted(monkeypatch, values[stop // 2 :])
        assert run("train", folder, "--resume", "--training", "num_steps=100") == 0
        assert "4.0000" in capsys.readouterr().err
        assert sorted(p.name for p in (folder / "checkpoints").iterdir()) == kept
        assert equal(weights_of(folder), weights_of(tmp_path / "whole"))
        assert metrics_of(folder, "seconds") == metrics_of(tmp_path / "whole", "seconds")
    before = files_of(tmp_path / "whole")
    assert run("train", tmp_path / "whole", "--resume") == 0  # there is nothing left to do
    assert files_of(tmp_path / "whole") == before


@pytest.mark.usefixtures("unchecked")
def test_the_latest_the_best_or_the_average_is_used(tmp_path, monkeypatch, capsys, stdin):
    scripted(monkeypatch, [3.0, 9.0, 8.0, 7.0])
    options = [*TRAIN, *SMALL, *STEPS, "num_steps=4", "--validate-every", 1, "--keep-last", 2]
    assert run("train", tmp_path, *options) == 0
    paths = {i: tmp_path / "checkpoints" / f"step-00000{i}.safetensors" for i in (1, 3, 4)}
    assert set((tmp_path / "checkpoints").iterdir()) == set(paths.values())
    assert equal(weights_of(tmp_path), average_checkpoints([paths[4]]))
    assert equal(weights_of(tmp_path, "best"), average_checkpoints([paths[1]]))
    assert equal(weights_of(tmp_path, "average"), average_checkpoints([paths[3], paths[4]]))
    assert not equal(weights_of(tmp_path, "average"), weights_of(tmp_path))
    with pytest.raises(ValueError, match="worst"):
        Translator.load(tmp_path, checkpoint="worst")
    assert equal(Translator.load(tmp_path).model.state_dict(), weights_of(tmp_path, "best"))
    loaded = []
    real = Translator.load
    monkeypatch.setattr(Translator, "load", lambda *a: loaded.append(a[-1]) or real(*a))
    stdin(b"one\n")
    assert run("translate", tmp_path, "--checkpoint", "best") == 0
    assert "best checkpoint, step 1" in capsys.readouterr().err
    assert run("evaluate", tmp_path, "--checkpoint", "average") == 0
    assert "average of the last 2" in capsys.readouterr().err
    assert loaded == ["best", "average"]


@pytest.mark.slow
def test_a_process_that_torchrun_starts_again_goes_on_by_itself(tmp_path, monkeypatch):
    options = [*TRAIN, *SMALL, *STEPS, "num_steps=4", "--validate-every", 2]
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "monday")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert run("train", tmp_path / "whole", *options) == 0
    assert run("train", tmp_path / "whole", *options) == 2  # the first start is an ordinary one
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    with monkeypatch.context() as another:
        another.setenv("TORCHELASTIC_RUN_ID", "tuesday")  # which was refused, and is started again
        assert run("train", tmp_path / "whole", *options) == 2
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    (tmp_path / "again" / "checkpoints" / "step-000004.safetensors").unlink()
    assert run("train", tmp_path / "again", *options) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "anew")
    shutil.rmtree(tmp_path / "anew" / "checkpoints")  # it died before the first checkpoint
    assert run("train", tmp_path / "anew", *options) == 0
    for name in ("again", "anew"):
        assert equal(weights_of(tmp_path / name), weights_of(tmp_path / "whole"))
        assert metrics_of(tmp_path / name, "seconds") == metrics_of(tmp_path / "whole", "seconds")
    assert metrics_of(tmp_path / "again")[:2] == metrics_of(tmp_path / "whole")[:2]  # these seconds are the old ones


def test_the_bar_shows_loss_and_speed_and_of_minutes_the_step(tmp_path, capsys, monkeypatch):
    def at_once(*given):
        bar = progress_bar(*given)
        bar.delay = 0
        return bar

    monkeypatch.setattr(cli, "progress_bar", at_once)
    options = [*TRAIN, *SMALL, *STEPS, "num_steps=6", "--validate-every", 3]
    assert run("train", tmp_path / "steps", *options) == 0
    record, said = metrics_of(tmp_path / "steps")[-1], capsys.readouterr().err
    speed = f"{record['target_tokens'] / record['seconds']:,.0f}"
    loss, perplexity = (f"{record[name]:.3f}" for name in ("loss_nats_per_token", "val_perplexity"))
    assert f"loss={loss}, tokens/s={speed}, val_perplexity={perplexity}" in said
    assert run("train", tmp_path / "timed", *options, "--minutes", 8) == 0
    assert re.search(r"training: 00:\d\d of 8 min, step 6, loss=", capsys.readouterr().err)


def test_a_disk_that_takes_no_more_records_is_a_clear_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "fsync", raising(OSError(28, "No space left on device")))
    assert run("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=2") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"error: {tmp_path}")
    assert "No space left on device" in said


@pytest.mark.parametrize(
    ("steps", "what", "kept"),
    [
        (2, "step 3 .*loss", "no checkpoint"),
        (3, "step 3 .*perplexity", "no checkpoint"),  # the one to be validated
        (4, "step 5 .*loss", "step 3"),
    ],
)
def test_a_run_that_diverges_ends_with_the_step_and_what_is_kept(monkeypatch, tmp_path, steps, what, kept, refused):
    real = training_run.train

    def diverging(model, *arguments):
        for record in real(model, *arguments):
            if record.step_num == steps:
                with torch.no_grad():
                    model.embedding.weight.fill_(math.nan)  # as an update far too large leaves it
            yield record

    monkeypatch.setattr(training_run, "train", diverging)
    said = refused("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=9", "--validate-every", 3)
    assert re.search(rf"{what}.*{kept}", said), said
    assert re.search(r"at rate \d", said), said
    assert [*tmp_path.glob("checkpoints/*")] == [tmp_path / "checkpoints" / "step-000003.safetensors"] * (steps > 3)
    monkeypatch.undo()
    if steps > 3:
        assert run("train", tmp_path, "--resume") == 0


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_ends_a_translation_quietly():
    command = [sys.executable, "-m", "transformer_run", "translate", "number_words_en_de", "--device", "cpu"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*command, "--threads", "1"], **pipes) as process:
        process.stdin.write(b"one\n" * 5000)
        process.stdin.close()
        assert process.stdout.readline().startswith(b"ein")
        process.stdout.close()  # as `head -1` does
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_minutes_are_minutes(tmp_path, monkeypatch):
    step, done = torch.optim.Adam.step, []
    monkeypatch.setattr(torch.optim.Adam, "step", lambda *arguments: done.append(1) or step(*arguments))
    monkeypatch.setattr(time, "monotonic", lambda: 50.0 * len(done))  # seconds
    assert run("train", tmp_path, *TRAIN, *SMALL, *STEPS, "num_steps=9", "--minutes", 2) == 0
    assert [line["step_num"] for line in metrics_of(tmp_path)] == [1, 2, 3]


def test_the_seed_chooses_the_weights_that_a_run_starts_from(tmp_path):
    starts = []
    for seed in (1, 2, 1):
        settings = [*STEPS, "num_steps=1", "warmup_steps=1000000", f"seed={seed}"]  # the rate is next to 0
        folder = tmp_path / str(len(starts))
        assert run("train", folder, *TRAIN, *SMALL, *settings) == 0
        starts.append(weights_of(folder)["embedding.weight"])
    assert torch.equal(starts[0], starts[2])
    assert not torch.allclose(*starts[:2], atol=0.01)


def test_a_folder_without_checkpoints_or_with_unreadable_settings_is_refused(translator, tmp_path, refused):
    shutil.copytree(translator, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "checkpoints")
    assert "no trained translator" in refused("translate", tmp_path)
    (tmp_path / "training.json").write_text("[" * 200_000)
    assert "training.json" in refused("translate", tmp_path)


def test_a_command_must_be_named(capsys):
    with pytest.raises(SystemExit):
        cli.main([])
    assert "translate" in capsys.readouterr().err


def test_translate_gives_a_line_for_every_line(translator, capsys, monkeypatch, stdin):
    monkeypatch.setattr(decoding, "MAX_SOURCE_TOKENS", 10)  # a model this young goes on for as many tokens and 50
    odd = "\ufeffforty seven\n\n   \nfünf 犬 🙂\r\n".encode() + b"\xff\xfe one\nlast " + b"one " * 11
    stdin(odd)
    assert run("translate", translator) == 0
    captured = capsys.readouterr()
    assert re.search("last one.*12.* 10 ", captured.err)
    lines = captured.out.split("\n")
    assert len(lines) == 7
    assert lines[1] == lines[2] == lines[6] == ""
    assert "line 5" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "wmt99"], "wmt99"),
        (["--tokenizer", "char"], "char"),
        (["--model", "d_model"], "key=value"),
        (["--model", "vocabulary_size=500"], "--vocabulary-size"),
        (["--validate-every", "0"], "validate_every"),
        (["--resume"], ""),
        (["--minutes", "-1"], "minutes"),
        (["--vocabulary-size", "-1"], "vocabulary_size"),
        (["--threads", "-1"], "threads"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_settings_end_with_one_clear_line(tmp_path, capsys, arguments, message):
    assert run("train", tmp_path / "new", *TRAIN, *arguments) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert not (tmp_path / "new").exists()


def test_settings_given_twice_add_up_beside_a_named_model_and_the_corpus_chooses_its_tokenizer(tmp_path):
    given = ["--model", "num_layers=1", "small", "--model", "d_ff=32", "attention_bias=True", "--data", "multi30k"]
    found = settings_of(tmp_path, *given, "--training", "num_steps=7", "--training", "max_grad_norm=None", "r_drop=5")
    assert (found.data, found.tokenizer) == ("multi30k", "bpe")
    own = {"num_layers": 1, "d_ff": 32, "attention_bias": True}  # a field of one's own goes before the name's
    assert found.model == {"d_model": 256, "num_heads": 4, **own}
    assert (found.training.num_steps, found.training.max_grad_norm, found.r_drop) == (7, None, 5)


def test_hypotheses_take_the_place_of_nothing(tmp_path, refused):
    (tmp_path / "out.txt").write_text("mine")
    for output in (tmp_path, tmp_path / "out.txt", tmp_path / "nowhere" / "out.txt"):
        assert str(output) in refused("evaluate", "number_words_en_de", "--output", output)
    assert (tmp_path / "out.txt").read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full, as Linux has it")
def test_a_full_disk_is_an_error_message(translator, monkeypatch, refused):
    """The output waits in a buffer: the interpreter would find out at its exit."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert "No space left on device" in refused("evaluate", translator, "--split", "val")


def test_training_that_lost_the_reader_of_its_progress_does_not_look_finished(tmp_path, monkeypatch):
    discarded = []
    monkeypatch.setattr(Run, "open", raising(BrokenPipeError))
    monkeypatch.setattr(os, "dup2", lambda _, number: discarded.append(number))
    assert run("train", tmp_path) == 141
    assert discarded == [sys.stdout.fileno(), sys.stderr.fileno()]


def test_translations_are_utf_8_in_every_locale(stdin, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    stdin(b"five\n")
    assert run("translate", "number_words_en_de") == 0
    assert raw.getvalue().decode("utf-8") == "fünf\n"


def test_a_closed_standard_error_does_not_turn_output_into_warnings(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert run("evaluate", "number_words_en_de", "--data", "no such file") == 2
    sys.stderr.close()
    assert capsys.readouterr().out == ""
