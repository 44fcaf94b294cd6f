import pytest
import torch

from transformer_lib import Transformer, TransformerConfig
from transformer_lib.data import WordTokenizer
from transformer_lib.decoding import longest_source
from transformer_run import translation
from transformer_run.translation import translate


def model(**changes):
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 13, "num_heads": 2, "d_k": 3, "d_v": 5}
    m = Transformer(TransformerConfig(**sizes, **changes)).double()
    for p in m.parameters():
        p.data += 0.5 * torch.randn_like(p)
    return m


@pytest.mark.parametrize(("beam_size", "together"), [(16, 3), (512, 2), (1024, 1)])
def test_the_larger_the_beam_the_fewer_sentences_are_translated_together(beam_size, together, monkeypatch):
    seen = []
    monkeypatch.setattr(translation, "beam_search", lambda _model, source, *_: seen.append(len(source)) or source)
    m, tokenizer = model(vocabulary_size=13), WordTokenizer.train(["a b c d e f g h i"])
    translate(m, ["a b", "a", "b"], tokenizer, tokenizer, beam_size=beam_size)
    assert max(seen) == together


def test_translate_gives_every_line_its_own_answer():
    tokenizer = WordTokenizer.train(["a b c d e f g"])
    m = model(vocabulary_size=len(tokenizer))
    lines = ["a", "", "b c d", "   ", "g f e d c b a", "zzz"]
    answers = translate(m, lines, tokenizer, tokenizer, batch_size=2)
    assert len(answers) == 6
    assert answers[1] == answers[3] == ""
    for i, line in enumerate(lines):
        assert translate(m, [line], tokenizer, tokenizer) == [answers[i]]


@pytest.mark.parametrize(("max_positions", "limit"), [(None, 1000), (6, 5), (2000, 1000)])
def test_translate_reads_as_much_of_a_line_as_the_model_can(monkeypatch, max_positions, limit):
    widths = []
    monkeypatch.setattr(translation, "greedy_decode", lambda _model, source: widths.append(source.size(1)) or source)
    tokenizer = WordTokenizer.train(["a b c"])
    learned = {"positions": "learned", "max_positions": max_positions} if max_positions else {}
    m = model(vocabulary_size=len(tokenizer), **learned)
    with pytest.warns(UserWarning, match=f"1500.* {limit} "):
        translate(m, [" ".join("a" * 1500)], tokenizer, tokenizer)
    assert (longest_source(m.config), widths) == (limit, [limit + 1])  # and <eos>
