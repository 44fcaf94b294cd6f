"""The encoder, the decoder and the whole model; its size; and the weights of its attention."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import TransformerConfig
from .embeddings import TokenEmbedding, check_ids
from .fast import watch_attention
from .layers import DecoderLayer, EncoderLayer
from .masks import causal_mask, padding_mask
from .multi_head_attention import MultiHeadAttention
from .positional_encoding import LearnedPositions, SinusoidalPositions
from .shapes import (
    CrossMask,
    KeyStates,
    Logits,
    Memory,
    QueryStates,
    SelfMask,
    SourceIds,
    SourceMask,
    States,
    TargetIds,
)

# Of an attention in the model: stack, number and role; and what stands inside a module around it.
PLACE = re.compile(r"(?:^|\.)(encoder|decoder)\.layers\.(\d+)\.(self|cross)_attention(\..+)?$")
UNCLEAR = "a place in a layer needs one MultiHeadAttention of its own, in a model that is not compiled"


def final_norm(config: TransformerConfig) -> nn.Module:
    """What stands after a stack: nothing in the paper's post-norm, one normalisation in pre-norm."""
    return nn.LayerNorm(config.d_model) if config.has_final_norm else nn.Identity()


class Encoder(nn.Module):
    """A stack of num_layers encoder layers. Source: section 3.1."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        self.norm = final_norm(config)

    def forward(self, states: States, source_mask: SourceMask) -> States:
        """From embedded source tokens to the memory."""
        for layer in self.layers:
            states = layer(states, source_mask)
        return self.norm(states)


class Decoder(nn.Module):
    """A stack of decoder layers, as many as the config has; each one looks at the same memory. Source: section 3.1."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.norm = final_norm(config)

    def forward(
        self,
        states: QueryStates,
        memory: KeyStates,
        target_mask: SelfMask,
        source_mask: CrossMask,
    ) -> QueryStates:
        """From embedded target tokens and the memory to the states that become logits."""
        for layer in self.layers:
            states = layer(states, memory, target_mask, source_mask)
        return self.norm(states)


class Transformer(nn.Module):
    """The encoder-decoder model of the paper. Source: figure 1, section 3.

    `model(source, target_input)` gives the logits of each next token. The masks are derived from `pad_id`.
    torch.compile and torch.export take it, torch.jit.trace does not.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocabulary_size, config.d_model)
        self.own_source_embedding = (  # None: the source shares the target's matrix
            TokenEmbedding(config.source_vocabulary_size, config.d_model) if config.source_vocabulary_size else None
        )
        self.positions = (
            LearnedPositions(config.max_positions, config.d_model)
            if config.positions == "learned"
            else SinusoidalPositions(config.d_model)
        )
        self.own_output_embedding = (  # None: the output shares the target's matrix
            None if config.tied_output else TokenEmbedding(config.vocabulary_size, config.d_model)
        )
        self.output_bias = nn.Parameter(torch.zeros(config.vocabulary_size)) if config.output_bias else None
        self.dropout = nn.Dropout(config.p_drop)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        for module in self.modules():  # The paper names no initialisation; Glorot's is that of the authors' own code.
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, source: SourceIds, target_input: TargetIds) -> Logits:
        """The logits of the token after each position of target_input.

        Raises:
            ValueError: ids outside the vocabulary, batches of different sizes, a source of padding alone.
            TypeError: a list in place of a tensor.
        """
        return self.decode(target_input, self.encode(source), source)

    def encode(self, source: SourceIds) -> Memory:
        """The encoder's output, a vector for each source token.

        Raises as forward does.
        """
        # The check reads values back from the device.
        if not torch.compiler.is_compiling():
            self.check_source(source)
        embedding = self.own_source_embedding or self.embedding
        embedded = self.embed(source, embedding)
        return self.encoder(embedded, padding_mask(source, self.config.pad_id))

    def decode(
        self,
        target_input: TargetIds,
        memory: Memory,
        source: SourceIds,
    ) -> Logits:
        """Logits from the memory of `source` and the target so far.

        Arguments and errors are those of forward.
        """
        if not torch.compiler.is_compiling():
            check_ids("target_input", target_input, self.config.vocabulary_size)
        sentences = target_input.size(0)
        if memory.shape[:2] != source.shape or memory.size(0) != sentences:
            raise ValueError(
                f"target_input {tuple(target_input.shape)}, "
                f"memory {tuple(memory.shape)} "
                f"and source {tuple(source.shape)} do not belong together: "
                "one row for each sentence, "
                "and a vector of memory for each source token"
            )
        pad_id = self.config.pad_id
        causal = causal_mask(target_input.size(1), device=target_input.device)
        real = padding_mask(target_input, pad_id)
        # <bos>, even where it is the padding's id, as in Marian's models
        real[..., 0] = True
        target_mask = causal & real  # (batch, 1, target, target)
        # Made once more: the memory does not tell its padding.
        source_mask = padding_mask(source, pad_id)  # (batch, 1, 1, source)
        embedded = self.embed(target_input, self.embedding)
        states = self.decoder(embedded, memory, target_mask, source_mask)
        return self.logits(states)

    def logits(
        self,
        states: Float[Tensor, "*positions d_model"],
    ) -> Float[Tensor, "*positions vocabulary"]:
        """How well each token of the vocabulary fits as the next one."""
        embedding = self.own_output_embedding or self.embedding
        return embedding.logits(states, self.output_bias)

    def embed(
        self,
        tokens: TargetIds,
        embedding: TokenEmbedding,
        position: Float[Tensor, " d_model"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Dropout(token embedding + positional encoding).

        Source: section 5.4 [emb-dropout].

        Args:
            position: one encoding for all tokens;
                None: they stand at 0, 1, 2, …
        """
        embedded = embedding(tokens)
        if position is None:
            position = self.positions(embedded)
        return self.dropout(embedded + position)

    def check_source(self, source: SourceIds) -> None:
        """Raise ValueError for ids outside the vocabulary, and for a sentence of padding alone."""
        config = self.config
        check_ids("source", source, config.source_vocabulary_size or config.vocabulary_size)
        empty = (source == config.pad_id).all(dim=1)
        if not source.is_meta and empty.any():
            row = int(empty.nonzero()[0])
            raise ValueError(f"source[{row}] is padding alone (pad_id = {config.pad_id}): nothing to look at")


def count_parameters(model_or_config: nn.Module | TransformerConfig) -> int:
    """Trainable parameters: counted on a model, or in closed form, without building it, from a config.

    Source: Table 3, last column [table-3].
    """
    if isinstance(model_or_config, nn.Module):
        return sum(p.numel() for p in model_or_config.parameters() if p.requires_grad)
    c = model_or_config
    attention = c.num_heads * (2 * c.d_k + 2 * c.d_v) * c.d_model
    if c.attention_bias:
        attention += c.num_heads * (2 * c.d_k + c.d_v) + c.d_model
    feed_forward = 2 * c.d_model * c.d_ff + c.d_ff + c.d_model
    norm = 2 * c.d_model  # gain and bias
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    final_norms = 2 * norm if c.has_final_norm else 0
    tables = c.vocabulary_size + (c.source_vocabulary_size or 0)
    if not c.tied_output:
        tables += c.vocabulary_size
    if c.positions == "learned":
        tables += c.max_positions
    biases = c.vocabulary_size if c.output_bias else 0
    layers = c.num_layers * encoder_layer + c.decoder_layers * decoder_layer
    return layers + final_norms + tables * c.d_model + biases


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Float[Tensor, "batch heads queries keys"]]]:
    """Keep the weights of every layer and head of the forward passes inside the `with` block, in this thread alone.

    Yields:
        a dict that holds, after a forward pass, (batch, heads, queries, keys) under the keys
        `encoder.{i}.self`, `decoder.{i}.self` and `decoder.{i}.cross`; a later pass overwrites an earlier one.

    Raises:
        ValueError: as named_attentions does; at the end of the block, an attention of the reader's own that ran and
            recorded no weights.
    """
    names: dict[nn.Module, str] = {attention: name for name, attention in named_attentions(model)}
    weights: dict[str, Tensor] = {}
    silent: set[str] = set()
    here = get_ident()

    def record(attention: nn.Module, recorded: Tensor) -> None:
        if attention in names:  # another model may run inside the block
            weights[names[attention]] = recorded

    def listen(attention: nn.Module, *_: object) -> None:
        if get_ident() == here and (name := names[cast(MultiHeadAttention, attention)]) not in weights:
            silent.add(name)

    # The library's own attention always tells its weights.
    own = [a for a in names if type(a) is not MultiHeadAttention or vars(a).keys() & {"forward", "attend"}]
    with ExitStack() as hooks, watch_attention(record):
        for attention in own:
            hooks.enter_context(attention.register_forward_hook(listen))
        yield weights
    if silent:
        remedy = "compute the output by super().attend, or call watcher()(self, weights) of transformer_lib.attention"
        raise ValueError(
            f"no weights of {', '.join(sorted(silent))}: an attention of your own must tell them; {remedy}"
        )


def named_attentions(model: nn.Module) -> list[tuple[str, MultiHeadAttention]]:
    """Every attention of the model under the key that record_attention gives its weights.

    A module around an attention, as `decoder.layers.0.cross_attention`, leaves it its key.

    Raises:
        ValueError: two attentions in one place, one in two, one elsewhere, a place with none, or a compiled model,
            which shows nobody its weights; the message names the place.
    """
    found: dict[str, MultiHeadAttention] = {}
    places = set()
    for path, module in model.named_modules(remove_duplicate=False):
        place = PLACE.search(path)
        name = f"{place[1]}.{place[2]}.{place[3]}" if place else path
        if place and not place[4]:
            places.add(name)
        if isinstance(module, MultiHeadAttention):
            if not place or name in found or module in found.values() or "_orig_mod" in path.split("."):
                raise ValueError(f"{path} cannot be recorded: {UNCLEAR}")
            found[name] = module
    if empty := places - found.keys():
        raise ValueError(f"{min(empty)} cannot be recorded: it holds no MultiHeadAttention")
    return list(found.items())


def parts(module: nn.Module) -> list[nn.Module]:
    """The module and all below it; one in two places comes twice. Of a small model `modules()` takes the time of a
    decoding step."""
    found = [module]
    for part in found:
        found += [child for child in part._modules.values() if child is not None]
    return found


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the `with` block; restore each module's mode afterwards."""
    training = [part for part in parts(model) if part.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
