"""What a run makes of its texts before the first step. (Through the command line: test_cli.py, test_own_corpus.py.)"""

import pytest

from transformer_lib import Transformer, TransformerConfig
from transformer_lib.data import SubwordTokenizer
from transformer_lib.interop import to_marian
from transformer_run import Translator, preparation
from transformer_run.preparation import (
    ENCODED,
    EncodedPairs,
    check_token_counts,
    encode_once,
    heads,
    lacking,
    new_translator,
    read_corpus,
)
from transformer_run.settings import RunConfig


def test_a_run_takes_the_arrays_of_its_folder_and_makes_damaged_ones_anew(tmp_path, monkeypatch):
    pairs = [(f"mot {i}", f"slovo {i % 7}") for i in range(60)]
    monkeypatch.setattr(preparation, "load_pairs", lambda _corpus, split, *_: pairs[:50] if split == "train" else pairs)
    small = {"d_model": 8, "d_ff": 8, "num_layers": 1}
    config = RunConfig(tokenizer="space", model=small)
    corpus = read_corpus(config)
    translator = new_translator(config, corpus)
    expected = translator.encode(pairs[:50])
    encoded = []
    write = EncodedPairs.write
    monkeypatch.setattr(EncodedPairs, "write", lambda *arguments: encoded.append(1) or write(*arguments))

    def times_encoded():
        encoded.clear()
        assert list(encode_once(tmp_path, translator, corpus)) == expected
        return len(encoded)

    assert [times_encoded(), times_encoded()] == [1, 0]
    path = tmp_path / ENCODED / "source_ids.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    assert [times_encoded(), times_encoded()] == [1, 0]
    (tmp_path / ENCODED / "sha256").write_text("{")
    assert [times_encoded(), times_encoded()] == [1, 0]
    translator.source = "another"  # the arrays are those of the one before
    assert times_encoded() == 1
    (tmp_path / "mine" / ENCODED).mkdir(parents=True)
    (tmp_path / "mine" / ENCODED / "chapter").write_text("unique")
    with pytest.raises(ValueError, match=ENCODED):
        encode_once(tmp_path / "mine", translator, corpus)
    assert (tmp_path / "mine" / ENCODED / "chapter").read_text() == "unique"


def test_ids_take_the_bytes_that_the_larger_vocabulary_needs(tmp_path, monkeypatch):
    pairs = [(f"mot{i}", f"slovo{i % 3}") for i in range(300)] * 2  # 300 words on one side, 3 on the other
    monkeypatch.setattr(preparation, "load_pairs", lambda *_: pairs)
    small = {"d_model": 8, "d_ff": 8, "num_layers": 1}
    config = RunConfig(tokenizer="spacy", source="en", target="de", model=small)
    corpus = read_corpus(config)
    translator = new_translator(config, corpus)
    assert list(encode_once(tmp_path, translator, corpus)) == translator.encode(pairs)


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (TransformerConfig(vocabulary_size=9), "batch_tokens"),
        (TransformerConfig(vocabulary_size=9, positions="learned", max_positions=4), "max_positions"),
    ],
)
def test_a_pair_that_is_too_long_is_shown_before_the_first_step(config, limit):
    pairs, ids = [("a b", "x"), ("c d e f g", "y")], [([4, 5], [6]), ([4] * 5, [6])]
    check_token_counts("validation", pairs[:1], ids[:1], config, batch_tokens=3)  # two and <bos> or <eos>
    with pytest.raises(ValueError, match=f"'c d e f g'.*{limit}"):
        check_token_counts("validation", pairs, ids, config, 5)


def test_the_share_of_characters_that_the_vocabulary_lacks_is_counted_by_hand():
    tokenizer = SubwordTokenizer.train(["ab ba", "aab"], None)
    config = TransformerConfig(vocabulary_size=len(tokenizer), d_model=8, d_ff=8, num_layers=1)
    translator = Translator(Transformer(config), tokenizer, tokenizer, "x", "y")
    known, unknown = [("ab", "ba aab")], [("aé b", "龍龍"), ("a", "é")]
    assert list(lacking("training", known, translator.encode(known), translator)) == []
    [said] = lacking("validation", unknown, translator.encode(unknown), translator)
    assert "4 of 7 characters (57.14%) of the validation texts" in said
    assert "'é' (2), '龍' (1)" in said


@pytest.mark.parametrize(
    ("sizes", "fitting"),
    [
        ({"d_model": 128, "num_heads": 4}, "d_k=32 d_v=32"),
        ({"d_model": 256, "num_heads": 4, "d_v": 32}, "d_k=64 d_v=64"),
        ({"d_model": 100, "num_heads": 8}, "num_heads"),
        ({"d_model": 256, "num_heads": 4}, None),
    ],
)
def test_heads_are_said_and_what_marian_needs_before_the_training_and_at_the_export(sizes, fitting):
    config = TransformerConfig(vocabulary_size=9, num_layers=1, d_ff=8, **sizes)
    width, *needs = heads(config, True)
    assert f"{config.num_heads} heads of " in width
    assert f" in a model of {config.d_model}" in width
    assert [fitting in need for need in needs] == [True] * (fitting is not None)
    assert list(heads(config, False)) == [width]
    if fitting:
        with pytest.raises(ValueError, match=f"Marian has .*{fitting}"):
            to_marian(Transformer(config))
