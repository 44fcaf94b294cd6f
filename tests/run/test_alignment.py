"""A translator for users: saved as it is, several translations with scores, where it looked, word by word."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from IPython.core.formatters import DisplayFormatter

from transformer_lib import Transformer, beam_hypotheses, record_attention
from transformer_lib.data import load_pairs
from transformer_lib.data.tokenizers import train_tokenizer
from transformer_run import Translator
from transformer_run.alignment import word_alignment, word_numbers

GERMAN = "ein zwei drei fünf sechs neunzig hundert tausend".split()
SENTENCES = ["forty seven", "", "two thousand and six"]


def test_a_saved_translator_is_the_same_to_the_bit(numbers, tmp_path):
    torch.manual_seed(3)
    fresh = replace(numbers, model=Transformer(numbers.model.config))
    for kind in (str, Path):
        folder = tmp_path / kind.__name__
        fresh.save(kind(folder / "saved"))
        read = Translator.load(kind(folder / "saved"))
        assert all(torch.equal(w, read.model.state_dict()[name]) for name, w in fresh.model.state_dict().items())
        fresh.pack(kind(folder / "packed"))
        sizes = [(folder / name / "model.safetensors").stat().st_size for name in ("packed", "saved")]
        assert sizes[0] < sizes[1] / 2
    assert read.translate(SENTENCES) == fresh.translate(SENTENCES)


def test_the_folder_of_a_run_is_not_saved_over(numbers, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-000001.safetensors").touch()
    for write in (numbers.save, numbers.pack):
        with pytest.raises(ValueError, match="run"):
            write(tmp_path)
    assert not (tmp_path / "model.safetensors").exists()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_score_is_that_of_the_hypothesis(numbers, beam_size):
    texts = numbers.translate(SENTENCES, beam_size=beam_size)
    scored = numbers.translate(SENTENCES, beam_size=beam_size, return_scores=True)
    assert [translation.text for translation in scored] == texts
    assert scored[1] == ("", 0.0)
    source = torch.tensor([[*numbers.source_tokenizer.encode(SENTENCES[0]), numbers.model.config.eos_id]])
    [[best, *_]] = beam_hypotheses(numbers.model, source, beam_size, 0.6 if beam_size > 1 else 0.0)
    expected = best.log_probability / ((5 + len(best.tokens)) / 6) ** 0.6
    assert scored[0].score == pytest.approx(expected, rel=1e-4)


def test_several_translations_come_best_first(numbers):
    ranked = numbers.translate(SENTENCES, beam_size=4, n_best=3, return_scores=True)
    assert [len(found) for found in ranked] == [3, 1, 3]
    for found in ranked:
        assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    assert [found[0].text for found in ranked] == numbers.translate(SENTENCES, beam_size=4)
    assert numbers.translate(SENTENCES, beam_size=4, n_best=3) == [[t.text for t in found] for found in ranked]
    for n_best in (0, 5):
        with pytest.raises(ValueError, match="n_best"):
            numbers.translate(SENTENCES, beam_size=4, n_best=n_best)


@pytest.mark.slow
def test_of_equal_texts_the_best_is_kept():
    translator, line = Translator.load("tatoeba_de_en"), "Mein Vater ist Lehrer."
    [found] = translator.translate([line], beam_size=5, n_best=5, return_scores=True)
    source = torch.tensor([[*translator.source_tokenizer.encode(line), translator.model.config.eos_id]])
    [ranked] = beam_hypotheses(translator.model, source, 5)
    texts = [translator.target_tokenizer.decode(hypothesis.tokens) for hypothesis in ranked]
    assert len(set(texts)) < len(texts) == 5  # one text in different tokens
    assert [text for text, _ in found] == list(dict.fromkeys(texts))
    for text, score in found:
        assert score == pytest.approx(ranked[texts.index(text)].score, rel=1e-4)
    assert translator.translate([line], beam_size=5, n_best=2) == [list(dict.fromkeys(texts))[:2]]


def test_the_map_has_the_weights_of_the_forward_pass_beside_its_tokens(numbers):
    found = numbers.attention("forty seven")
    assert found.source == ["forty", "seven", "<eos>"]
    assert found.written == ["sieben", "und", "vierzig", "<eos>"]
    assert found.translation == "sieben und vierzig"
    ids = [numbers.target_tokenizer.encode(found.translation)]
    source = torch.tensor([[*numbers.source_tokenizer.encode("forty seven"), numbers.model.config.eos_id]])
    with torch.no_grad(), record_attention(numbers.model) as weights:
        numbers.model(source, torch.tensor([[numbers.model.config.bos_id, *ids[0]]]))
    assert found.weights.keys() == weights.keys()
    assert all(torch.allclose(weights[name][0], looked, atol=1e-6) for name, looked in found.weights.items())


def test_the_map_draws_itself(numbers):
    found = numbers.attention("forty seven")
    pytest.importorskip("altair")
    assert found.plot("encoder.0.self").to_dict()["data"]["values"]
    assert len(DisplayFormatter().format(found)[0]) > 1, "a notebook draws it"
    assert "\n" not in repr(found)
    with pytest.raises(ValueError, match=r"encoder\.9"):
        found.plot("encoder.9.self")
    with pytest.raises(ValueError, match="token"):
        numbers.attention("")


def test_pieces_of_a_word_are_added_up():
    looked = torch.tensor([[0.4, 0.3, 0.3], [0.1, 0.2, 0.7], [0.6, 0.2, 0.2]])
    assert word_alignment(looked, [0, 1, 1], [0, 1, 1]) == [(1, 0), (1, 1)]
    assert word_alignment(looked[:, :0], [], [0, 1, 1]) == []
    tokenizer = Translator.load("tatoeba_de_en").source_tokenizer
    ids = tokenizer.encode("Unwahrscheinlichkeiten kommen vor.")
    words = word_numbers(ids, tokenizer)
    assert len(ids) > 4
    assert sorted(set(words)) == [0, 1, 2]
    assert words == sorted(words)


def test_a_word_is_what_white_space_separates_in_the_text_of_the_tokens():
    spacy = train_tokenizer("spacy", ["Komm mit!"] * 2, "de", 0)
    assert word_numbers(spacy.encode("Komm mit!"), spacy) == [0, 1, 2]
    pieces = Translator.load("tatoeba_de_en").source_tokenizer
    for text in ("Ich \u200f komme\u00a0morgen.", "Ich komme morgen."):
        assert sorted(set(word_numbers(pieces.encode(text), pieces))) == [0, 1, 2]


@pytest.mark.usefixtures("unchecked")  # a check of shapes at each step would take most of the time
def test_words_of_numbers_are_aligned_with_their_translations(numbers):
    """Ninety-eight of a hundred when this was written, of words that have one right partner each."""
    partners = dict(zip(GERMAN, "one two three five six ninety hundred thousand".split(), strict=True))
    right, all_words = 0, 0
    sentences = [sentence for sentence, _ in load_pairs("number_words", "test", "en", "de")[:30]]
    for sentence, translation in zip(sentences, numbers.translate(sentences), strict=True):
        words, german = sentence.split(), translation.split()
        looked = [(words[i], german[j]) for i, j in numbers.attention(sentence).alignment if german[j] in partners]
        right += sum(partners[target] == source for source, target in looked)
        all_words += len(looked)
    assert right > 0.95 * all_words
