from dataclasses import FrozenInstanceError, replace

import pytest

from transformer_lib import BASE, BIG, TABLE_3, TrainingConfig, TransformerConfig
from transformer_lib.config import config_from_dict


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"d_model": 7}, "d_model = 7 must be even.*positions='learned'"),
        ({"num_heads": 0}, "num_heads = 0 must be an integer of at least 1"),
        ({"d_k": -3}, "d_k = -3 must be an integer of at least 1"),
        ({"d_ff": 2.5}, "d_ff = 2.5 must be an integer"),
        ({"num_layers": True}, "num_layers = True must be an integer"),
        ({"vocabulary_size": 0}, "vocabulary_size = 0 must be an integer of at least 1"),
        ({"source_vocabulary_size": 0}, "source_vocabulary_size = 0 must be an integer"),
        ({"p_drop": 1.0}, "p_drop = 1.0 must be at least 0 and less than 1"),
        ({"p_drop": -0.1}, "p_drop = -0.1 must be"),
        ({"norm_order": "before"}, "norm_order = 'before' is not one of 'post', 'pre'"),
        ({"positions": "rotary"}, "positions = 'rotary' is not one of 'sinusoidal', 'learned'"),
        ({"activation": "tanh"}, "activation = 'tanh' is not one of"),
        ({"eos_id": 100}, "eos_id = 100 must be an integer of at least 0 and less than the vocabulary's size, 100"),
        ({"p_drop": "x"}, "p_drop = 'x' must be at least 0 and less than 1"),
        ({"pad_id": 0.5}, "pad_id = 0.5 must be an integer"),
        ({"attention_bias": "no"}, "attention_bias = 'no' must be True or False"),
        ({"bos_id": 2}, "eos_id must differ from pad_id and bos_id"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_model_setting_is_named_with_its_limit(setting, message):
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**{"vocabulary_size": 100} | setting)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"accumulate": 0}, "accumulate = 0 must be an integer of at least 1"),
        ({"epsilon_ls": 1.0}, "epsilon_ls = 1.0 must be at least 0 and less than 1"),
        ({"epsilon": 0.0}, "epsilon = 0.0 must be a number greater than 0"),
        ({"epsilon": "x"}, "epsilon = 'x' must be a number greater than 0"),
        ({"rate_factor": 0}, "rate_factor = 0 must be a number greater than 0"),
        ({"rate_factor": float("inf")}, "rate_factor = inf must be a number greater than 0"),
        ({"length_noise": -1.0}, "length_noise = -1.0 must be a number of at least 0"),
        ({"seed": "a"}, "seed = 'a' must be an integer"),
        ({"precision": "fp8"}, "precision = 'fp8' is not one of 'fp32', 'bf16'"),
        ({"max_grad_norm": 0}, "max_grad_norm = 0 must be a number greater than 0, or None for no limit"),
        ({"compile": 1}, "compile = 1 must be True or False"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_training_setting_is_named_with_its_limit(setting, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**setting)


def test_an_unknown_key_is_named_with_the_nearest_known_one():
    with pytest.raises(ValueError, match="unknown key 'num_head' for TransformerConfig; did you mean 'num_heads'"):
        config_from_dict(TransformerConfig, {"vocabulary_size": 10, "num_head": 4})
    with pytest.raises(ValueError, match="unknown key 'xyz' for TrainingConfig; known keys: num_steps"):
        config_from_dict(TrainingConfig, {"xyz": 1})


def test_configs_are_frozen_and_keyword_only():
    with pytest.raises(FrozenInstanceError):
        BASE.d_model = 1
    with pytest.raises(TypeError):
        TransformerConfig(100)


def test_an_odd_width_is_fine_with_learned_positions():
    assert TransformerConfig(vocabulary_size=9, d_model=7, positions="learned").d_model == 7


# Table 3 once more, in the paper's own layout: N, d_model, d_ff, h, d_k, d_v, P_drop, ε_ls, steps in thousands.
PAPER = {
    "base": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100),
    "A h=1": (6, 512, 2048, 1, 512, 512, 0.1, 0.1, 100),
    "A h=4": (6, 512, 2048, 4, 128, 128, 0.1, 0.1, 100),
    "A h=16": (6, 512, 2048, 16, 32, 32, 0.1, 0.1, 100),
    "A h=32": (6, 512, 2048, 32, 16, 16, 0.1, 0.1, 100),
    "B d_k=16": (6, 512, 2048, 8, 16, 64, 0.1, 0.1, 100),
    "B d_k=32": (6, 512, 2048, 8, 32, 64, 0.1, 0.1, 100),
    "C N=2": (2, 512, 2048, 8, 64, 64, 0.1, 0.1, 100),
    "C N=4": (4, 512, 2048, 8, 64, 64, 0.1, 0.1, 100),
    "C N=8": (8, 512, 2048, 8, 64, 64, 0.1, 0.1, 100),
    "C d_model=256": (6, 256, 2048, 8, 32, 32, 0.1, 0.1, 100),
    "C d_model=1024": (6, 1024, 2048, 8, 128, 128, 0.1, 0.1, 100),
    "C d_ff=1024": (6, 512, 1024, 8, 64, 64, 0.1, 0.1, 100),
    "C d_ff=4096": (6, 512, 4096, 8, 64, 64, 0.1, 0.1, 100),
    "D p_drop=0.0": (6, 512, 2048, 8, 64, 64, 0.0, 0.1, 100),
    "D p_drop=0.2": (6, 512, 2048, 8, 64, 64, 0.2, 0.1, 100),
    "D epsilon_ls=0.0": (6, 512, 2048, 8, 64, 64, 0.1, 0.0, 100),
    "D epsilon_ls=0.2": (6, 512, 2048, 8, 64, 64, 0.1, 0.2, 100),
    "E": (6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300),
}


@pytest.mark.paper("table-3")
def test_table_3_holds_the_papers_rows():
    read = {
        name: (
            *(row.model.num_layers, row.model.d_model, row.model.d_ff, row.model.num_heads),
            *(row.model.d_k, row.model.d_v, row.model.p_drop, row.training.epsilon_ls),
            row.training.num_steps // 1000,
        )
        for name, row in TABLE_3.items()
    }
    assert read == PAPER
    assert [name for name, row in TABLE_3.items() if row.model.positions == "learned"] == ["E"]
    assert TABLE_3["base"].model == BASE
    assert TABLE_3["big"].model == BIG
    assert replace(BASE, p_drop=0.0) == TABLE_3["D p_drop=0.0"].model
