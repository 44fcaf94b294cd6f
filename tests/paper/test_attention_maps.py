"""The right tokens on the right axes, and heads taken out of a model."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from transformer_lib import MultiHeadAttention, Transformer, TransformerConfig, reference
from transformer_lib.attention_maps import attention_axes, attention_records, heads_removed
from transformer_lib.decoding import hypothesis_attention
from transformer_lib.fast import watcher
from transformer_lib.plots import attention_explorer
from transformer_lib.transformer import named_attentions

CONFIG = TransformerConfig(vocabulary_size=9, num_layers=2, d_model=12, d_ff=8, num_heads=3, d_k=4, d_v=5, p_drop=0.0)
SOURCE_IDS, WRITTEN_IDS = torch.tensor([[5, 3, 4, 6, 2]]), [7, 8, 2]
SOURCE, WRITTEN = ["sieben", "und", "vier", "zig", "<eos>"], ["forty", "seven", "<eos>"]
STEPS = ["<bos> → forty", "forty → seven", "seven → <eos>"]


def model(**changes):
    torch.manual_seed(0)
    return Transformer(dataclasses.replace(CONFIG, **changes)).double().eval()


@pytest.fixture
def looks_by_position():
    """A model whose every head looks at one position, which its layer, role and number fix: known without a picture."""
    m = model()
    for name, attention in named_attentions(m):
        stack, layer, role = name.split(".")

        def attend(query, keys, values, mask=None, *, a=attention, place=(stack, int(layer), role)):
            weights = torch.zeros(1, 3, query.size(1), keys.size(2), dtype=torch.double)
            for head in range(3):
                for i in range(query.size(1)):
                    weights[0, head, i, target(*place, head, i, keys.size(2))] = 1.0
            watcher()(a, weights)
            return torch.zeros_like(query)

        attention.attend = attend
    return m


def target(stack, layer, role, head, query, keys):
    """The one key that a head of the constructed model looks at; of the inputs read so far, in the decoder itself."""
    if (stack, role) == ("decoder", "self"):
        return max(query - head, 0)
    return (query + 2 * head + layer) % keys


def test_each_weight_stands_at_its_own_tokens(looks_by_position):
    weights = hypothesis_attention(looks_by_position, SOURCE_IDS, WRITTEN_IDS)
    records = attention_records(weights, SOURCE, WRITTEN)
    looked = {(r["attention"], r["head"], r["query"]): r["key"] for r in records if r["weight"] == 1}
    assert len(records) == 2 * 3 * (5 * 5 + 3 * 3 + 3 * 5)
    assert len(looked) == 2 * 3 * (5 + 3 + 3)
    # Read off the definition of `target`: five keys and three queries leave no room for swapped axes.
    assert looked["encoder.0.self", 0, "und"] == "und"
    assert looked["encoder.0.self", 1, "sieben"] == "vier"
    assert looked["encoder.1.self", 1, "zig"] == "und"  # (3 + 2 + 1) mod 5
    assert looked["decoder.0.cross", 2, "<bos> → forty"] == "<eos>"
    assert looked["decoder.1.cross", 0, "forty → seven"] == "vier"
    assert looked["decoder.1.cross", 1, "seven → <eos>"] == "sieben"  # (2 + 2 + 1) mod 5
    # The keys of the decoder itself are what it has read: at the step that chooses "seven" the newest is "forty".
    assert looked["decoder.0.self", 0, "forty → seven"] == "forty"
    assert looked["decoder.0.self", 1, "forty → seven"] == "<bos>"
    assert looked["decoder.1.self", 1, "seven → <eos>"] == "forty"


@pytest.mark.parametrize("name", ["decoder.cross", "encoder.0.cross", "cross", ""])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="record_attention"):
        attention_axes(name, SOURCE, WRITTEN)


def test_weights_of_another_shape_than_the_tokens_are_refused():
    weights = hypothesis_attention(model(), SOURCE_IDS, WRITTEN_IDS)
    with pytest.raises(ValueError, match="shape"):
        attention_records(weights, SOURCE[:-1], WRITTEN)  # <eos> forgotten
    with pytest.raises(ValueError, match="queries"):
        attention_records(weights, SOURCE, ["<bos>", *WRITTEN])


@pytest.mark.paper("mha")
@pytest.mark.parametrize("removed", [set(), {0}, {2}, {0, 1}, {0, 1, 2}])
def test_a_removed_head_is_a_head_that_finds_nothing(removed):
    torch.manual_seed(1)
    m = model(attention_bias=False)
    attention = m.decoder.layers[1].cross_attention
    query, key = torch.randn(3, 12).double(), torch.randn(5, 12).double()
    with heads_removed(m, [("decoder.1.cross", head) for head in removed]):
        found = attention(query[None], key[None], key[None])[0]
    w_query, w_key, w_value = by_head(attention)
    found_nothing = [0 * w if i in removed else w for i, w in enumerate(w_value)]
    w_output = attention.output_projection.weight.T.detach().numpy()
    rows = query.numpy(), key.numpy(), key.numpy()
    expected = reference.multi_head_attention(*rows, w_query, w_key, found_nothing, w_output)
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-12, atol=1e-12)


def by_head(attention: MultiHeadAttention):
    """W_i^Q, W_i^K and W_i^V, each (heads, d_model, width)."""
    for projection in (attention.query_projection, attention.key_projection, attention.value_projection):
        yield projection.weight.detach().unflatten(0, (3, -1)).mT.numpy()


def test_heads_come_back_after_the_block_even_after_an_error():
    m = model()
    before = {name: weight.clone() for name, weight in m.state_dict().items()}

    def changed():
        return [name for name, weight in m.state_dict().items() if not torch.equal(weight, before[name])]

    with heads_removed(m, [("encoder.0.self", 1), ("encoder.0.self", 2)]):
        assert changed() == ["encoder.layers.0.self_attention.output_projection.weight"]
    assert changed() == []
    with pytest.raises(RuntimeError, match="stop"), heads_removed(m, [("decoder.1.cross", 0)]):
        raise RuntimeError("stop")
    assert changed() == []


@pytest.mark.parametrize(
    "head", [("decoder.2.cross", 0), ("encoder.0.cross", 0), ("encoder.0.self", 3), ("encoder.0.self", -1)]
)
def test_a_head_that_does_not_exist_is_refused(head):
    with pytest.raises(ValueError, match="head"), heads_removed(model(), [head]):
        pass


def test_the_explorer_shows_every_head_with_the_labels_of_its_attention():
    weights = hypothesis_attention(model(), SOURCE_IDS, WRITTEN_IDS)
    one = (weights, SOURCE, WRITTEN)
    spec = attention_explorer({"it's": one, "b": one}, title="Maps", description="A grid.").to_dict()
    assert len(spec["data"]["values"]) == 2 * 2 * 3 * 3  # sentences, layers, kinds, heads
    binds = {p["name"]: p["bind"] for p in spec["params"]}
    assert binds["map_sentence"]["labels"] == ["it's", "b"]
    assert binds["map_attention"]["options"] == list(weights)
    assert binds["map_head"]["options"] == [0, 1, 2]
    expression = spec["layer"][0]["encoding"]["y"]["axis"]["labelExpr"]
    axes = json.loads(expression.removesuffix("[map_sentence][map_attention][0][datum.value]"))
    assert axes[1]["decoder.1.cross"] == [STEPS, SOURCE]
    for record in spec["data"]["values"]:
        array = weights[record["a"]][0, record["h"]]
        for i, j, weight in zip(record["i"], record["j"], record["w"], strict=True):
            assert weight == pytest.approx(array[i, j].item(), abs=6e-4)
        assert len(record["w"]) == array.numel()


def test_weight_on_the_previous_word():
    weights = np.array([[1.0, 0, 0], [0.7, 0.3, 0], [0.1, 0.6, 0.3]])
    given, even = reference.share_of_weight(weights, lambda i: i - 1, causal=True)
    assert (given, even) == (pytest.approx((0.7 + 0.6) / 2), pytest.approx((1 / 2 + 1 / 3) / 2))
    given, even = reference.share_of_weight(weights, lambda i: i + 1)
    assert (given, even) == (0.0, pytest.approx(1 / 3))
    assert np.isnan(reference.share_of_weight(weights, lambda i: i + 1, causal=True)[0])


@pytest.mark.parametrize(
    ("places", "expected"),
    [([0, 1, 2], (0, 3)), ([2, 1, 0], (3, 0)), ([1, 1, 0], (2, 0)), ([5], (0, 0)), ([0, 3, 1, 2], (2, 4))],
)
def test_crossed_pairs(places, expected):
    assert reference.crossed_pairs(places) == expected
