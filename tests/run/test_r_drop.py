"""R-Drop: its loss is that of two passes and their divergence, written out; without dropout it is the paper's."""

import torch

from transformer_lib import Transformer, TransformerConfig
from transformer_lib.data import make_batch
from transformer_lib.training import batch_loss
from transformer_run.update import Update, r_drop_loss

SIZES = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "d_k": 8, "d_v": 8}
BATCH = make_batch([([5, 6, 7], [8, 9]), ([4, 3], [7, 6, 5, 9])])


def model_of(p_drop):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(vocabulary_size=12, p_drop=p_drop, **SIZES)).train()


def test_without_dropout_both_passes_agree_and_the_loss_is_the_papers():
    model = model_of(0.0)
    plain, doubled = (Update(model, r_drop=weight).loss(BATCH, 0.1) for weight in (0.0, 5.0))
    torch.testing.assert_close(doubled, plain)


def test_the_second_term_is_the_mean_of_both_divergences():
    model, weight = model_of(0.5), 3.0
    torch.manual_seed(1)
    found = r_drop_loss(model, BATCH, 0.0, weight)
    torch.manual_seed(1)
    logits = model(BATCH.source.repeat(2, 1), BATCH.target_input.repeat(2, 1))
    expected = 0.0
    for one, two, target in zip(*logits.softmax(-1).chunk(2), BATCH.target_output, strict=True):
        for p, q, right in zip(one, two, target, strict=True):
            if right != 0:
                nats = -(p[right].log() + q[right].log()) / 2
                both = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
                expected = expected + nats + weight / 2 * both / 2
    torch.testing.assert_close(found, expected)
    assert found > batch_loss(model.eval(), BATCH, 0.0)
