"""Our model in the format of CTranslate2, an engine in C++ that decodes without PyTorch."""

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.config import TransformerConfig
from transformer_lib.data.tokenizers import SPECIALS, UNK_ID, Tokenizer
from transformer_lib.decoding import (
    EXTRA,
    PAPERS_ALPHA,
    Alpha,
    check_alpha,
    check_beam_size,
    length_penalty,
    longest_output,
)
from transformer_lib.own_parts import check_weights_suffice
from transformer_lib.transformer import Transformer

from ..translation import source_ids
from ..translator import Translator
from .portable_tokenizer import write_readme, write_tokenizers

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
NEVER = -1e9  # the bias of <pad>, which is no word of the language; minus infinity would spoil sums

README = """import sys, ctranslate2
from tokenizers import Tokenizer

engine = ctranslate2.Translator(".", inter_threads=2)
source, target = Tokenizer.from_file("{source_file}"), Tokenizer.from_file("{target_file}")
source.encode_special_tokens = True  # the text "<eos>" is text
lines = [encoded.tokens[:{longest}] for encoded in source.encode_batch([line.strip() for line in sys.stdin])]
limits = [min(len(tokens) + 1 + {extra}, {most}) for tokens in lines]  # of each translation, in tokens
options = {{"max_batch_size": 128, "min_decoding_length": 0, "max_decoding_length": max(limits, default=1)}}
for result, limit in zip(engine.translate_batch(lines, beam_size=1, **options), limits):
    ids = [target.token_to_id(token) for token in result.hypotheses[0][:limit]]
    print(target.decode([i for i in ids if i != {bos_id}], skip_special_tokens=False))
```

With a `beam_size` of 1 {these}. Of a line of more than {longest} tokens the first {longest}
are read, as there. With a larger beam, a `length_penalty` of 1 divides a hypothesis's log-probability by its tokens.
"""
THESE = "these are the greedy translations of `transformer_lib`"
IN_8_BITS = "they are nearly those of `transformer_lib`: the matrices have 8 bits, and now and then a word differs"


def export_ctranslate2(translator: Translator, folder: Path, int8: bool = False) -> None:
    """Write a folder that translates with `ctranslate2` and `tokenizers` alone; its README.md says how.

    Args are those of write_ctranslate2.

    Raises:
        ImportError: CTranslate2 is missing.
        ValueError: a tokenizer of spaCy's words.
    """
    files = write_tokenizers(translator, folder)
    write_ctranslate2(translator, folder, int8)
    these = IN_8_BITS if int8 else THESE
    write_readme(translator, folder, README, "CTranslate2", "ctranslate2 tokenizers", these=these, **files)


def write_ctranslate2(translator: Translator, folder: Path, int8: bool = False) -> None:
    """Write what `ctranslate2.Translator` loads: the weights, settings and vocabulary of a translator.

    The engine reads and writes tokens as strings. Its greedy translations are the library's.

    Heads with another d_k than d_v are filled up with zeros.

    Args:
        folder: exists, and is empty.
        int8: whether matrices are stored as integers of 8 bits, with a scale for each row.

    Raises:
        ImportError: CTranslate2 is missing.
        ValueError: the model has parts of your own.
    """
    check_weights_suffice(translator.model)
    spec = _spec(translator.model)
    source, target = map(_vocabulary, (translator.source_tokenizer, translator.target_tokenizer))
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    config = translator.model.config
    spec.config.bos_token = spec.config.decoder_start_token = target[config.bos_id]
    spec.config.eos_token, spec.config.unk_token = target[config.eos_id], SPECIALS[UNK_ID]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization="int8" if int8 else None)
    spec.save(str(folder))


class Engine:
    """A translator whose decoder is CTranslate2; the tokenizers and the score of a hypothesis stay the library's.

    Args:
        threads: workers, each with sentences of its own; None: as many as PyTorch uses.

    Raises:
        ImportError: CTranslate2 is missing.
    """

    def __init__(self, translator: Translator, device: str = "cpu", threads: int | None = None, int8: bool = False):
        self.translator = translator
        self._ids = {token: i for i, token in enumerate(_vocabulary(translator.target_tokenizer))}
        kind, _, index = device.partition(":")
        workers = (threads or torch.get_num_threads()) if kind == "cpu" else 1
        options = {"device": kind, "device_index": int(index or 0), "inter_threads": workers, "intra_threads": 1}
        with tempfile.TemporaryDirectory() as folder:
            write_ctranslate2(translator, Path(folder), int8)
            self._engine = import_ctranslate2().Translator(folder, **options)

    def translate(self, sentences: Iterable[str], beam_size: int = 1, alpha: Alpha = PAPERS_ALPHA) -> list[str]:
        """One translation for each sentence, in the same order; beam_size 1 decodes greedily.

        The engine's beam finds hypotheses with their log-probabilities, and the library's length penalty chooses. The
        library's own beam goes on while an open candidate scores better, so now and then it finds another one.

        Args:
            alpha: as Translator.translate has it.
        """
        check_beam_size(beam_size)
        check_alpha(alpha)
        tokenizer, model = self.translator.source_tokenizer, self.translator.model
        encoded = source_ids(model, sentences, tokenizer)
        limits = [min(len(ids) + 1 + EXTRA, longest_output(model.config)) for ids in encoded]
        results = self._engine.translate_batch(
            [tokenizer.tokens(ids) for ids in encoded],
            max_batch_size=128,
            beam_size=beam_size,
            num_hypotheses=beam_size,
            length_penalty=0,
            return_scores=beam_size > 1,
            max_input_length=0,
            max_decoding_length=max(limits, default=1),
            min_decoding_length=0,
        )
        best = [_best(result, alpha)[:limit] for result, limit in zip(results, limits, strict=True)]
        found = [[self._ids[token] for token in tokens] for tokens in best]
        decode = self.translator.target_tokenizer.decode
        return [decode(own) if ids else "" for own, ids in zip(found, encoded, strict=True)]


def import_ctranslate2() -> Any:
    """The module. Raises ImportError, which says how to install it."""
    try:
        import ctranslate2
    except ImportError as error:
        raise ImportError("the engine ctranslate2 is missing: pip install ctranslate2") from error
    return ctranslate2


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.tokens(range(len(tokenizer)))


def _best(result: Any, alpha: Alpha) -> list[str]:
    if len(result.hypotheses) == 1:
        return result.hypotheses[0]
    lengths = [len(tokens) + 1 for tokens in result.hypotheses]  # of ours, <eos> counts as a token
    penalised = [s / length_penalty(n, alpha) for s, n in zip(result.scores, lengths, strict=True)]
    return result.hypotheses[penalised.index(max(penalised))]


def _spec(model: Transformer) -> Any:
    config, spec = model.config, _empty_spec(model.config)
    # Copies: the engine quantizes what it is given in its place.
    weights = {name: weight.detach().to("cpu", torch.float32, copy=True) for name, weight in model.state_dict().items()}
    weights |= _heads_of_one_width(config, weights)
    table = model.positions(torch.empty(1, longest_output(model.config), config.d_model))
    table = table.detach().to("cpu", torch.float32, copy=True)
    target, stacks = weights["embedding.weight"], {"encoder": spec.encoder, "decoder": spec.decoder}
    spec.encoder.embeddings[0].weight = weights.get("own_source_embedding.weight", target)
    spec.decoder.embeddings.weight = target
    spec.decoder.projection.weight = weights.get("own_output_embedding.weight", target)
    spec.decoder.projection.bias = weights.get("output_bias", torch.zeros(config.vocabulary_size))
    spec.decoder.projection.bias[config.pad_id] = NEVER
    for name, stack in stacks.items():
        stack.position_encodings.encodings = table
        if config.has_final_norm:
            _set_norm(stack.layer_norm, weights, f"{name}.norm")
        for i, layer in enumerate(stack.layer):
            _set_layer(layer, weights, f"{name}.layers.{i}.")
    return spec


def _empty_spec(config: TransformerConfig) -> Any:
    specs = import_ctranslate2().specs
    stack: dict[str, Any] = {
        "num_heads": config.num_heads,
        "head_dim": max(config.d_k, config.d_v),
        "activation": specs.Activation[ACTIVATIONS[config.activation]],
        "no_final_norm": not config.has_final_norm,
    }
    encoder = specs.TransformerEncoderSpec(config.num_layers, **stack)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, **stack)
    # Set afterwards: made with post-norm, a stack has no place for a final norm.
    encoder.pre_norm = decoder.pre_norm = config.norm_order == "pre"
    return specs.TransformerSpec(encoder, decoder)


def _heads_of_one_width(config: TransformerConfig, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    # The engine's queries, keys and values are equally wide.
    # The narrower ones get zeros, which add nothing to a product.
    width = max(config.d_k, config.d_v)
    widths = {"query": config.d_k, "key": config.d_k, "value": config.d_v, "output": config.d_v}
    padded: dict[str, Tensor] = {}
    for name, weight in weights.items():
        side = name.rpartition("_projection")[0].rpartition(".")[2]
        axis = int(side == "output")  # the one along which the heads stand side by side
        if side in widths and axis < weight.dim():  # The output's bias has no such axis.
            by_head = weight.unflatten(axis, (config.num_heads, widths[side]))
            room = [0, 0] * (weight.dim() - 1 - axis) + [0, width - widths[side]]
            factor = math.sqrt(width / config.d_k) if side == "query" else 1.0  # The engine divides by √width.
            padded[name] = F.pad(by_head, room).flatten(axis, axis + 1) * factor
    return padded


def _set_layer(layer: Any, weights: dict[str, Tensor], prefix: str) -> None:
    sides = ("query", "key", "value")
    _set_attention(layer.self_attention, weights, f"{prefix}self_attention", [sides])
    if hasattr(layer, "attention"):
        _set_attention(layer.attention, weights, f"{prefix}cross_attention", [sides[:1], sides[1:]])
    _set_linear(layer.ffn.linear_0, weights, [f"{prefix}feed_forward.inner"])
    _set_linear(layer.ffn.linear_1, weights, [f"{prefix}feed_forward.outer"])
    _set_norm(layer.ffn.layer_norm, weights, f"{prefix}feed_forward_norm.norm")


def _set_attention(part: Any, weights: dict[str, Tensor], name: str, stacked: list[tuple[str, ...]]) -> None:
    # The engine stacks the projections that read the same states.
    projections = [[f"{name}.{side}_projection" for side in sides] for sides in (*stacked, ("output",))]
    for linear, names in zip(part.linear, projections, strict=True):
        _set_linear(linear, weights, names)
    _set_norm(part.layer_norm, weights, f"{name}_norm.norm")


def _set_linear(linear: Any, weights: dict[str, Tensor], names: list[str]) -> None:
    linear.weight = torch.cat([weights[f"{name}.weight"] for name in names])
    if f"{names[0]}.bias" in weights:
        linear.bias = torch.cat([weights[f"{name}.bias"] for name in names])


def _set_norm(norm: Any, weights: dict[str, Tensor], name: str) -> None:
    norm.gamma, norm.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
