"""Packed translators: written, read, refused. (Folders of runs: test_cli.py.)"""

import random
import sys
import time
from dataclasses import replace

import pytest
import torch
from command_line import rewrite
from safetensors.torch import save_file

from transformer_lib import TrainingConfig, Transformer, TransformerConfig, average_checkpoints
from transformer_lib.data import WordTokenizer
from transformer_lib.data.tokenizers import SubwordTokenizer
from transformer_lib.training import adam
from transformer_lib.weight_files import read_file
from transformer_run import translation, translator
from transformer_run.checkpoints import load_checkpoint, save_checkpoint
from transformer_run.quantization import dequantize, quantize
from transformer_run.translator import Translator, run_checkpoints

SENTENCES = ["ein Haus", "zwei Haus ein", "zwei"]


@pytest.fixture
def small():
    tokenizer = WordTokenizer.train(SENTENCES)
    config = TransformerConfig(vocabulary_size=len(tokenizer), num_layers=1, d_model=8, d_ff=16, num_heads=2)
    return Translator(Transformer(config), tokenizer, tokenizer, "de", "en")


def test_a_packed_translator_reads_as_it_was_written(small, tmp_path):
    small.pack(tmp_path / "small")
    [file] = (tmp_path / "small").iterdir()
    assert file.name == "model.safetensors"
    read = Translator.load(tmp_path / "small")
    assert (read.source, read.target, read.model.config) == ("de", "en", small.model.config)
    assert read.source_tokenizer is read.target_tokenizer  # one for both, written once
    assert read_file(file).described["target_tokenizer"] is None
    assert Translator.load(file).described() == read.described()  # the file by itself
    expected = dequantize(quantize(small.model.state_dict()))
    assert all(torch.equal(weight, expected[name]) for name, weight in read.model.state_dict().items())
    small.model.load_state_dict(expected)
    assert read.translate(SENTENCES) == small.translate(SENTENCES)


def test_beam_and_alpha_reach_the_search(small, monkeypatch):
    seen = []

    monkeypatch.setattr(translation, "greedy_decode", lambda _model, source: seen.append("greedy") or source)
    monkeypatch.setattr(translation, "beam_search", lambda _model, source, *search: seen.append(search) or source)
    small.translate(["zwei"])
    small.translate(["zwei"], beam_size=3)
    small.translate(["zwei"], beam_size=3, alpha=1.4)
    small.score([("zwei", "zwei")], 5, "length")
    assert seen == ["greedy", (3, 0.6), (3, 1.4), (5, "length")]


@pytest.mark.parametrize("options", [{}, {"beam_size": 2, "n_best": 2}, {"progress": True}])
def test_sentences_may_come_from_a_generator(small, options):
    expected = small.translate(SENTENCES, **options)
    assert len(expected) == 3
    assert small.translate((sentence for sentence in SENTENCES), **options) == expected
    with pytest.raises(TypeError, match="brackets"):
        small.translate("zwei", **options)


def test_a_bar_is_drawn_only_where_it_is_asked_for(small, capsys):
    small.translate(SENTENCES)
    assert capsys.readouterr().err == ""
    small.translate(SENTENCES, progress=True)
    assert "translating" in capsys.readouterr().err


def test_without_tqdm_the_error_names_what_brings_it(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert len(small.translate(SENTENCES)) == len(SENTENCES)
    with pytest.raises(ImportError, match="tqdm"):
        small.translate(SENTENCES, progress=True)


def test_two_tokenizers_stay_two(small, tmp_path):
    small.target_tokenizer = WordTokenizer.train([*SENTENCES, "drei vier"])
    config = replace(small.model.config, vocabulary_size=9, source_vocabulary_size=7)
    replace(small, model=Transformer(config)).pack(tmp_path)
    read = Translator.load(tmp_path)
    assert [len(read.source_tokenizer), len(read.target_tokenizer)] == [7, 9]


@pytest.mark.parametrize("damage", ["other model", "no scales"])
def test_damaged_weights_are_refused(small, tmp_path, damage):
    def change(tensors):
        if damage == "other model":
            tensors["extra"] = torch.zeros(2)
        else:
            for name in [name for name in tensors if name.endswith("scale")]:
                del tensors[name]

    small.pack(tmp_path)
    rewrite(tmp_path / "model.safetensors", change)
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        Translator.load(tmp_path)


@pytest.mark.parametrize("header", [{}, {"checkpoint": '{"format":3}', "library": "transformer_lib"}])
def test_what_an_older_version_wrote_is_refused_in_a_line_that_says_what_to_do(small, tmp_path, header):
    path = tmp_path / "model.safetensors"
    save_file(small.model.state_dict(), path, header)
    read = [Translator.load, lambda p: load_checkpoint(p, small.model)]
    for reader in [*read, lambda p: average_checkpoints([p])][: 3 if header else 2]:  # of bare weights there is a mean
        with pytest.raises(ValueError, match="version.*train again") as caught:
            reader(path)
        assert "\n" not in str(caught.value)


# Seals: what was altered, or belongs elsewhere, is refused and named.


def save_run(small, folder, step_num=1):
    """A checkpoint in the folder of a run, as `train` leaves it."""
    path, optimizer = run_checkpoints(folder).path(step_num), adam(small.model, TrainingConfig())
    save_checkpoint(path, small.model, optimizer, step_num, 3.0, None, small.described())


def flips(path, number):
    """Alter the file by one bit, again and again; first in each name of its header, by which it is known."""
    content, generator = path.read_bytes(), random.Random(0)
    places = [content.index(name) + 1 for name in (b'"__metadata__"', b'"library"', b'"content"', b'"sha256"')]
    for place in [*places, *(generator.randrange(len(content)) for _ in range(number - len(places)))]:
        altered = bytearray(content)
        altered[place] ^= 1 << generator.randrange(8)
        path.write_bytes(altered)
        yield
    path.write_bytes(content)


@pytest.mark.parametrize("kind", ["packed", "a run's"])
def test_altered_bits_are_noticed_by_each_that_reads_the_file(small, tmp_path, kind):
    path, readers = tmp_path / "model.safetensors", [Translator.load, lambda path: average_checkpoints([path])]
    if kind == "packed":
        small.pack(tmp_path)
    else:
        save_run(small, tmp_path)
        path = run_checkpoints(tmp_path).path(1)
        readers.append(lambda path: load_checkpoint(path, small.model))
    for _ in flips(path, 120):
        for read in readers:
            with pytest.raises(ValueError, match=path.name):
                read(path)
    for read in readers:
        read(path)


def test_checkpoints_of_two_translators_have_no_mean(small, tmp_path):
    other = WordTokenizer.train([sentence[::-1] for sentence in SENTENCES])  # as many words, so the config is the same
    save_run(small, tmp_path, 1)
    save_run(replace(small, source_tokenizer=other, target_tokenizer=other), tmp_path, 2)
    assert Translator.load(tmp_path, checkpoint="best").described() == small.described()
    assert Translator.load(tmp_path, checkpoint="latest").source_tokenizer.to_json() == other.to_json()
    with pytest.raises(ValueError, match=r"step-000001.*step-000002"):
        Translator.load(tmp_path, checkpoint="average")


def test_a_checkpoint_without_tokenizers_is_no_translator(small, tmp_path):
    save_checkpoint(tmp_path / "step", small.model, adam(small.model, TrainingConfig()), 1)
    with pytest.raises(ValueError, match=r"step .*without source, target, source_tokenizer"):
        Translator.load(tmp_path / "step")


# Whoever seals a folder can write anything into it; nothing of it may hang, fill the memory or end the process.


SIZES = "num_layers num_decoder_layers d_model d_ff num_heads d_k d_v vocabulary_size max_positions".split()


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_refused_before_anything_is_allocated(small, tmp_path, size):
    small.pack(tmp_path)
    learned = {"positions": "learned"} if size == "max_positions" else {}
    path = tmp_path / "model.safetensors"
    rewrite(path, config=small.described()["config"] | learned | {size: 10**9})
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        Translator.load(tmp_path)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": 5}, ""),
        ({"config": {"d_modle": 8}}, "d_modle"),
        ({"source_tokenizer": 5}, ""),
        ({"source_tokenizer": {"kind": "letters"}}, "letters"),
        ({"source_tokenizer": {"kind": "words", "vocabulary": []}}, "<pad>"),
        ({"target_tokenizer": {"kind": "words"}}, ""),
        (
            {"target_tokenizer": WordTokenizer.train(SENTENCES).to_json() | {"language": "..cli.download"}},
            "cli.download",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_description_of_something_else_is_refused(small, tmp_path, changes, message):
    small.pack(tmp_path)
    rewrite(tmp_path / "model.safetensors", **changes)
    with pytest.raises(ValueError, match=rf"model\.safetensors.*{message}"):
        Translator.load(tmp_path)


@pytest.mark.parametrize("odd", [3, None, ["ein"], {"a": 1}])
@pytest.mark.usefixtures("unchecked")
def test_tokens_are_text(small, tmp_path, odd):
    small.source_tokenizer.vocabulary.tokens[-1] = odd
    small.pack(tmp_path)
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        Translator.load(tmp_path)


PADDING = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
PADDING |= {"pad_type_id": 0, "pad_token": "<pad>"}
LIMIT = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 5}
REPLACE = {"type": "Replace", "content": " "}


@pytest.mark.parametrize(
    "changes",
    [
        {"padding": PADDING},
        {"truncation": LIMIT},
        {"normalizer": REPLACE | {"pattern": {"Regex": "((a*)*)*$"}}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        {"model": {"type": "WordLevel", "vocab": {"a": 4}, "unk_token": "a"}},
        {"model": 5},
    ],
)
def test_subword_rules_that_harm_are_refused(tmp_path, changes):
    pytest.importorskip("tokenizers")
    tokenizer = SubwordTokenizer.train(["a b c d aa ab abc"] * 3, 14)
    config = TransformerConfig(vocabulary_size=14, num_layers=1, d_model=8, d_ff=16, num_heads=2)
    Translator(Transformer(config), tokenizer, tokenizer, "de", "en").pack(tmp_path)
    Translator.load(tmp_path)
    saved = tokenizer.to_json()
    rewrite(tmp_path / "model.safetensors", source_tokenizer=saved | {"model": saved["model"] | changes})
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        Translator.load(tmp_path)


def test_a_reference_is_compared_as_the_tokenizer_would_write_it(small, monkeypatch):
    tokenizer = WordTokenizer.train(SENTENCES, lowercase=True)
    small.source_tokenizer = small.target_tokenizer = tokenizer
    monkeypatch.setattr(translator, "translate", lambda *_, **__: ["zwei haus ein ein"])
    scores = small.score([("zwei", "Zwei  Haus ein ein ")])
    assert (scores.exact_match, round(scores.bleu.score)) == (1.0, 100)
