"""A translator in the published form, read from a folder: the same function, and what is timed."""

import numpy as np
import pytest
import torch

from experiments import published_models
from experiments.published_models import (
    OPUS_MT_EN_DE,
    number_words_translator,
    with_random_weights,
)
from transformer_lib import TransformerConfig, count_parameters, reference
from transformer_lib.interop import from_marian

SMALL = {"vocab_size": 40, "d_model": 16, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20}
IDS = {"pad_token_id": 39, "decoder_start_token_id": 39}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of sentencepiece's own types


@pytest.mark.slow
def test_the_command_compares_both_libraries(tmp_path, monkeypatch, capsys):
    number_words_translator(tmp_path)
    command = ["published_models", str(tmp_path), "--sentence", "forty seven", "--length", "9"]
    monkeypatch.setattr("sys.argv", command)
    published_models.main()
    greedy, words, beam, _, difference = capsys.readouterr().out.splitlines()
    assert greedy.startswith("beam 1: the same tokens: True; our time by theirs: ")
    assert beam.startswith("beam 4: the same tokens: True")
    assert words == "sieben und vierzig"
    assert float(difference.split(": ")[1]) < 1e-5


def test_the_published_sizes_are_counted_alike():
    from transformers import MarianConfig, MarianMTModel

    with torch.device("meta"):
        theirs = MarianMTModel(MarianConfig(**OPUS_MT_EN_DE))
    ours = TransformerConfig(vocabulary_size=58_101, activation="silu", attention_bias=True)
    assert sum(p.numel() for p in theirs.parameters() if p.requires_grad) == count_parameters(ours)


@pytest.mark.parametrize(("encoder", "decoder"), [(2, 2), (3, 1)])
def test_random_weights_give_the_same_function(encoder, decoder):
    layers = {"encoder_layers": encoder, "decoder_layers": decoder}
    theirs = with_random_weights(**SMALL | IDS | layers)
    ours = from_marian(theirs)
    source = torch.randint(1, 38, (1, 5))
    target_input = torch.randint(1, 38, (1, 4))
    expected = theirs(source, decoder_input_ids=target_input).logits
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(ours(source, target_input), expected, **close)
    ours.decoder.layers[0].feed_forward.outer.weight.data[0] += 0.5
    changed = ours(source, target_input)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(changed, expected, **close)


def test_the_loop_takes_turns_as_the_conversion_does():
    theirs = with_random_weights(**SMALL | IDS, encoder_layers=1, decoder_layers=1)
    ours = from_marian(theirs)
    assert ours.config.output_bias
    for token in range(40):
        row = theirs.model.decoder.embed_tokens.weight[token].detach().numpy()
        np.testing.assert_allclose(ours.embedding.weight[token].detach(), reference.in_turns(row))
    halves = theirs.model.encoder.embed_positions.weight[3].numpy()
    expected = [f(3 / 10_000 ** (i / 16)) for i in range(0, 16, 2) for f in (np.sin, np.cos)]
    np.testing.assert_allclose(reference.in_turns(halves), expected, atol=1e-6)
