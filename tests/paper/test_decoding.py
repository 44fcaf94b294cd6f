import inspect

import numpy as np
import pytest
import torch
from tiny_models import ATTENTIONS, SOURCE, TINY, VARIANTS, model

from transformer_lib import beam_search, greedy_decode, record_attention, reference
from transformer_lib.cache import DecoderCache, start_decoding
from transformer_lib.decoding import beam_hypotheses, hypothesis_attention, length_penalty


def likely_to_end(m):
    """The same model with less to choose between its tokens, <eos> among them: some candidates end early."""
    last = m.decoder.norm if m.config.has_final_norm else m.decoder.layers[-1].feed_forward_norm.norm
    with torch.no_grad():
        last.weight *= 0.3
        last.bias *= 0.3
    return m


@pytest.mark.paper("decode")
@pytest.mark.parametrize("seed", range(5))
def test_greedy_decoding_equals_the_loops(seed):
    torch.manual_seed(seed)
    m = model()
    weights = {name: w.numpy() for name, w in m.state_dict().items()}
    generated = greedy_decode(m, SOURCE, max_length=6).tolist()
    for source, ours in zip(SOURCE.tolist(), generated, strict=True):

        def after(tokens, source=source):  # logits: the largest is the likeliest
            return reference.transformer(weights, TINY.num_heads, source, tokens, pad_id=0)[-1]

        _, expected = reference.greedy_search(after, bos_id=1, eos_id=2, pad_id=0, limit=6)
        assert ours[: len(expected)] == expected
        assert set(ours[len(expected) :]) <= {0}


def step_log_probabilities(m, row):
    """What the model says of each next token, without a cache and for one sentence alone."""
    source = SOURCE[row][SOURCE[row] != 0][None]
    memory = m.eval().encode(source)

    def after(tokens):
        return m.decode(torch.tensor([tokens]), memory, source)[0, -1].log_softmax(-1).tolist()

    return after


@pytest.mark.paper("decode")
@pytest.mark.parametrize(
    ("beam_size", "alpha", "limit"),
    [(2, 0.6, 4), *(pytest.param(*one, marks=pytest.mark.slow) for one in [(1, 0.0, 9), (3, 1.0, 7), (4, 0.6, 9)])],
)
@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.usefixtures("unchecked")  # a check of shapes at each step would take most of the time
def test_beam_search_equals_the_loops(beam_size, alpha, limit, changes):
    m = likely_to_end(model(**changes))
    found = beam_hypotheses(m, SOURCE, beam_size, alpha, max_length=limit)
    best = beam_search(m, SOURCE, beam_size, alpha, max_length=limit).tolist()
    for row in range(3):
        with torch.no_grad():
            expected = reference.beam_search(
                step_log_probabilities(m, row), m.config.bos_id, 2, 0, beam_size, alpha, limit
            )
        assert [h.tokens for h in found[row]] == [tokens for _, tokens in expected]
        np.testing.assert_allclose([h.score for h in found[row]], [score for score, _ in expected], rtol=1e-9)
        assert [token for token in best[row] if token != 0] == expected[0][1]
        for h in found[row]:
            assert h.score == pytest.approx(h.log_probability / length_penalty(len(h.tokens), alpha))


@pytest.mark.paper("decode")
@pytest.mark.parametrize(
    ("of_eos", "of_3", "alpha", "limit"),
    [
        (0.14, 0.64, 1.5, 9),  # short candidates end first, and the longest is the best
        (0.45, 0.5, 3.0, 3),  # goes on: better than the worst that ended
        (0.5, 0.45, 3.0, 4),  # stops: a longer one would be better
    ],
)
def test_a_beam_goes_on_while_a_candidate_that_is_open_scores_better(of_eos, of_3, alpha, limit):
    m = model(tied_output=False, output_bias=True)
    with torch.no_grad():  # each token has the same probability at every step
        m.own_output_embedding.weight.zero_()
        m.output_bias.fill_((1 - of_eos - of_3) / 9).log_()
        m.output_bias[2], m.output_bias[3] = np.log(of_eos), np.log(of_3)
        found = beam_hypotheses(m, SOURCE[:1], 2, alpha, limit)[0]
        expected = reference.beam_search(step_log_probabilities(m, 0), 1, 2, 0, 2, alpha, limit)
    assert [h.tokens for h in found] == [tokens for _, tokens in expected]


@pytest.mark.paper("decode")
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.usefixtures("unchecked")  # a check of shapes at each step would take most of the time
def test_a_beam_that_drops_nothing_finds_the_best_of_all_sentences(alpha):
    m = likely_to_end(model(vocabulary_size=5, source_vocabulary_size=11))
    found = beam_hypotheses(m, SOURCE, 4**4, alpha, max_length=4)
    for row in range(3):
        with torch.no_grad():
            log_p = step_log_probabilities(m, row)
            every = reference.every_sentence(log_p, 1, 2, 0, alpha, 4)
        assert len(every) == 1 + 3 + 9 + 27 * 4
        best = [tokens for _, tokens in every[:20]]
        assert [h.tokens for h in found[row][:20]] == best


@pytest.mark.paper("decode")
def test_a_larger_alpha_chooses_longer_sentences():
    lengths = []
    for alpha in (0.0, 0.6, 3.0):
        torch.manual_seed(0)
        found = beam_search(likely_to_end(model()), SOURCE, 8, alpha, max_length=9)
        lengths.append((found != 0).sum().item())
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


@pytest.mark.paper("decode")
@pytest.mark.parametrize("search", [beam_search, beam_hypotheses])
def test_the_papers_alpha_is_the_default(search):
    assert inspect.signature(search).parameters["alpha"].default == 0.6


def test_log_probabilities_of_a_half_precision_model_add_up_in_float32():
    totals = [h.log_probability for row in beam_hypotheses(model().bfloat16(), SOURCE, 4, max_length=5) for h in row]
    assert all(total == torch.tensor(total, dtype=torch.float32).item() for total in totals)
    assert any(total != torch.tensor(total, dtype=torch.bfloat16).item() for total in totals)


def test_by_length_a_hypothesis_scores_its_mean_log_probability():
    assert length_penalty(7, "length") == 7
    m = likely_to_end(model())
    for hypotheses in beam_hypotheses(m, SOURCE, 3, "length", max_length=9):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert scores == pytest.approx([h.log_probability / len(h.tokens) for h in hypotheses])


@pytest.mark.paper("decode")
@pytest.mark.usefixtures("unchecked")  # a check of shapes at each step would take most of the time
def test_the_limit_is_the_input_length_plus_50():
    m = model()
    with torch.no_grad():
        m.embedding.weight[2] = 0  # <eos> scores 0 ...
        m.embedding.weight[3] = 100 * m.decoder.layers[0].feed_forward_norm.norm.bias  # ... and another token more
        m.decoder.layers[0].feed_forward_norm.norm.weight.zero_()
    generated = greedy_decode(m, SOURCE)
    assert (generated != 0).sum(1).tolist() == [5 + 50, 3 + 50, 2 + 50]
    assert (beam_search(m, SOURCE) != 0).sum(1).tolist() == [5 + 50, 3 + 50, 2 + 50]


def test_learned_positions_end_the_sentence_at_the_table():
    m = model(positions="learned", max_positions=7, output_bias=True)
    with torch.no_grad():
        m.output_bias[2] = -1e9  # <eos> never comes
    assert greedy_decode(m, SOURCE).size(1) == 7
    assert beam_search(m, SOURCE).size(1) == 7


def test_decoding_switches_dropout_off_and_on_again():
    m = model().train()
    m.encoder.eval()  # a part that is not to be trained
    before = [part.training for part in m.modules()]
    assert torch.equal(greedy_decode(m, SOURCE, 5), greedy_decode(m, SOURCE, 5))
    assert [part.training for part in m.modules()] == before


def test_the_attention_of_a_hypothesis_is_that_of_the_steps_that_made_it():
    m = model(num_layers=2)
    source = torch.tensor([[3, 5, 4, 2]])
    steps = []
    with record_attention(m) as weights, torch.no_grad():
        cache = start_decoding(m.eval(), source, limit=4)
        for token in (1, 6, 3):
            cache.next_logits(torch.tensor([[token]]))
            steps.append({name: weight.clone() for name, weight in weights.items()})
    found = hypothesis_attention(m.train(), source, torch.tensor([6, 3, 2]))  # as greedy decoding gives them
    assert m.training
    assert set(found) == set(ATTENTIONS)
    for i, step in enumerate(steps):
        for layer in (0, 1):
            own, cross = (found[f"decoder.{layer}.{role}"] for role in ("self", "cross"))
            torch.testing.assert_close(own[:, :, i, : i + 1], step[f"decoder.{layer}.self"][:, :, 0])
            torch.testing.assert_close(cross[:, :, i], step[f"decoder.{layer}.cross"][:, :, 0])
    for sources, tokens, named in ((source.repeat(2, 1), [3], "source"), (source, [], "tokens")):
        with pytest.raises(ValueError, match=named):
            hypothesis_attention(m, sources, tokens)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("decode", "given", "named"),
    [
        *((decode, {"max_length": 0}, "max_length") for decode in (greedy_decode, beam_search)),
        *((decode, {"source": SOURCE[:0]}, "source") for decode in (greedy_decode, beam_search)),
        (greedy_decode, {"source": torch.tensor([3, 4, 2])}, "source"),
        (beam_search, {"beam_size": 0}, "beam_size"),
        (beam_search, {"alpha": -1.0}, "alpha"),
        (beam_hypotheses, {"beam_size": 1_000_000}, "1024"),  # before anything is allocated
    ],
)
def test_what_cannot_be_decoded_is_refused(decode, given, named):
    with pytest.raises(ValueError, match=named):
        decode(model(), **{"source": SOURCE} | given)


@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_of_a_run_that_diverged_are_refused(decode, value):
    m = model(source_vocabulary_size=11)
    assert len(decode(m, SOURCE, max_length=3)) == 3
    with torch.no_grad():
        m.own_source_embedding.weight[9] = value  # a word of one sentence alone
    with pytest.raises(ValueError, match="diverged"):
        decode(m, SOURCE, max_length=3)


@pytest.mark.paper("decode")
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_search_ends_when_nothing_open_can_be_better(beam_size, monkeypatch):
    m, steps = model(output_bias=True).eval(), []
    with torch.no_grad():
        m.output_bias[TINY.eos_id] = 60.0  # a sentence that ends now is e⁶⁰ times as likely as one that goes on
    next_logits = DecoderCache.next_logits
    monkeypatch.setattr(DecoderCache, "next_logits", lambda *arguments: steps.append(1) or next_logits(*arguments))
    assert [len(found) for found in beam_hypotheses(m, SOURCE, beam_size, alpha=0.0)] == [beam_size] * len(SOURCE)
    assert len(steps) == (1 if beam_size == 1 else 2)  # <eos>, then two others with <eos> behind them


@pytest.mark.paper("decode")
def test_a_sentence_ends_its_search_without_waiting_for_its_neighbours():
    """A longer search would find candidates that score better for each of their tokens."""
    torch.manual_seed(7)
    m = likely_to_end(likely_to_end(model()))
    source = torch.randint(3, 11, (12, 5))
    source[:, -1] = m.config.eos_id
    together = beam_hypotheses(m, source, 2, "length", 12)
    alone = [beam_hypotheses(m, row[None], 2, "length", 12)[0] for row in source]
    assert len({len(hypothesis.tokens) for ranked in alone for hypothesis in ranked}) > 4
    assert [[h.tokens for h in ranked] for ranked in together] == [[h.tokens for h in ranked] for ranked in alone]
