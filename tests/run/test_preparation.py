"""What a run makes of its texts before the first step. (Through the command line: test_cli.py, test_own_corpus.py.)"""

import pytest

from transformer_lib import TransformerConfig
from transformer_lib.data.encoded_pairs import EncodedPairs
from transformer_run import preparation
from transformer_run.preparation import ENCODED, check_token_counts, encode_once, new_translator, read_corpus
from transformer_run.run_config import RunConfig


def test_a_run_takes_the_arrays_of_its_folder_and_makes_damaged_ones_anew(tmp_path, monkeypatch):
    pairs = [(f"mot {i}", f"slovo {i % 7}") for i in range(60)]
    monkeypatch.setattr(preparation, "load_pairs", lambda _corpus, split, *_: pairs[:50] if split == "train" else pairs)
    small = {"d_model": 8, "d_ff": 8, "num_layers": 1}
    config = RunConfig(tokenizer="space", model=small)
    corpus = read_corpus(config)
    translator = new_translator(config, corpus)
    translator.describe(tmp_path)
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
    (tmp_path / ENCODED / "seal.json").write_text("{")
    assert [times_encoded(), times_encoded()] == [1, 0]
    translator.source = "another"
    translator.describe(tmp_path)  # of another translator.json
    assert times_encoded() == 1


def test_ids_take_the_bytes_that_the_larger_vocabulary_needs(tmp_path, monkeypatch):
    pairs = [(f"mot{i}", f"slovo{i % 3}") for i in range(300)] * 2  # 300 words on one side, 3 on the other
    monkeypatch.setattr(preparation, "load_pairs", lambda *_: pairs)
    small = {"d_model": 8, "d_ff": 8, "num_layers": 1}
    config = RunConfig(tokenizer="spacy", source="en", target="de", model=small)
    corpus = read_corpus(config)
    translator = new_translator(config, corpus)
    translator.describe(tmp_path)
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
