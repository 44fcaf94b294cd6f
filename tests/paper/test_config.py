from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from transformer_lib import (
    BASE,
    BIG,
    TABLE_3,
    FeedForward,
    MultiHeadAttention,
    TrainingConfig,
    TransformerConfig,
    causal_mask,
    learning_rate,
    sinusoids,
)
from transformer_lib.attention import AdditiveAttention
from transformer_lib.config import config_from_dict
from transformer_lib.data import make_batch
from transformer_lib.decoding import Hypothesis
from transformer_lib.training import StepRecord
from transformer_run.settings import RunConfig

BAD = {
    TransformerConfig: {
        "d_model": [7],
        **{name: [0] for name in ("num_heads", "num_decoder_layers", "vocabulary_size", "source_vocabulary_size")},
        "num_layers": [0, True],
        "d_k": [-3],
        "d_ff": [2.5, np.int64(8)],
        "p_drop": [1.0, -0.1, "x"],
        **{"norm_order": ["before"], "positions": ["rotary"], "activation": ["tanh"], "attention_bias": ["no"]},
        "pad_id": [0.5, False],
        "eos_id": [100, 1],  # beyond the vocabulary; that of <bos>
    },
    TrainingConfig: {
        **{"batch_tokens": [0], "accumulate": [0]},
        "epsilon_ls": [1.0, -0.1],
        "epsilon": [0.0, "x"],
        "rate_factor": [0, float("inf")],
        "seed": ["a", True, -1, 2**32],
        **{"max_grad_norm": [0]},
    },
    MultiHeadAttention: {name: [0] for name in ("d_model", "num_heads", "d_k", "d_v")},
    AdditiveAttention: {name: [0] for name in ("d_query", "d_key", "d_hidden")},
    FeedForward: {"d_model": [0], "d_ff": [-1], "activation": ["swish"]},
    causal_mask: {"length": [0]},
    sinusoids: {"length": [0], "d_model": [7], "base": [1.0]},
    learning_rate: {"step_num": [0], "d_model": [0], "warmup_steps": [0]},
}
FINE = {TransformerConfig: {"vocabulary_size": 100}, TrainingConfig: {}, FeedForward: {"d_model": 4, "d_ff": 4}}


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, name, value) for kind, bad in BAD.items() for name, values in bad.items() for value in values],
)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_setting_is_named(kind, name, value):
    fine = FINE.get(kind, dict.fromkeys(BAD[kind], 4))
    kind(**fine)  # is fine
    with pytest.raises(ValueError, match=name):
        kind(**fine | {name: value})


@pytest.mark.parametrize(
    ("kind", "key", "ours"),
    [
        (TransformerConfig, "num_head", "num_heads"),  # the nearest
        (TransformerConfig, "dropout", "p_drop"),  # of other toolkits
        (TrainingConfig, "epochs", "num_steps"),
        (TrainingConfig, "xyz", "num_steps"),  # among all
    ],
)
def test_an_unknown_key_leads_to_a_known_one(kind, key, ours):
    with pytest.raises(ValueError, match=ours):
        config_from_dict(kind, {key: 1})


@pytest.mark.parametrize(
    "record",
    [
        *(StepRecord(1, 2.0, 0.1, 30, 0.5), Hypothesis([2], -1.0, -1.0), make_batch([([5], [8])])),
        *(BASE, TrainingConfig(), RunConfig()),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_cannot_be_changed(record):
    with pytest.raises(FrozenInstanceError):
        setattr(record, fields(record)[0].name, 1)


def test_configs_are_keyword_only():
    with pytest.raises(TypeError):
        TransformerConfig(100)


@pytest.mark.paper("adam", "eq-3", "label-smoothing", "batching")
def test_without_settings_a_run_is_the_papers():
    assert vars(TrainingConfig()) == {
        **{"num_steps": 100_000, "batch_tokens": 25_000, "accumulate": 1},  # section 5.1, 5.2
        **{"warmup_steps": 4000, "rate_factor": 1.0, "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-9},  # section 5.3
        **{
            "epsilon_ls": 0.1,
            "max_grad_norm": None,
            "seed": 0,
        },  # section 5.4
    }


def test_without_settings_a_model_is_the_papers():
    assert vars(TransformerConfig(vocabulary_size=9)) == {
        **{"vocabulary_size": 9, "source_vocabulary_size": None, "pad_id": 0, "bos_id": 1, "eos_id": 2},
        **{"num_layers": 6, "num_decoder_layers": None, "d_model": 512, "d_ff": 2048, "p_drop": 0.1},
        **{"num_heads": 8, "d_k": 64, "d_v": 64},
        **{"norm_order": "post", "final_norm": None, "activation": "relu", "attention_bias": False},
        **{"positions": "sinusoidal", "max_positions": 1024, "tied_output": True, "output_bias": False},
    }


def test_an_odd_width_is_fine_with_learned_positions():
    assert TransformerConfig(vocabulary_size=9, d_model=7, positions="learned").d_model == 7


# Table 3 once more, in the paper's own layout: N, d_model, d_ff, h, d_k, d_v, P_drop, ε_ls, steps in thousands;
# perplexity, BLEU, parameters in millions.
PAPER = {
    "base": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100, 4.92, 25.8, 65),
    "A h=1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1, 100, 5.29, 24.9, None),
    "A h=4": (6, 512, 2048, 4, 128, 128, 0.1, 0.1, 100, 5.00, 25.5, None),
    "A h=16": (6, 512, 2048, 16, 32, 32, 0.1, 0.1, 100, 4.91, 25.8, None),
    "A h=32": (6, 512, 2048, 32, 16, 16, 0.1, 0.1, 100, 5.01, 25.4, None),
    "B d_k=16": (6, 512, 2048, 8, 16, 64, 0.1, 0.1, 100, 5.16, 25.1, 58),
    "B d_k=32": (6, 512, 2048, 8, 32, 64, 0.1, 0.1, 100, 5.01, 25.4, 60),
    "C N=2": (2, 512, 2048, 8, 64, 64, 0.1, 0.1, 100, 6.11, 23.7, 36),
    "C N=4": (4, 512, 2048, 8, 64, 64, 0.1, 0.1, 100, 5.19, 25.3, 50),
    "C N=8": (8, 512, 2048, 8, 64, 64, 0.1, 0.1, 100, 4.88, 25.5, 80),
    "C d_model=256": (6, 256, 2048, 8, 32, 32, 0.1, 0.1, 100, 5.75, 24.5, 28),
    "C d_model=1024": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1, 100, 4.66, 26.0, 168),
    "C d_ff=1024": (6, 512, 1024, 8, 64, 64, 0.1, 0.1, 100, 5.12, 25.4, 53),
    "C d_ff=4096": (6, 512, 4096, 8, 64, 64, 0.1, 0.1, 100, 4.75, 26.2, 90),
    "D p_drop=0.0": (6, 512, 2048, 8, 64, 64, 0.0, 0.1, 100, 5.77, 24.6, None),
    "D p_drop=0.2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1, 100, 4.95, 25.5, None),
    "D epsilon_ls=0.0": (6, 512, 2048, 8, 64, 64, 0.1, 0.0, 100, 4.67, 25.3, None),
    "D epsilon_ls=0.2": (6, 512, 2048, 8, 64, 64, 0.1, 0.2, 100, 5.47, 25.7, None),
    "E": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100, 4.92, 25.7, None),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300, 4.33, 26.4, 213),
}


@pytest.mark.paper("table-3")
def test_table_3_holds_the_papers_rows():
    read = {
        name: (
            *(row.model.num_layers, row.model.d_model, row.model.d_ff, row.model.num_heads),
            *(row.model.d_k, row.model.d_v, row.model.p_drop, row.training.epsilon_ls),
            row.training.num_steps / 1000,
            *(row.perplexity, row.bleu, row.parameters_in_millions),
        )
        for name, row in TABLE_3.items()
    }
    assert read == PAPER
    assert [name for name, row in TABLE_3.items() if row.model.positions == "learned"] == ["E"]
    assert BASE.vocabulary_size == BIG.vocabulary_size == 37_000
    assert TABLE_3["base"].model == BASE
    assert TABLE_3["big"].model == BIG
    assert replace(BASE, p_drop=0.0) == TABLE_3["D p_drop=0.0"].model
