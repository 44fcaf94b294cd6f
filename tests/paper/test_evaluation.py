import math
import random
import sys
from importlib.util import find_spec

import pytest
import torch

from transformer_lib import Transformer, TransformerConfig, evaluation, reference
from transformer_lib.data import make_batch
from transformer_lib.evaluation import bleu, bleu_tokenization, chrf, exact_match, perplexity

TINY = TransformerConfig(vocabulary_size=13, num_layers=1, d_model=8, d_ff=11, num_heads=2, d_k=4, d_v=4, p_drop=0.5)


def test_a_score_comes_with_its_parts():
    found = bleu(["a b c d"], ["a b c d e"], tokenize="none")
    assert found.precisions == (100.0,) * 4
    assert found.brevity_penalty == pytest.approx(math.exp(1 - 5 / 4))
    assert found.length_ratio == pytest.approx(4 / 5)
    assert found.score == pytest.approx(100 * found.brevity_penalty)
    assert bleu(["a b c d e f"], ["a b c d e"], tokenize="none").brevity_penalty == 1


def test_bleu_equals_the_formula_worked_by_hand():
    # Matching n-grams: 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples; equal lengths, no penalty.
    score, *_ = bleu(["the cat sat on a mat"], ["the cat sat on the mat"], tokenize="none")
    assert score == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_bleu_equals_the_loops(seed):
    generator = random.Random(seed)

    def words(fewest, most):
        return generator.choices("abcd", k=generator.randint(fewest, most))

    references = [words(1, 12) for _ in range(20)]
    hypotheses = []
    for sentence in references:
        kept = [word for word in sentence if generator.random() > 0.1]
        hypotheses.append(kept + words(0, 3))
    said = [" ".join(sentence) for sentence in hypotheses]
    wanted = [" ".join(sentence) for sentence in references]
    score, *_ = bleu(said, wanted, tokenize="none")
    assert 0 < score < 100
    expected = reference.bleu(hypotheses, references)
    assert score == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("references", "package", "expected"),
    [
        (["The cat sat.", "Кошка сидела.", "القط جلس"], "", ["13a"]),
        (["阿尔巴尼亚", "台灣 (Taiwan)"], "", ["zh"]),
        (["猫がマットの上に座った。", "東京都"], "MeCab", ["ja-mecab", "char"]),
        (["東" * 10 + "あ"], "MeCab", ["zh"]),  # a Chinese text with a Japanese sign
        (["고양이가 앉았다."], "mecab_ko", ["ko-mecab", "char"]),
        (["ประเทศไทย", "ລາວ", "កម្ពុជា"], "", ["char"]),
        (["− … 7"], "", ["13a"]),
        ([], "", ["13a"]),
    ],
)
def test_the_tokenization_is_that_of_the_references_script(monkeypatch, references, package, expected):
    for name, is_there in zip(expected, (True, False), strict=False):
        monkeypatch.setattr(evaluation, "find_spec", lambda found, there=is_there: (there and found == package) or None)
        assert bleu_tokenization(references) == name


@pytest.mark.parametrize("name", ["no-such", *(["ja-mecab"] if find_spec("MeCab") is None else [])])
def test_a_tokenization_that_sacrebleu_lacks_is_refused(name):
    with pytest.raises(ValueError, match=name):
        bleu(["a"], ["a"], tokenize=name)


def test_case_and_tokenization_move_the_score():
    hypotheses, references = ["the Cat sat on the mat ."], ["The cat sat on the mat."]
    plain = bleu(hypotheses, references)
    assert bleu(hypotheses, references, lowercase=True).score > plain.score
    assert bleu(hypotheses, references, tokenize="none").score < plain.score
    assert "case:lc" in bleu(hypotheses, references, lowercase=True).signature
    assert "tok:none" in bleu(hypotheses, references, tokenize="none").signature


def test_chrf_equals_the_formula_worked_by_hand():
    # "abc" against "abcd", for n = 1 to 3 (of n = 4 the hypothesis has none): precision 1, recall 3/4, 2/3, 1/2.
    # Each n has F2 = 5 P R / (4 P + R); sacreBLEU takes the mean of P and of R first.
    precision, recall = 1.0, (3 / 4 + 2 / 3 + 1 / 2) / 3
    score, signature = chrf(["abc"], ["abcd"])
    assert score == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall), rel=1e-6)
    assert signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    assert chrf(["a b c"], ["abc"]).score == 100  # blanks do not count
    assert "|case:mixed|" in signature
    assert "|case:lc|" in chrf(["abc"], ["ABC"], lowercase=True).signature
    assert chrf(["abc"], ["ABC"], lowercase=True).score == 100


def test_exact_match_is_the_fraction_of_equal_lines():
    assert exact_match(["a", "b", "c ", "d"], ["a", "b", "c", "D"]) == 0.5


def test_perplexity_is_exp_of_the_mean_cross_entropy_over_all_real_tokens():
    model = Transformer(TINY).train()
    pairs = [([3, 4], [5]), ([3], [6, 7, 8, 9]), ([10, 11, 12], [5, 5])]
    nats, tokens = 0.0, 0
    model.eval()
    for source, target in pairs:  # one sentence at a time, so no padding is in the way
        logits = model(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]))[0].double().tolist()
        for row, answer in zip(logits, [*target, 2], strict=True):
            nats -= math.log(math.exp(row[answer]) / sum(math.exp(z) for z in row))
            tokens += 1
    model.train()
    batches = [make_batch(pairs[:2]), make_batch(pairs[2:])]
    assert perplexity(model, batches) == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    assert model.training


# By 1e5: logits tens of thousands of nats apart.
@pytest.mark.parametrize(("factor", "expected"), [(1e5, math.inf), (math.nan, math.nan)])
def test_the_perplexity_of_a_model_past_all_measure_is_no_finite_number(factor, expected):
    model = Transformer(TINY)
    with torch.no_grad():
        model.embedding.weight *= factor
    assert perplexity(model, [make_batch([([3], [4, 7])])]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
def test_unequal_or_no_sentences_are_refused(score):
    with pytest.raises(ValueError, match="references"):
        score(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="sentences"):
        score([], [])
    with pytest.raises(ValueError, match="references"):
        bleu(["a"], [""])  # without a word
    with pytest.raises(ValueError, match="batches"):
        perplexity(Transformer(TINY), [])


def test_without_sacrebleu_the_message_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match="sacrebleu"):
        bleu(["a"], ["a"])
