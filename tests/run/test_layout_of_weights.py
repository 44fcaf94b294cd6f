"""Weights and the optimizer's averages in one layout, however they lay in memory when training began."""

import copy
import pickle

import pytest
import torch

from transformer_lib import TrainingConfig, Transformer, TransformerConfig
from transformer_lib.data import make_batch
from transformer_lib.training import adam, train
from transformer_run.checkpoints import load_checkpoint, save_checkpoint
from transformer_run.translator import Translator, pretrained_names

SETTINGS = TrainingConfig(num_steps=6, warmup_steps=10)


def transposed(model):
    """The same function, its matrices stored column by column."""
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.data = weight.data.t().contiguous().t()
    return model


@pytest.mark.parametrize("when", ["before the optimizer", "after the optimizer", "resumed"])
def test_a_run_does_not_depend_on_how_weights_lie_in_memory(when, tmp_path):
    torch.manual_seed(0)
    plain = Transformer(
        TransformerConfig(vocabulary_size=24, num_layers=1, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8)
    )
    batches, path = [make_batch([([5, 6, 7 + i], [8, 9, 5])]) for i in range(6)], tmp_path / "half.safetensors"
    other = copy.deepcopy(plain)
    optimizer, losses = adam(plain, SETTINGS), []
    for record in train(plain, optimizer, batches, SETTINGS):
        losses.append(record.loss_nats_per_token)
        if record.step_num == 3:
            save_checkpoint(path, plain, optimizer, 3)
    if when == "before the optimizer":
        other = transposed(other)
        found = train(other, adam(other, SETTINGS), batches, SETTINGS)
    elif when == "after the optimizer":
        moved = adam(other, SETTINGS)
        found = train(transposed(other), moved, batches, SETTINGS)
    else:
        moved = adam(transposed(other), SETTINGS)
        transposed(other)
        load_checkpoint(path, other, moved)
        found, losses = train(other, moved, batches[3:], SETTINGS, steps_done=3), losses[3:]
    torch.testing.assert_close([record.loss_nats_per_token for record in found], losses)
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("name", pretrained_names())
def test_a_translator_that_comes_with_the_package_is_ready_to_use_and_can_be_pickled(name):
    translator = Translator.load(name)
    assert not any(module.training for module in translator.model.modules())
    assert all(weight.is_contiguous() for weight in translator.model.state_dict().values())
    copied = pickle.loads(pickle.dumps(translator))
    said = ["one hundred and five", "Guten Morgen."]
    assert copied.translate(said) == translator.translate(said)
