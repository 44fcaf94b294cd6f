import numpy as np
import pytest
import torch

from transformer_lib import Transformer, TransformerConfig, reference
from transformer_lib.embeddings import TokenEmbedding

TINY = TransformerConfig(vocabulary_size=17, num_layers=1, d_model=10, d_ff=7, num_heads=2, d_k=3, d_v=5, p_drop=0.0)


@pytest.mark.paper("embed")
def test_the_way_in_and_the_way_out_equal_the_loops():
    layer, tokens = TokenEmbedding(17, 9).double(), [4, 4, 16, 0]
    matrix, states = layer.weight.detach().numpy(), torch.randn(5, 9, dtype=torch.float64)
    embedded = layer(torch.tensor([tokens]))[0].detach()
    np.testing.assert_allclose(embedded, reference.embedding(tokens, matrix), rtol=1e-12, atol=1e-12)
    expected = reference.logits(states.numpy(), matrix)
    np.testing.assert_allclose(layer.logits(states).detach(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.paper("embed")
def test_the_gradient_of_one_matrix_is_the_sum_over_its_three_uses():
    one = Transformer(TINY).double()
    apart = {"source_vocabulary_size": 17, "tied_output": False}
    three = Transformer(TransformerConfig(**{**vars(TINY), **apart})).double()
    copies = ("own_source_embedding.weight", "own_output_embedding.weight")
    same = dict.fromkeys(copies, one.embedding.weight.detach())
    three.load_state_dict(one.state_dict() | same)
    source, target_input = torch.tensor([[3, 4]]), torch.tensor([[1, 5, 9]])
    for model in (one, three):
        model(source, target_input).logsumexp(-1).sum().backward()
    ways_in = (three.own_source_embedding, three.embedding)
    tables = (*ways_in, three.own_output_embedding)
    total = sum(table.weight.grad for table in tables)
    torch.testing.assert_close(one.embedding.weight.grad, total)


@pytest.mark.paper("embed")
def test_the_product_with_the_root_has_components_of_size_one():
    # 300 · 256 components: the standard deviation is known to 0.3 %; 2 % is seven such errors.
    assert TokenEmbedding(300, 256)(torch.arange(300)[None]).std().item() == pytest.approx(1, rel=0.02)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("source", "target_input", "message"),
    [
        ([[3, 17]], [[1]], "source"),
        ([[3, 4]], [[1, -1]], "target_input"),
        ([[3, 4], [0, 0]], [[1], [1]], "padding"),
        ([[3.0]], [[1]], "dtype"),
        ([3], [[1]], r"source has shape \(1,\)"),
        ([[3], [4]], [[1]], "memory"),
    ],
)
def test_bad_ids_are_named_with_their_place(source, target_input, message):
    with pytest.raises(ValueError, match=message):
        Transformer(TINY)(torch.tensor(source), torch.tensor(target_input))
