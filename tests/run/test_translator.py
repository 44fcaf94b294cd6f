"""Packed translators: written, read, refused. (Folders of runs: test_cli.py.)"""

import pytest
import torch
from safetensors.torch import load_file, save_file

from transformer_lib import Transformer, TransformerConfig
from transformer_lib.data import WordTokenizer
from transformer_lib.run import translator
from transformer_lib.run.quantization import dequantize, quantize
from transformer_lib.run.translator import Translator, pretrained_names, read_json

SENTENCES = ["ein Haus", "zwei Haus ein", "zwei"]


@pytest.fixture
def small():
    tokenizer = WordTokenizer.train(SENTENCES)
    config = TransformerConfig(vocabulary_size=len(tokenizer), num_layers=1, d_model=8, d_ff=16, num_heads=2)
    return Translator(Transformer(config), tokenizer, tokenizer, "de", "en")


def test_a_packed_translator_reads_as_it_was_written(small, tmp_path):
    small.pack(tmp_path / "small")
    assert sorted(path.name for path in (tmp_path / "small").iterdir()) == ["model.safetensors", "translator.json"]
    read = Translator.load(tmp_path / "small")
    assert (read.source, read.target, read.model.config) == ("de", "en", small.model.config)
    assert read.source_tokenizer is read.target_tokenizer  # one for both, written once
    assert read_json(tmp_path / "small" / "translator.json")["target_tokenizer"] is None
    expected = dequantize(quantize(small.model.state_dict()))
    assert all(torch.equal(weight, expected[name]) for name, weight in read.model.state_dict().items())
    small.model.load_state_dict(expected)
    assert read.translate(SENTENCES) == small.translate(SENTENCES)


def test_beam_and_alpha_reach_the_search(small, monkeypatch):
    seen = []

    def translate(_model, sentences, *_tokenizers, **search):
        seen.append(search)
        return enumerate(sentences)

    monkeypatch.setattr(translator, "translate", translate)
    small.translate(["zwei"])
    small.translate(["zwei"], beam_size=3, alpha=1.4)
    small.score([("zwei", "zwei")], 5, "length")
    assert [(s["beam_size"], s["alpha"]) for s in seen] == [(1, 0.6), (3, 1.4), (5, "length")]


def test_two_tokenizers_stay_two(small, tmp_path):
    small.target_tokenizer = WordTokenizer.train([*SENTENCES, "drei vier"])
    small.save(tmp_path)
    read = Translator.untrained(tmp_path)
    assert [len(read.source_tokenizer), len(read.target_tokenizer)] == [7, 9]


def test_a_name_stands_for_a_translator_of_the_package(small, tmp_path, monkeypatch):
    small.pack(tmp_path / "package" / "tiny_de_en")
    monkeypatch.setattr(translator, "PRETRAINED", tmp_path / "package")
    assert pretrained_names() == ["tiny_de_en"]
    assert Translator.load("tiny_de_en").translate(["zwei"]) == Translator.load(
        tmp_path / "package" / "tiny_de_en"
    ).translate(["zwei"])
    with pytest.raises(FileNotFoundError, match="tiny_fr holds no trained translator: .*name one .*: tiny_de_en"):
        Translator.load("tiny_fr")


@pytest.mark.parametrize("damage", ["cut", "foreign", "other model", "no scales"])
def test_damaged_weights_are_refused(small, tmp_path, damage):
    small.pack(tmp_path)
    path = tmp_path / "model.safetensors"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "foreign":
        path.write_bytes(b"PK\x03\x04 no weights")
    elif damage == "other model":
        save_file({name: tensor[:1].clone() for name, tensor in load_file(path).items()}, path)
    else:
        save_file({name: w for name, w in load_file(path).items() if not name.endswith("scale")}, path)
    with pytest.raises(ValueError, match=r"model\.safetensors is (truncated, altered|of another model)"):
        Translator.load(tmp_path)
