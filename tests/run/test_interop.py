"""Peers: PyTorch's nn.Transformer inside a translator written here, and Hugging Face's MarianMTModel."""

import ast
import math
import random
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import MarianConfig, MarianForCausalLM, MarianMTModel

from transformer_lib import Transformer, beam_search, count_parameters, greedy_decode, interop, label_smoothing_loss
from transformer_lib.interop import from_marian, from_torch

# What PyTorch says about the speed of its own stacks.
pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]
SEEDS = range(20)
LONGEST = 12  # rows of a peer's table of positions
POSITIONS = [
    "interleaved", "interleaved, computed", "halves", "halves, computed", "embedding", "parameter", None
]  # fmt: skip
ACTIVATIONS = ["relu", "gelu", F.relu, F.gelu, F.silu, nn.ReLU(), nn.GELU(), nn.SiLU()]


def sines_and_cosines(length, d_model, *, halves=False):
    table = torch.zeros(length, d_model)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, i if halves else 2 * i] = math.sin(angle)
            table[position, d_model // 2 + i if halves else 2 * i + 1] = math.cos(angle)
    return table


@torch.no_grad()
def randomise(module):
    """Gains and biases too: at 1 and 0 a mistake would not show. Matrices keep the size of what they multiply."""
    for name, parameter in module.named_parameters():
        if "embed_positions" not in name:
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.normal_(centre, 0.3 if parameter.dim() == 1 else parameter.size(-1) ** -0.5)


class Peer(nn.Module):
    """A translator around nn.Transformer, as people write them; the options are those that its users vary."""

    def __init__(self, *, d_model=8, num_heads=2, depth=(2, 2), d_ff=13, activation="relu", norm_first=False, bias=True,
                 final_norm=True, batch_first=True, vocabulary=19, own_source=None, output="tied", output_bias=False,
                 scale=None, positions="interleaved", pad_id=0, length_first=False):  # fmt: skip
        super().__init__()
        shape = {"nhead": num_heads, "dim_feedforward": d_ff, "dropout": 0.3, "activation": activation, "bias": bias}
        shape |= {"norm_first": norm_first, "batch_first": batch_first}
        stacks = {}
        if not final_norm:
            encoder, decoder = (
                nn.TransformerEncoderLayer(d_model, **shape),
                nn.TransformerDecoderLayer(d_model, **shape),
            )
            stacks = {"custom_encoder": nn.TransformerEncoder(encoder, depth[0])}
            stacks |= {"custom_decoder": nn.TransformerDecoder(decoder, depth[1])}
        self.transformer = nn.Transformer(
            d_model, num_encoder_layers=depth[0], num_decoder_layers=depth[1], **stacks, **shape
        )
        for layer in self.transformer.decoder.layers:  # PyTorch's copies forget an activation that is a module
            layer.activation = self.transformer.encoder.layers[0].activation
        self.target_embedding = nn.Embedding(vocabulary, d_model)
        if own_source:
            self.source_embedding = nn.Embedding(own_source, d_model)
        if output == "own" or output_bias:
            self.head = nn.Linear(d_model, vocabulary, bias=output_bias)
            if output == "tied":
                self.head.weight = self.target_embedding.weight
        if positions in ("interleaved", "halves"):
            table = sines_and_cosines(LONGEST, d_model, halves=positions == "halves")
            self.register_buffer("sinusoids", table[:, None] if length_first else table, persistent=False)
        elif positions == "embedding":
            self.pos_embedding = nn.Embedding(LONGEST, d_model)
        elif positions == "parameter":
            self.places = nn.Parameter(torch.empty(1, LONGEST, d_model))
        self.scale, self.pad_id = scale or math.sqrt(d_model), pad_id
        self.positions, self.length_first = positions, length_first
        randomise(self)

    def table(self):
        found = getattr(self, "sinusoids", getattr(self, "places", None))
        if hasattr(self, "pos_embedding"):
            found = self.pos_embedding.weight
        if self.positions in ("interleaved, computed", "halves, computed"):
            found = sines_and_cosines(LONGEST, self.target_embedding.embedding_dim, halves="halves" in self.positions)
        return None if found is None else found.squeeze()

    def embed(self, ids, embedding):
        states = embedding(ids) * self.scale
        if self.table() is not None:
            states = states + self.table()[: ids.size(1)]
        return states if self.transformer.batch_first else states.transpose(0, 1)

    def forward(self, source, target_input):
        if self.length_first:
            source, target_input = source.T, target_input.T
        target_padding = target_input == self.pad_id
        target_padding[:, 0] = False
        states = self.transformer(
            self.embed(source, getattr(self, "source_embedding", self.target_embedding)),
            self.embed(target_input, self.target_embedding),
            tgt_mask=torch.ones(target_input.size(1), target_input.size(1), dtype=torch.bool).triu(1),
            src_key_padding_mask=source == self.pad_id,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source == self.pad_id,
        )
        logits = self.head(states) if hasattr(self, "head") else states @ self.target_embedding.weight.T
        return logits if self.transformer.batch_first != self.length_first else logits.transpose(0, 1)

    def parts(self):
        """The arguments that hand its parts over one by one."""
        source = getattr(self, "source_embedding", self.target_embedding)
        target = self.target_embedding if hasattr(self, "source_embedding") else None
        table = "sinusoidal" if "interleaved" in str(self.positions) else self.table()
        where = {"positions": table, "embedding_scale": self.scale, "pad_id": self.pad_id}
        return (self.transformer, source, target, getattr(self, "head", None)), where


def options(seed):
    rng = random.Random(seed)
    num_heads, depth, vocabulary = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.randrange(11, 23)
    own_source = rng.choice([None, vocabulary, vocabulary - 3])
    return {
        "num_heads": num_heads, "d_model": num_heads * rng.choice([4, 6]), "d_ff": rng.choice([7, 13]),
        "depth": (depth, depth), "activation": rng.choice(ACTIVATIONS), "norm_first": rng.random() < 0.5,
        "bias": rng.random() < 0.7, "final_norm": rng.random() < 0.5, "batch_first": rng.random() < 0.5,
        "vocabulary": vocabulary, "own_source": own_source, "output": rng.choice(["tied", "own"]),
        "output_bias": rng.random() < 0.5, "scale": rng.choice([None, 1.0]),
        "positions": POSITIONS[seed % len(POSITIONS)],
        "pad_id": rng.choice([0, (own_source or vocabulary) - 4, 7]), "length_first": rng.random() < 0.3,
    }  # fmt: skip


def a_batch(pad_id, source_size, target_size, bos_id=1):
    """Random ids with padding on the right of both sides."""
    source = torch.randint(source_size - 1, (3, 7))
    target = torch.randint(target_size - 1, (3, 6))
    source, target = source + (source >= pad_id), target + (target >= pad_id)
    target[:, 0] = bos_id
    source[1, 4:] = source[2, 1:] = pad_id
    target[1, 3:] = target[2, 5:] = pad_id
    return source, target


@torch.no_grad()
def assert_same(model, peer, source, target):
    """Equal logits wherever the target is not padding."""
    expected = peer(source, target)
    found = model(source, target)
    real = target != model.config.pad_id
    real[:, 0] = True
    assert found.shape == expected.shape
    torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)


def batch_first(peer):
    """A peer's logits with the batch as first axis, whatever its own order is."""
    if not peer.length_first:
        return peer
    return lambda source, target: peer(source.T, target.T).transpose(0, 1)


@pytest.mark.parametrize("form", ["by parts", "as a whole"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_module_around_pytorchs_transformer_keeps_its_function(seed, form):
    torch.manual_seed(seed)
    chosen = options(seed)
    if form == "by parts" and seed % 3 == 0:
        chosen["scale"] = 2.5
    peer = Peer(**chosen).eval()
    model = from_torch(*peer.parts()[0], **peer.parts()[1]) if form == "by parts" else from_torch(peer)
    assert not model.training
    assert model.config.p_drop == 0.3
    assert count_parameters(model.config) == count_parameters(model)
    batch = a_batch(chosen["pad_id"], chosen["own_source"] or chosen["vocabulary"], chosen["vocabulary"])
    assert_same(model, batch_first(peer), *batch)


def tiny_marian(seed, **changes):
    """A Marian translator with every weight random; <eos> is likely enough to be chosen."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    heads, layers, d_ff, vocabulary = (
        rng.choice([1, 2, 3]),
        rng.choice([1, 2]),
        rng.choice([7, 13]),
        rng.randrange(11, 23),
    )
    separate = rng.random() < 0.3
    pad_id = rng.choice([0, vocabulary - 1])
    settings = {
        "d_model": heads * rng.choice([4, 6]), "encoder_layers": layers, "decoder_layers": layers,
        "encoder_ffn_dim": d_ff, "decoder_ffn_dim": d_ff, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "activation_function": rng.choice(["swish", "silu", "gelu", "relu"]),
        "scale_embedding": rng.random() < 0.5, "share_encoder_decoder_embeddings": not separate,
        "tie_word_embeddings": rng.random() < 0.7, "vocab_size": vocabulary,
        "decoder_vocab_size": vocabulary + 2 if separate else None, "max_position_embeddings": 24, "dropout": 0.2,
        "pad_token_id": pad_id, "eos_token_id": vocabulary // 2, "forced_eos_token_id": None,
        "decoder_start_token_id": rng.choice([pad_id, pad_id, 3]),
    }  # fmt: skip
    hf = MarianMTModel(MarianConfig(**settings | changes)).eval()
    randomise(hf)
    with torch.no_grad():
        if rng.random() < 0.8:
            hf.final_logits_bias.normal_(std=0.4)
            hf.final_logits_bias[:, hf.config.eos_token_id] += 1.0
    return hf


def marian_batch(hf):
    config = hf.config
    return a_batch(config.pad_token_id, config.vocab_size, config.decoder_vocab_size, config.decoder_start_token_id)


def marian_logits(hf):
    def logits(source, target):
        mask = (source != hf.config.pad_token_id).long()
        return hf(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits

    return logits


@pytest.mark.parametrize("seed", SEEDS)
def test_a_marian_model_keeps_its_function(seed):
    hf = tiny_marian(seed)
    model = from_marian(hf)
    assert not model.training
    assert (model.config.positions, model.config.p_drop) == ("sinusoidal", hf.config.dropout)
    assert count_parameters(model.config) == count_parameters(model)
    assert_same(model, marian_logits(hf), *marian_batch(hf))


def until_eos(rows, eos_id):
    return [row[: row.index(eos_id) + 1] if eos_id in row else row for row in rows.tolist()]


def decoded(model, source, beam_size, max_length=9):
    if beam_size == 1:
        return until_eos(greedy_decode(model, source, max_length), model.config.eos_id)
    return until_eos(beam_search(model, source, beam_size, 0.0, max_length), model.config.eos_id)


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_marian_generates_the_same_tokens_in_both_libraries(beam_size):
    lengths = []
    for seed in range(5):
        hf = tiny_marian(seed, tie_word_embeddings=seed % 4 == 0)
        source, eos_id = marian_batch(hf)[0], hf.config.eos_token_id
        # A search that stops as ours does. Padding is not a word of the language.
        search = {"num_beams": beam_size, "length_penalty": 0.0, "early_stopping": False} if beam_size > 1 else {}
        expected = hf.generate(
            input_ids=source,
            attention_mask=(source != hf.config.pad_token_id).long(),
            bad_words_ids=[[hf.config.pad_token_id]],
            max_new_tokens=9,
            do_sample=False,
            **search,
        )
        expected = until_eos(expected[:, 1:], eos_id)  # without the start token
        assert decoded(from_marian(hf), source, beam_size) == expected
        lengths += map(len, expected)
    assert {1, 9} < set(lengths)  # some end at once, some on the way, some at the limit


@torch.no_grad()
def next_scores(logits, sentence, tokens):
    return logits(sentence, torch.tensor([tokens]))[0, -1].log_softmax(-1).tolist()


def greedy_by_loops(next_scores, config, max_length):
    """The likeliest token at each step, computed from the start."""
    tokens = [config.bos_id]
    while len(tokens) <= max_length and tokens[-1] != config.eos_id:
        scores = next_scores(tokens)
        tokens.append(max((i for i in range(len(scores)) if i != config.pad_id), key=scores.__getitem__))
    return tokens[1:]


def beam_by_loops(next_scores, config, max_length, beam_size):
    """The likeliest of beam_size candidates, each step computed from the start."""
    candidates, ended = [(0.0, [config.bos_id])], []
    for _ in range(max_length):
        longer = []
        for total, tokens in candidates:
            scores = next_scores(tokens)
            longer += [(total + scores[i], [*tokens, i]) for i in range(len(scores)) if i != config.pad_id]
        longer.sort(reverse=True)
        ended += [candidate for candidate in longer[:beam_size] if candidate[1][-1] == config.eos_id]
        ended = sorted(ended, reverse=True)[:beam_size]
        candidates = [candidate for candidate in longer if candidate[1][-1] != config.eos_id][:beam_size]
        if len(ended) == beam_size and ended[-1] >= candidates[0]:
            return ended[0][1][1:]
    return max(ended + candidates)[1][1:]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_pytorchs_module_decoded_by_loops_gives_the_same_tokens(beam_size):
    lengths = []
    for seed in range(4):
        torch.manual_seed(seed)
        peer = Peer(**options(seed) | {"output": "own", "output_bias": True, "pad_id": 0, "own_source": None}).eval()
        peer.head.bias.data[2] += 0.5  # <eos>
        source = a_batch(0, peer.target_embedding.num_embeddings, 5)[0]
        model, expected = from_torch(peer), []
        for row in source:
            scores = partial(next_scores, batch_first(peer), row[row != 0][None])
            if beam_size == 1:
                expected.append(greedy_by_loops(scores, model.config, 9))
            else:
                expected.append(beam_by_loops(scores, model.config, 9, beam_size))
        assert decoded(model, source, beam_size) == expected
        lengths += map(len, expected)
    assert len(set(lengths)) > 2


class PositionsFirst(nn.Module):
    """As in PyTorch's tutorials: (length, 1, d_model) sinusoids, computed in float32 through exp and log."""

    def __init__(self, d_model, length=5000):
        super().__init__()
        frequencies = torch.exp(-torch.arange(0, d_model, 2) * math.log(10000) / d_model)
        angles = torch.arange(length).reshape(length, 1) * frequencies
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        self.register_buffer("pos_embedding", table.unsqueeze(-2))

    def forward(self, states):
        return states + self.pos_embedding[: states.size(0)]


class TokensFirst(nn.Module):
    def __init__(self, vocabulary, d_model):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)

    def forward(self, tokens):
        return self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)


class Tutorial(nn.Module):
    """The shape of a module that many copy: seven arguments, masks made outside, the length as first axis."""

    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(12, 3, 2, 2, 20)
        self.generator = nn.Linear(12, 17)
        self.src_tok_emb, self.tgt_tok_emb = TokensFirst(15, 12), TokensFirst(17, 12)
        self.positional_encoding = PositionsFirst(12)

    def forward(self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, memory_key_padding_mask):
        tgt_padding_mask = (trg == 1).T if tgt_padding_mask is None else tgt_padding_mask
        source = self.positional_encoding(self.src_tok_emb(src))
        target = self.positional_encoding(self.tgt_tok_emb(trg))
        masks = (src_mask, tgt_mask, None, src_padding_mask, tgt_padding_mask, memory_key_padding_mask)
        return self.generator(self.transformer(source, target, *masks))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_tutorials_module_is_recognised_in_every_dtype(dtype):
    peer = Tutorial().to(dtype).eval()
    model = from_torch(peer, pad_id=1, bos_id=2, eos_id=3)
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert (model.config.positions, model.config.source_vocabulary_size) == ("sinusoidal", 15)
    source, target = a_batch(1, 15, 17, bos_id=2)
    padding = (source == 1, target == 1)
    causal = nn.Transformer.generate_square_subsequent_mask(target.size(1)) < 0
    expected = peer(source.T, target.T, None, causal, *padding, padding[0]).transpose(0, 1)
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    found = model(source, target)
    torch.testing.assert_close(found[target != 1], expected[target != 1], rtol=tolerance, atol=tolerance)


def test_a_scale_goes_into_the_last_normalisation_or_into_an_output_of_its_own():
    ids = a_batch(0, 19, 19)
    for norm_first, final_norm, tied in [
        (False, False, True),
        (False, True, True),
        (True, True, True),
        (True, False, False),
    ]:
        peer = Peer(scale=1.7, norm_first=norm_first, final_norm=final_norm).eval()
        model = from_torch(*peer.parts()[0], **peer.parts()[1])
        assert model.config.tied_output == tied
        assert_same(model, peer, *ids)


def test_equal_matrices_become_one_and_others_do_not():
    peer = Peer(output="own", own_source=19).eval()
    model = from_torch(peer)
    assert (model.config.source_vocabulary_size, model.config.tied_output) == (19, False)
    peer.source_embedding.weight.data = peer.target_embedding.weight.data.clone()
    peer.head.weight.data = peer.target_embedding.weight.data.clone()
    model = from_torch(peer)
    assert (model.config.source_vocabulary_size, model.config.tied_output) == (None, True)
    assert_same(model, peer, *a_batch(0, 19, 19))


def test_a_table_limits_the_length_and_sinusoids_do_not():
    peer = Peer()
    learned = {"by parts": [None, torch.randn(5, 8), peer.sinusoids], "whole": [peer.sinusoids]}
    configs = [from_torch(*peer.parts()[0], positions=table).config for table in learned["by parts"]]
    configs += [from_torch(peer, positions=table).config for table in learned["whole"]]
    assert {config.positions for config in configs} == {"learned"}
    assert [config.max_positions for config in configs] == [1024, 5, LONGEST, LONGEST]
    assert from_torch(peer).config.positions == from_torch(*peer.parts()[0]).config.positions == "sinusoidal"


def test_a_table_passed_by_hand_keeps_every_digit():
    peer = Tutorial().eval()
    source, target = a_batch(1, 15, 17, bos_id=2)
    source = source.repeat(1, 200)  # here the tutorial's table is off the exact sinusoids by 1e-5 and more
    padding = (source == 1, target == 1)
    causal = nn.Transformer.generate_square_subsequent_mask(target.size(1)) < 0
    expected = peer(source.T, target.T, None, causal, *padding, padding[0]).transpose(0, 1)
    model = from_torch(peer, positions=peer.positional_encoding.pos_embedding, pad_id=1, bos_id=2, eos_id=3)
    torch.testing.assert_close(model(source, target)[target != 1], expected[target != 1], rtol=1e-5, atol=1e-5)


def test_an_odd_d_model_takes_a_table():
    peer = Peer(d_model=9, num_heads=3, positions="embedding").eval()
    assert_same(from_torch(peer), peer, *a_batch(0, 19, 19))
    hf = tiny_marian(0, d_model=9, encoder_attention_heads=3, decoder_attention_heads=3)
    model = from_marian(hf)
    assert (model.config.positions, model.config.max_positions) == ("learned", 24)
    assert_same(model, marian_logits(hf), *marian_batch(hf))


def test_marians_own_table_of_positions_is_learned():
    hf = tiny_marian(1)
    table = torch.randn_like(hf.model.encoder.embed_positions.weight)
    for stack in (hf.model.encoder, hf.model.decoder):
        stack.embed_positions.weight.data = table.clone()
    model = from_marian(hf)
    assert model.config.positions == "learned"
    assert_same(model, marian_logits(hf), *marian_batch(hf))


def test_a_normalisation_without_gain_and_a_stack_without_one_are_known():
    peer = Peer(final_norm=False)
    for stack in (peer.transformer.encoder, peer.transformer.decoder):
        stack.norm = nn.LayerNorm(8, elementwise_affine=False)
    assert_same(from_torch(peer.eval()), peer, *a_batch(0, 19, 19))
    for stack in (peer.transformer.encoder, peer.transformer.decoder):
        stack.norm = nn.Identity()
    model = from_torch(peer.eval())
    assert model.config.final_norm is False
    assert_same(model, peer, *a_batch(0, 19, 19))


def both_kinds():
    peer, hf = Peer(**options(5)), tiny_marian(5).train()
    peer.transformer.encoder.eval()  # a mixture of modes, to be left alone
    return [(peer, from_torch), (hf, from_marian)]


@pytest.mark.parametrize("kind", [0, 1])
def test_the_given_module_stays_as_it_is(kind):
    peer, convert = both_kinds()[kind]
    before = {name: weight.clone() for name, weight in peer.state_dict().items()}
    modes, random_state = [part.training for part in peer.modules()], torch.get_rng_state()
    model = convert(peer)
    for parameter in model.parameters():
        parameter.data.fill_(7.0)  # would show in a shared memory
    assert all(torch.equal(weight, before[name]) for name, weight in peer.state_dict().items())
    assert [part.training for part in peer.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("kind", [0, 1])
def test_the_result_saves_loads_and_trains_like_any_other_model(kind, tmp_path):
    peer, convert = both_kinds()[kind]
    model = convert(peer)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other = Transformer(model.config).eval()
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    ids = a_batch(model.config.pad_id, model.config.source_vocabulary_size or model.config.vocabulary_size, 11, 3)
    assert torch.equal(other(*ids), model(*ids))
    logits = model.train()(*ids)
    label_smoothing_loss(logits, ids[1], pad_id=model.config.pad_id).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()


def test_transformers_is_not_needed():
    imports = list(ast.walk(ast.parse(Path(interop.__file__).read_text("utf-8"))))
    names = [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.startswith("transformers")]


def layer_changed(**attributes):
    """A peer whose last decoder layer differs from the others."""
    peer = Peer()
    for path, value in attributes.items():
        owner, _, name = f"transformer.decoder.layers.1.{path.replace('__', '.')}".rpartition(".")
        setattr(peer.get_submodule(owner), name, value)
    return peer


class Holder(nn.Module):
    """Parts without a forward that joins them."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, source, target_input):
        raise RuntimeError("no way to join them")


class Shouting(Peer):
    def forward(self, source, target_input):
        return super().forward(source, target_input) * 3


class Flat(Peer):
    def forward(self, source, target_input, _temperature=1.0):
        return super().forward(source, target_input).flatten(0, 1)


class Doubled(nn.TransformerEncoderLayer):
    def forward(self, *inputs, **masks):
        return 2 * super().forward(*inputs, **masks)


def two_tables():
    class TwoTables(Peer):
        def embed(self, ids, embedding):
            rows = (self.pos_embedding if embedding is self.target_embedding else self.source_pos).weight
            return embedding(ids) * self.scale + rows[: ids.size(1)]

    peer = TwoTables(own_source=19, positions="embedding")
    peer.source_pos = nn.Embedding(LONGEST, 8)
    return peer


def stacks(encoder_layer=None, encoder_norm=None, decoder_norm=None):
    shape = {"d_model": 8, "nhead": 2, "dim_feedforward": 13, "batch_first": True}
    encoder = nn.TransformerEncoder(encoder_layer or nn.TransformerEncoderLayer(**shape), 2, encoder_norm)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), 2, decoder_norm)
    return nn.Transformer(8, 2, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)


def hooked():
    transformer = stacks()
    transformer.encoder.layers[0].register_forward_hook(lambda _module, _inputs, states: states + 1)
    return transformer


TOKENS = nn.Embedding(19, 8)
REFUSED = {
    "no nn.Transformer": (lambda: from_torch(nn.Linear(2, 2)), "Linear holds 0 nn.Transformer"),
    "two of them": (lambda: from_torch(Holder(a=stacks(), b=stacks())), "Holder holds 2 nn.Transformer"),
    "no embedding": (lambda: from_torch(stacks()), "holds 0 token embeddings .*, not one or two. Pass its parts"),
    "three embeddings": (
        lambda: from_torch(Holder(t=stacks(), a=TOKENS, b=nn.Embedding(5, 8), c=nn.Embedding(6, 8))),
        r"3 token embeddings \['a', 'b', 'c'\]",
    ),
    "an output alone": (lambda: from_torch(stacks(), output=nn.Linear(8, 19)), "embedding = None beside"),
    "depths": (lambda: from_torch(Peer(depth=(1, 2))), r"num_layers has the values \[1, 2\]"),
    "heads": (lambda: from_torch(layer_changed(self_attn__num_heads=4)), r"num_heads has the values \[2, 4\]"),
    "d_ff": (
        lambda: from_torch(layer_changed(linear1=nn.Linear(8, 5), linear2=nn.Linear(5, 8))),
        r"d_ff has the values \[13, 5\]",
    ),
    "norm orders": (lambda: from_torch(layer_changed(norm_first=True)), r"norm_order has the values \['post', 'pre'\]"),
    "activations": (
        lambda: from_torch(layer_changed(activation=F.gelu)),
        r"activation has the values \['relu', 'gelu'\]",
    ),
    "tanh": (lambda: from_torch(Peer(activation=torch.tanh)), "activation = .*tanh.* is none of relu, gelu, silu"),
    "gelu by tanh": (lambda: from_torch(Peer(activation=nn.GELU("tanh"))), "approximate='tanh'.* is none of relu"),
    "eps of one": (lambda: from_torch(layer_changed(norm2=nn.LayerNorm(8, 1e-6))), "layer_norm_eps has the values"),
    "eps of all": (
        lambda: from_torch(nn.Transformer(8, 2, 1, 1, 13, layer_norm_eps=1e-6), TOKENS),
        "layer_norm_eps = 1e-06 has no counterpart: .* 1e-05",
    ),
    "one final norm": (
        lambda: from_torch(stacks(encoder_norm=nn.LayerNorm(8)), TOKENS),
        r"final_norm has the values \[True, False\]",
    ),
    "another norm": (
        lambda: from_torch(stacks(encoder_norm=nn.RMSNorm(8), decoder_norm=nn.RMSNorm(8)), TOKENS),
        "has the weights .*'encoder.norm.weight'",
    ),
    "a subclass": (
        lambda: from_torch(stacks(Doubled(8, 2, 13, batch_first=True)), TOKENS),
        "Doubled in nn.Transformer is not PyTorch's own",
    ),
    "a hook": (lambda: from_torch(hooked(), TOKENS), "computes more than its weights tell"),
    "a bias of keys": (
        lambda: from_torch(layer_changed(self_attn=nn.MultiheadAttention(8, 2, add_bias_kv=True)), TOKENS),
        "has the weights .*bias_k",
    ),
    "an odd d_model": (
        lambda: from_torch(nn.Transformer(9, 3, 1, 1, 13), nn.Embedding(19, 9)),
        "positions = 'sinusoidal' with d_model = 9 must be .* a table, or None",
    ),
    "a narrow table": (
        lambda: from_torch(stacks(), TOKENS, positions=torch.zeros(9, 7)),
        r"positions matrix .*\(9, 7\)",
    ),
    "a narrow embedding": (
        lambda: from_torch(stacks(), nn.Embedding(19, 7)),
        r"source matrix of shape \(19, 7\) .* 8\)",
    ),
    "two vocabularies": (
        lambda: from_torch(stacks(), TOKENS, output=nn.Linear(8, 18)),
        "output gives 18 logits for the 19 tokens",
    ),
    "a scale of 0": (lambda: from_torch(stacks(), TOKENS, embedding_scale=0.0), "embedding_scale = 0.0 must be"),
    "max_norm": (lambda: from_torch(stacks(), nn.Embedding(19, 8, max_norm=1.0)), "max_norm = 1.0 changes"),
    "two dtypes": (lambda: from_torch(stacks().double(), TOKENS), "dtype and device has the values .*float32.*float64"),
    "two pad ids": (
        lambda: from_torch(stacks(), nn.Embedding(19, 8, padding_idx=0), nn.Embedding(19, 8, padding_idx=1)),
        r"several pad ids, \[0, 1\]",
    ),
    "eos as padding": (lambda: from_torch(stacks(), TOKENS, pad_id=2), "eos_id must differ from pad_id"),
    "no logits": (
        lambda: from_torch(Holder(transformer=stacks(), embedding=TOKENS)),
        "gave no logits .* RuntimeError: no way to join them.* Pass its parts",
    ),
    "flat logits": (lambda: from_torch(Flat()), r"gave no logits .* an output of shape \(10, 19\)"),
    "another function": (
        lambda: from_torch(Shouting()),
        "Shouting joins its parts .* embeddings times 1 or 2.82843, plus nothing, sinusoids .* Pass its parts",
    ),
    "a table for each side": (lambda: from_torch(two_tables()), "a table it holds, one for both sides"),
    "Marian without an output": (
        lambda: from_marian(tiny_marian(0).model),
        "hf_model is a MarianModel; pass a MarianMTModel",
    ),
    "Marian without an encoder": (
        lambda: from_marian(MarianForCausalLM(tiny_marian(0, is_decoder=True).config)),
        "hf_model is a MarianForCausalLM",
    ),
    "no Marian": (lambda: from_marian(nn.Linear(2, 2)), "hf_model is a Linear"),
    "Marian's depths": (lambda: from_marian(tiny_marian(0, decoder_layers=3)), r"num_layers has the values \[\d, 3\]"),
    "Marian's d_ff": (lambda: from_marian(tiny_marian(0, decoder_ffn_dim=9)), r"d_ff has the values \[\d+, 9\]"),
    "Marian's heads": (
        lambda: from_marian(tiny_marian(0, d_model=12, encoder_attention_heads=2, decoder_attention_heads=3)),
        r"num_heads has the values \[2, 3\]",
    ),
    "Marian's activation": (
        lambda: from_marian(tiny_marian(0, activation_function="gelu_new")),
        "activation = NewGELU.* is none of relu, gelu, silu",
    ),
    "Marian's eos": (
        lambda: from_marian(tiny_marian(0, eos_token_id=3, pad_token_id=3)),
        "eos_id must differ from pad_id",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_expressed_is_refused_with_the_reason(name):
    convert, reason = REFUSED[name]
    with pytest.raises(ValueError, match=reason):
        convert()


def test_a_value_of_the_wrong_kind_is_refused_with_the_reason(unchecked):
    with pytest.raises(ValueError, match="positions = 'rotary' .* must be 'sinusoidal'"):
        from_torch(stacks(), TOKENS, positions="rotary")
    with pytest.raises(ValueError, match="pad_id = None must be"):
        from_marian(tiny_marian(0, pad_token_id=None))
    with pytest.raises(ValueError, match="hf_model is a str"):
        from_marian("Helsinki-NLP/opus-mt-de-en")


def test_marians_two_tables_of_positions_are_refused():
    hf = tiny_marian(0)
    hf.model.decoder.embed_positions.weight.data[3] += 1
    with pytest.raises(ValueError, match="encoder and decoder have different tables of positions"):
        from_marian(hf)
