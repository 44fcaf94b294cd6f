"""Recorded attention: the right keys, around modules of the reader's own, and in one thread alone."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny_models
import torch
from tiny_models import ATTENTIONS, Around
from torch import nn

from transformer_lib import MultiHeadAttention, greedy_decode, record_attention
from transformer_lib.attention import AdditiveAttention
from transformer_lib.fast import watcher

SOURCE, TARGET_INPUT = torch.tensor([[3, 4, 2], [5, 2, 0]]), torch.tensor([[1, 6, 7, 8], [1, 8, 9, 0]])


def model():
    return tiny_models.model(num_layers=2).eval()


def recorded(m):
    with record_attention(m) as weights:
        m(SOURCE, TARGET_INPUT)
    return weights


def test_wrapped_attentions_keep_their_keys():
    m = model()
    expected = recorded(m)
    for layer in m.encoder.layers:
        layer.self_attention = Around(layer.self_attention)
    m.decoder.layers[1].cross_attention = Around(Around(m.decoder.layers[1].cross_attention))
    torch.testing.assert_close(recorded(m), expected)
    assert set(recorded(nn.Sequential(m)[0])) == set(expected)


class Silent(MultiHeadAttention):
    """An attention that computes its own softmax."""

    def attend(self, query, heads_key, heads_value, mask=None):
        heads = (self._split(self.query_projection(query)) @ heads_key.mT).softmax(-1) @ heads_value
        return self.output_projection(heads.transpose(1, 2).flatten(2))


class Telling(Silent):
    """One that tells its weights, too."""

    def attend(self, query, heads_key, heads_value, mask=None):
        if watch := watcher():
            watch(self, (self._split(self.query_projection(query)) @ heads_key.mT).softmax(-1))
        return super().attend(query, heads_key, heads_value, mask)


class Inherited(MultiHeadAttention):
    """One that changes the library's output."""

    def attend(self, *given):
        return 2 * super().attend(*given)


def with_attention(kind, names):
    m = model()
    for name in names:
        stack, number, role = name.split(".")
        getattr(m.get_submodule(f"{stack}.layers.{number}"), f"{role}_attention").__class__ = kind
    return m


@pytest.mark.parametrize(
    "names", [ATTENTIONS, ATTENTIONS[:1], ATTENTIONS[2:3], ["encoder.0.self", "encoder.1.self"]], ids=len
)
def test_an_attention_that_tells_no_weights_is_named(names):
    m = with_attention(Silent, names)
    with pytest.raises(ValueError, match="own") as error, record_attention(m):
        m(SOURCE, TARGET_INPUT)
    assert [name for name in ATTENTIONS if name in str(error.value)] == names
    assert not any(part._forward_hooks for part in m.modules())
    with pytest.raises(ValueError, match=names[0]), record_attention(m):
        greedy_decode(m, SOURCE, 3)


@pytest.mark.parametrize("kind", [Telling, Inherited])
def test_an_attention_that_tells_its_weights_is_recorded(kind):
    assert set(recorded(with_attention(kind, ATTENTIONS))) == set(ATTENTIONS)


def test_what_did_not_run_need_not_tell():
    m = with_attention(Silent, [name for name in ATTENTIONS if "decoder" in name])
    with record_attention(m) as weights:
        m.encode(SOURCE)
    assert set(weights) == {"encoder.0.self", "encoder.1.self"}
    with pytest.raises(ValueError, match="vocabulary"), record_attention(m):  # the block's own error, not ours
        m(SOURCE, m(SOURCE, TARGET_INPUT).size(1) + TARGET_INPUT + 11)


def test_what_runs_in_another_thread_need_not_tell():
    m = with_attention(Silent, ATTENTIONS)
    with record_attention(m) as weights, ThreadPoolExecutor(1) as pool:
        pool.submit(m, SOURCE, TARGET_INPUT).result()
    assert not weights


def two_in_a_place(m):
    m.decoder.layers[0].cross_attention = nn.Sequential(*(layer.cross_attention for layer in m.decoder.layers))


def one_in_two_places(m):
    m.encoder.layers[1].self_attention = m.encoder.layers[0].self_attention


def one_elsewhere(m):
    m.encoder.layers[0].feed_forward = MultiHeadAttention(8, 1, 2, 2)


def none(m):
    m.decoder.layers[0].cross_attention = AdditiveAttention(8, 8, 8)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (two_in_a_place, "decoder.layers.0.cross_attention"),
        (one_in_two_places, "encoder.layers.1.self_attention"),
        (one_elsewhere, "encoder.layers.0.feed_forward"),
        (none, "decoder.0.cross"),
    ],
)
def test_a_model_whose_attentions_have_no_clear_keys_is_refused(change, named):
    m = model()
    change(m)
    with pytest.raises(ValueError, match=named), record_attention(m):
        pass


def test_a_compiled_model_is_refused():
    with pytest.raises(ValueError, match="compiled"), record_attention(torch.compile(model(), backend="eager")):
        pass


def test_of_two_models_in_a_block_each_gets_its_own_weights():
    one, other = model(), copy.deepcopy(model())
    with record_attention(one) as weights:
        one(SOURCE, TARGET_INPUT)
        kept = dict(weights)
        other(SOURCE[:1], TARGET_INPUT[:1])
    assert all(weights[name] is kept[name] for name in kept)


def test_a_recorder_sees_nothing_of_another_thread():
    m, turn = model(), threading.Barrier(2, timeout=60)

    def in_turn(rows):
        with record_attention(m) as weights:
            turn.wait()  # both record
            m(SOURCE[:rows], TARGET_INPUT[:rows])
            turn.wait()  # both have computed
        return {len(each) for each in weights.values()}, len(weights)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(in_turn, [1, 2])) == [({1}, 6), ({2}, 6)]
