"""Peers: a translator written here around PyTorch's nn.Transformer, and Hugging Face's MarianMTModel."""

import math
import random
from functools import cache, partial

import pytest
import torch
import torch.nn.functional as F
from small_translators import randomise
from torch import nn

from transformer_lib import beam_search, count_parameters, greedy_decode
from transformer_lib.interop import from_marian, from_torch

# What PyTorch says about the speed of its own stacks.
pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]
SEEDS = range(20)
LONGEST = 12  # rows of a peer's table of positions
POSITIONS = ["sinusoidal", "halves", "embedding", "parameter", None]
ACTIVATIONS = ["relu", "gelu", F.relu, F.gelu, F.silu, nn.ReLU(), nn.GELU(), nn.SiLU()]


@cache
def sines_and_cosines(length, d_model, *, halves=False):
    table = torch.zeros(length, d_model)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, i if halves else 2 * i] = math.sin(angle)
            table[position, d_model // 2 + i if halves else 2 * i + 1] = math.cos(angle)
    return table


class Peer(nn.Module):
    """A translator around nn.Transformer, as people write them; the options are those that its users vary."""

    def __init__(self, *, d_model=8, num_heads=2, depth=(2, 2), d_ff=13, activation="relu", norm_first=False, bias=True,
                 final_norm=True, batch_first=True, vocabulary=19, own_source=None, output="tied", output_bias=False,
                 scale=None, positions="sinusoidal", pad_id=0):  # fmt: skip
        super().__init__()
        shape = {"nhead": num_heads, "dim_feedforward": d_ff, "dropout": 0.3, "activation": activation, "bias": bias}
        shape |= {"norm_first": norm_first, "batch_first": batch_first}
        self.transformer = nn.Transformer(d_model, num_encoder_layers=depth[0], num_decoder_layers=depth[1], **shape)
        if not final_norm:
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        for layer in self.transformer.decoder.layers:  # PyTorch's copies forget an activation that is a module
            layer.activation = self.transformer.encoder.layers[0].activation
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.source_embedding = nn.Embedding(own_source, d_model) if own_source else self.embedding
        self.head = None
        if output == "own" or output_bias:
            self.head = nn.Linear(d_model, vocabulary, bias=output_bias)
            if output == "tied":
                self.head.weight = self.embedding.weight
        tables = {
            "sinusoidal": lambda: "sinusoidal",
            "halves": lambda: sines_and_cosines(LONGEST, d_model, halves=True),
            "embedding": lambda: nn.Embedding(LONGEST, d_model),
            "parameter": lambda: nn.Parameter(torch.empty(1, LONGEST, d_model)),
            None: lambda: None,
        }
        self.positions, self.scale, self.pad_id = tables[positions](), scale or math.sqrt(d_model), pad_id
        randomise(self)

    def embed(self, ids, embedding):
        states, table = embedding(ids) * self.scale, self.positions
        if table is not None:
            if isinstance(table, str):
                table = sines_and_cosines(LONGEST, states.size(2))
            table = table.weight if isinstance(table, nn.Embedding) else table.squeeze()
            states = states + table[: ids.size(1)].to(states)
        return states if self.transformer.batch_first else states.transpose(0, 1)

    def forward(self, source, target_input):
        target_padding = target_input == self.pad_id
        target_padding[:, 0] = False
        states = self.transformer(
            self.embed(source, self.source_embedding),
            self.embed(target_input, self.embedding),
            tgt_mask=torch.ones(target_input.size(1), target_input.size(1), dtype=torch.bool).triu(1),
            src_key_padding_mask=source == self.pad_id,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source == self.pad_id,
        )
        states = states if self.transformer.batch_first else states.transpose(0, 1)
        return self.head(states) if self.head else states @ self.embedding.weight.T


def converted(peer, **changes):
    """Ours, from the peer's parts."""
    target = None if peer.source_embedding is peer.embedding else peer.embedding
    given = {"positions": peer.positions, "embedding_scale": peer.scale, "pad_id": peer.pad_id} | changes
    return from_torch(peer.transformer, peer.source_embedding, target, peer.head, **given)


def options(seed):
    rng = random.Random(seed)
    num_heads, layers, vocabulary = rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.randrange(11, 23)
    own_source = rng.choice([None, vocabulary, vocabulary - 3])
    return {
        "num_heads": num_heads, "d_model": num_heads * rng.choice([4, 6]), "d_ff": rng.choice([7, 13]),
        "activation": rng.choice(ACTIVATIONS), "norm_first": rng.random() < 0.5,
        "bias": rng.random() < 0.7, "final_norm": rng.random() < 0.5, "batch_first": rng.random() < 0.5,
        "vocabulary": vocabulary, "own_source": own_source, "output": rng.choice(["tied", "own"]),
        "output_bias": rng.random() < 0.5, "scale": rng.choice([None, 1.0, 2.5]),
        "positions": POSITIONS[seed % len(POSITIONS)], "pad_id": rng.choice([0, (own_source or vocabulary) - 4, 7]),
        "depth": (layers, rng.choice([1, 2, layers])),
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


@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_of_a_translator_keep_their_function(seed):
    torch.manual_seed(seed)
    chosen = options(seed)
    peer = Peer(**chosen).eval()
    model = converted(peer)
    assert not model.training
    assert (model.config.p_drop, model.config.positions == "sinusoidal") == (0.3, peer.positions == "sinusoidal")
    assert count_parameters(model.config) == count_parameters(model)
    assert_same(model, peer, *a_batch(peer.pad_id, peer.source_embedding.num_embeddings, peer.embedding.num_embeddings))


def tiny_marian(seed, **changes):
    """A Marian translator with every weight random; <eos> is likely enough to be chosen."""
    import transformers  # for seconds: here, where a test needs it, and not where all are collected

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
        "d_model": heads * rng.choice([4, 6]), "encoder_layers": layers, "decoder_layers": 2 - seed % 2,
        "encoder_ffn_dim": d_ff, "decoder_ffn_dim": d_ff, "encoder_attention_heads": heads,
        "decoder_attention_heads": heads, "activation_function": rng.choice(["swish", "silu", "gelu", "relu"]),
        "scale_embedding": rng.random() < 0.5, "share_encoder_decoder_embeddings": not separate,
        "tie_word_embeddings": rng.random() < 0.7, "vocab_size": vocabulary,
        "decoder_vocab_size": vocabulary + 2 if separate else None, "max_position_embeddings": 24, "dropout": 0.2,
        "pad_token_id": pad_id, "eos_token_id": vocabulary // 2, "forced_eos_token_id": None,
        "decoder_start_token_id": rng.choice([pad_id, pad_id, 3]),
    }  # fmt: skip
    hf = transformers.MarianMTModel(transformers.MarianConfig(**settings | changes)).eval()
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


def decoded(model, source, beam_size):
    found = greedy_decode(model, source, 9) if beam_size == 1 else beam_search(model, source, beam_size, 0.0, 9)
    return until_eos(found, model.config.eos_id)


@pytest.mark.slow
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_result_has_the_dtype_of_the_parts(dtype):
    peer = Peer(own_source=15, output="own").to(dtype).eval()
    model = converted(peer, bos_id=2, eos_id=3)
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert (model.config.source_vocabulary_size, model.config.bos_id, model.config.eos_id) == (15, 2, 3)
    source, target = a_batch(0, 15, 19)
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    found, expected = model(source, target), peer(source, target)
    torch.testing.assert_close(found[target != 0], expected[target != 0], rtol=tolerance, atol=tolerance)


def test_equal_matrices_become_one_and_others_do_not():
    peer = Peer(output="own", own_source=19).eval()
    model = converted(peer)
    assert (model.config.source_vocabulary_size, model.config.tied_output) == (19, False)
    peer.source_embedding.weight.data = peer.embedding.weight.data.clone()
    peer.head.weight.data = peer.embedding.weight.data.clone()
    model = converted(peer)
    assert (model.config.source_vocabulary_size, model.config.tied_output) == (None, True)
    assert_same(model, peer, *a_batch(0, 19, 19))


def test_a_table_limits_the_length_and_sinusoids_do_not():
    peer = Peer()
    configs = [
        converted(peer, positions=table).config for table in (None, torch.randn(3, 8), sines_and_cosines(LONGEST, 8))
    ]
    assert {config.positions for config in configs} == {"learned"}
    assert [config.max_positions for config in configs] == [1024, 3, LONGEST]  # three are enough to be checked
    assert converted(peer).config.positions == "sinusoidal"


def test_an_odd_d_model_takes_a_table():
    peer = Peer(d_model=9, num_heads=3, positions="embedding").eval()
    assert_same(converted(peer), peer, *a_batch(0, 19, 19))
    hf = tiny_marian(0, d_model=9, encoder_attention_heads=3, decoder_attention_heads=3)
    model = from_marian(hf)
    assert (model.config.positions, model.config.max_positions) == ("learned", 24)
    assert_same(model, marian_logits(hf), *marian_batch(hf))


def test_the_scale_and_the_padding_id_have_defaults_of_their_own():
    embedding = nn.Embedding(19, 8, padding_idx=0)
    model = from_torch(stacks(), embedding)
    assert model.config.pad_id == 0
    torch.testing.assert_close(model.embedding.weight, embedding.weight)  # times √d_model on both sides


@pytest.mark.parametrize("kind", ["trained", "random"])
def test_marians_own_table_of_positions_is_learned(kind):
    hf = tiny_marian(1)
    table = hf.model.encoder.embed_positions.weight
    table = table + 1e-3 if kind == "trained" else torch.randn_like(table)  # from sinusoids, and not far
    for stack in (hf.model.encoder, hf.model.decoder):
        stack.embed_positions.weight.data = table.clone()
    model = from_marian(hf)
    assert model.config.positions == "learned"
    torch.testing.assert_close(model.positions.table, table, rtol=0, atol=0, check_stride=False)
    assert_same(model, marian_logits(hf), *marian_batch(hf))


def test_a_normalisation_without_gain_and_a_stack_without_one_are_known():
    peer = Peer(final_norm=False)
    for stack in (peer.transformer.encoder, peer.transformer.decoder):
        stack.norm = nn.LayerNorm(8, elementwise_affine=False)
    assert_same(converted(peer.eval()), peer, *a_batch(0, 19, 19))
    for stack in (peer.transformer.encoder, peer.transformer.decoder):
        stack.norm = nn.Identity()
    model = converted(peer.eval())
    assert model.config.final_norm is False
    assert_same(model, peer, *a_batch(0, 19, 19))


def both_kinds():
    peer, hf = Peer(**options(5) | {"positions": "parameter"}), tiny_marian(5).train()
    peer.transformer.encoder.eval()  # a mixture of modes, to be left alone
    return [(peer, converted), (hf, from_marian)]


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


def layer_changed(**attributes):
    """A peer whose last decoder layer differs from the others."""
    peer = Peer()
    for path, value in attributes.items():
        owner, _, name = f"transformer.decoder.layers.1.{path.replace('__', '.')}".rpartition(".")
        setattr(peer.get_submodule(owner), name, value)
    return peer


class Doubled(nn.TransformerEncoderLayer):
    def forward(self, *inputs, **masks):
        return 2 * super().forward(*inputs, **masks)


def stacks(encoder_layer=None, encoder_norm=None):
    shape = {"d_model": 8, "nhead": 2, "dim_feedforward": 13, "batch_first": True}
    encoder = nn.TransformerEncoder(encoder_layer or nn.TransformerEncoderLayer(**shape), 2, encoder_norm)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), 2)
    transformer = nn.Transformer(8, 2, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    randomise(transformer)
    return transformer


def hooked(name):
    """A conversion of PyTorch's parts, one of which adds 1 %."""
    parts = {"transformer": stacks(), "embedding": nn.Embedding(19, 8), "output": nn.Linear(8, 19)}
    part = parts["transformer"].decoder if name == "decoder" else parts[name]
    part.register_forward_hook(lambda _module, _inputs, states: states * 1.01)
    return from_torch(**parts)


def two_tables():
    hf = tiny_marian(0)
    hf.model.decoder.embed_positions.weight.data[3] += 1
    return from_marian(hf)


TOKENS = nn.Embedding(19, 8)
REFUSED = {
    "a module around it": (lambda: from_torch(Peer(), TOKENS), "Peer"),
    "an encoder of one's own": (
        lambda: from_torch(nn.Transformer(8, 2, custom_encoder=nn.Identity()), TOKENS),
        "Identity",
    ),
    "a module around the embedding": (lambda: from_torch(stacks(), nn.Sequential(TOKENS)), "Sequential"),
    "a module as output": (lambda: from_torch(stacks(), TOKENS, output=nn.Tanh()), "Tanh"),
    "heads": (lambda: converted(layer_changed(self_attn__num_heads=4, self_attn__head_dim=2)), "logits"),
    "d_ff": (
        lambda: converted(layer_changed(linear1=nn.Linear(8, 5), linear2=nn.Linear(5, 8))),
        r"feed_forward.inner.weight.*\[5, 8\].*\[13, 8\]",
    ),
    "gelu by tanh": (lambda: converted(Peer(activation=nn.GELU("tanh"))), "approximate='tanh'"),
    "eps of one": (lambda: converted(layer_changed(norm2=nn.LayerNorm(8, 1e-6))), "1e-06"),
    "one final norm": (lambda: from_torch(stacks(encoder_norm=nn.LayerNorm(8)), TOKENS), "logits"),
    "a subclass": (lambda: from_torch(stacks(Doubled(8, 2, 13, batch_first=True)), TOKENS), "Doubled"),
    **{
        f"1 % more from the {name}": (partial(hooked, name), "logits")
        for name in ("decoder", "transformer", "embedding", "output")
    },
    "a bias of keys": (
        lambda: converted(layer_changed(self_attn=nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True))),
        "bias_k",
    ),
    "an odd d_model": (lambda: from_torch(nn.Transformer(9, 3, 1, 1, 13), nn.Embedding(19, 9)), "d_model = 9"),
    "a narrow table": (lambda: from_torch(stacks(), TOKENS, positions=torch.zeros(9, 7)), r"positions.*\[9, 7\]"),
    "a scale of 0": (lambda: from_torch(stacks(), TOKENS, embedding_scale=0.0), "embedding_scale"),
    "max_norm": (lambda: from_torch(stacks(), nn.Embedding(19, 8, max_norm=1.0)), "max_norm"),
    "two dtypes": (lambda: from_torch(stacks().double(), TOKENS), "dtypes"),
    "another pad id": (
        lambda: from_torch(stacks(), nn.Embedding(19, 8, padding_idx=0), nn.Embedding(19, 8, padding_idx=1)),
        "padding_idx",
    ),
    "eos as padding": (lambda: from_torch(stacks(), TOKENS, pad_id=2), "eos_id"),
    "positions of another kind": (lambda: from_torch(stacks(), TOKENS, positions="rotary"), "rotary"),
    "Marian without an output": (lambda: from_marian(tiny_marian(0).model), "MarianModel"),
    "the name of a Marian": (lambda: from_marian("Helsinki-NLP/opus-mt-de-en"), "str"),
    "Marian's padding": (lambda: from_marian(tiny_marian(0, pad_token_id=None)), "pad_id"),
    "Marian's two tables of positions": (two_tables, "positions"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_expressed_is_refused_with_the_reason(name, unchecked):
    convert, reason = REFUSED[name]
    with pytest.raises(ValueError, match=f"(?s){reason}"):
        convert()
