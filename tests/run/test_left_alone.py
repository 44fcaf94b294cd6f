"""Nothing that reads a translator changes it: neither its weights, nor what else of it and of the process stays.

The exporters of graphs take seconds: test_export.py asks it of those that it makes.
"""

import logging
import numbers

import pytest
import torch
from small_translators import LARGER, SMALL, random_translator

from transformer_lib import record_attention
from transformer_lib.attention_maps import heads_removed
from transformer_lib.data import token_batches
from transformer_lib.evaluation import perplexity
from transformer_lib.interop import to_marian
from transformer_run.export import Engine, export_ctranslate2, export_marian
from transformer_run.quantization import dequantize, quantize

CONFIGS = {
    "tied": SMALL,
    "untied": {**SMALL, "tied_output": False, "output_bias": True, "attention_bias": True},
    "separate": {**LARGER, "tied_output": False, "source_vocabulary_size": 19},
    "learned": {**SMALL, "d_v": 3, "positions": "learned", "max_positions": 60, "norm_order": "pre"},
}
LINES, PAIRS = ["w4 w5", "", "w6 w7 w8"], [("w4 w5", "w6"), ("w7", "w8 w9")]


def removed(translator, _):
    with heads_removed(translator.model, [("encoder.0.self", 0), ("decoder.0.cross", 1)]):
        translator.translate(LINES)


def recorded(translator, _):
    with record_attention(translator.model):
        translator.model(torch.tensor([[4, 5, 2]]), torch.tensor([[1, 6]]))


READERS = {
    "ctranslate2": export_ctranslate2,
    "ctranslate2 in 8 bits": lambda t, folder: export_ctranslate2(t, folder, int8=True),
    "engine": lambda t, _: Engine(t).translate(LINES, beam_size=2),
    "engine in 8 bits": lambda t, _: t.score(PAIRS, engine=Engine(t, int8=True)),
    "quantize": lambda t, _: [w.zero_() for w in dequantize(quantize(t.model.state_dict())).values()],
    "save": lambda t, folder: t.save(folder),
    "pack": lambda t, folder: t.pack(folder, bits=4),
    "translate": lambda t, _: (t.translate(LINES), t.translate(LINES, beam_size=3, n_best=2, return_scores=True)),
    "score": lambda t, _: t.score(PAIRS, beam_size=2),
    "map": lambda t, _: [w.zero_() for w in t.attention("w4 w5").weights.values()],
    "perplexity": lambda t, _: perplexity(t.model, token_batches(t.encode(PAIRS), 50)),
    "heads removed": removed,
    "attention recorded": recorded,
}


def kept(translator):
    """Everything that a reader could leave changed, but for the weights."""
    model = translator.model
    loggers = ["", *(name for name in logging.root.manager.loggerDict if name.startswith("torch"))]
    return {
        "tensors": {n: (w.data_ptr(), w.dtype, w.requires_grad, w.grad) for n, w in model.named_parameters()},
        "modules": {n: (type(m), m.training, *map(len, hooks_of(m))) for n, m in model.named_modules()},
        "tokenizers": (translator.source_tokenizer.to_json(), translator.target_tokenizer.to_json()),
        "process": (torch.get_default_dtype(), torch.is_grad_enabled(), issubclass(torch.SymInt, numbers.Integral)),
        "random": torch.get_rng_state().tolist(),
        "loggers": {name: logging.getLogger(name).level for name in loggers},
    }


def hooks_of(module):
    return module._forward_hooks, module._forward_pre_hooks, module._backward_hooks


def assert_left_alone(translator, reader, folder):
    translator.model.train()  # as in a run that goes on
    translator.model.encoder.eval()
    before = {name: weight.clone() for name, weight in translator.model.state_dict().items()}
    others = kept(translator)
    reader(translator, folder)
    changed = [name for name, w in translator.model.state_dict().items() if not torch.equal(w, before[name])]
    assert changed == []
    after = kept(translator)
    after["loggers"] = {name: level for name, level in after["loggers"].items() if name in others["loggers"]}
    assert after == others


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_leaves_a_translator_as_it_was(reader, config, tmp_path):
    assert_left_alone(random_translator(**CONFIGS[config]), READERS[reader], tmp_path)


@pytest.mark.parametrize("config", ["tied", "untied"])
def test_marian_leaves_a_translator_as_it_was(config, tmp_path):
    assert_left_alone(random_translator(**CONFIGS[config]), export_marian, tmp_path)


def test_what_leaves_has_no_memory_in_common_with_the_model():
    translator = random_translator(**CONFIGS["separate"])

    def changed(*_):
        with torch.no_grad():
            for weight in to_marian(translator.model).parameters():
                weight.zero_()

    assert_left_alone(translator, changed, None)
