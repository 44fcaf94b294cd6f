"""Encoders with and without recurrence, where the words around a word decide what it is worth, and in translation.

    python experiments/self_attention.py

Each encoder is trained with several seeds on three tasks: numbers whose scale stands later in the sentence, the same
with the scale at one fixed distance, and the translator of the chapters before. One chapter shows the classes and
functions below, and reads the result.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

from experiments.recurrent import PAD_ID, AttentiveTranslator, Numbers, score
from experiments.recurrent import fit as fit_translator
from transformer_lib.attention import scaled_dot_product_attention
from transformer_lib.masks import padding_mask
from transformer_lib.transformer import count_parameters

SCALES = "dozen hundred thousand million".split()
NUMBERS = "one two three four five six seven eight nine ten twenty thirty forty fifty sixty seventy".split()
WORDS = ["or", "and", *SCALES, *NUMBERS]
NOT_ASKED = -100  # the label of a word whose scale is not asked; F.cross_entropy leaves it out
KINDS = ["recurrent", "both ways", "self-attention", "no places", "words alone"]
DISTANCES = [4, 8, 16, 32]
MEASURED, TRANSLATOR_STEPS = [10, 20, 30, 50, 100], 100  # steps after which a model is scored


class SelfAttention(nn.Module):
    """Each word of a sentence looks at all of them, and adds what it finds."""

    def __init__(self, d_model):
        super().__init__()
        self.query_projection = nn.Linear(d_model, d_model, bias=False)
        self.key_projection = nn.Linear(d_model, d_model, bias=False)
        self.value_projection = nn.Linear(d_model, d_model, bias=False)

    def forward(self, states, mask=None):
        """States (batch, words, d_model), weights (batch, words, words)."""
        query = self.query_projection(states)
        key = self.key_projection(states)
        value = self.value_projection(states)
        found, weights = scaled_dot_product_attention(query, key, value, mask)
        return states + found, weights


class LookingEncoder(nn.Module):
    """An encoder without recurrence: word plus place, rounds of looking."""

    def __init__(self, d_model=64, rounds=2, places=40):
        super().__init__()
        self.place = nn.Embedding(places, d_model) if places else None
        attend = (SelfAttention(d_model) for _ in range(rounds))
        self.rounds = nn.ModuleList(attend)

    def forward(self, words, mask=None):
        """States (batch, words, d_model), and each round's weights."""
        states, maps = words, []
        if self.place is not None:
            states = states + self.place.weight[: words.size(1)]
        for look in self.rounds:
            states, weights = look(states, mask)
            maps.append(weights)
        return states, maps


class Reader(nn.Module):
    """Names the scale of every number, by the encoder's state at its place."""

    def __init__(self, encoder, d_state=64, d_model=64):
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), d_model)
        self.encoder = encoder
        self.to_logits = nn.Linear(d_state, len(SCALES))

    def forward(self, source):
        """Logits (batch, words, scales)."""
        states, _ = self.encoder(self.embedding(source))
        return self.to_logits(states)


class LookingTranslator(AttentiveTranslator):
    """The attentive translator, its encoder without recurrence."""

    def __init__(self, vocabulary_size, d_vector, encoder):
        super().__init__(vocabulary_size, d_vector)
        self.encoder = encoder

    def encode(self, source):
        """States (batch, source, d_model) and the vector (batch, d_vector)."""
        mask = padding_mask(source, PAD_ID)[:, 0]  # (batch, 1, source)
        states, _ = self.encoder(self.embedding(source), mask)
        last = (source != PAD_ID).sum(dim=1) - 1  # (batch): the place of <eos>
        return states, self.squeeze(states[torch.arange(len(source)), last])


def build_encoder(kind, places, d_model=64):
    """An encoder of about 25,000 parameters, unless it has no rounds."""
    if kind == "recurrent":
        return nn.GRU(d_model, d_model, batch_first=True)
    if kind in {"both ways", "open gates"}:
        both = nn.GRU(d_model, 40, batch_first=True, bidirectional=True)
        if kind == "open gates":  # the update gates start at σ(3) = 0.95, give or take what word and state add
            for bias in (both.get_parameter("bias_ih_l0"), both.get_parameter("bias_ih_l0_reverse")):
                bias.data[40:80] = 3.0
        return both
    rounds = 0 if kind == "words alone" else 2
    return LookingEncoder(d_model, rounds, 0 if kind == "no places" else places)


def two_groups(generator, how_many):
    """Words and scales: "seven or eight hundred and two or nine thousand"."""
    words, scales = [], []
    cut = generator.randint(1, how_many - 1)
    for size in (cut, how_many - cut):
        scale = generator.randrange(len(SCALES))
        for i in range(size):
            after = "or" if i < size - 1 else SCALES[scale]
            words += [generator.choice(NUMBERS), after]
            scales += [scale, NOT_ASKED]
        words.append("and")
        scales.append(NOT_ASKED)
    return words[:-1], scales[:-1]


def at_a_distance(generator, distance):
    """Numbers, then their scale; it is asked for the first number alone."""
    scale = generator.randrange(len(SCALES))
    words = [*generator.choices(NUMBERS, k=distance), SCALES[scale]]
    return words, [scale] + [NOT_ASKED] * distance


def draw(sentence, size, generator, sentences=32):
    """Ids and scales (batch, words): all sentences have the same length."""
    drawn = [sentence(generator, size) for _ in range(sentences)]
    ids = [[WORDS.index(word) for word in words] for words, _ in drawn]
    return torch.tensor(ids), torch.tensor([scales for _, scales in drawn])


def fit(model, sentence, size, num_steps, seed=0):
    """Train in place with Adam; yields each step's loss, in nats per number."""
    generator = random.Random(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(num_steps):
        source, scales = draw(sentence, size, generator)
        logits = model(source).flatten(0, 1)  # (batch · words, scales)
        loss = F.cross_entropy(logits, scales.flatten(), ignore_index=NOT_ASKED)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def right_scales(model, sentence, size, seed=1_000_003):
    """The share of numbers, in 500 fresh sentences, whose scale it names."""
    source, scales = draw(sentence, size, random.Random(seed), sentences=500)
    right = model(source).argmax(dim=-1) == scales
    return right[scales != NOT_ASKED].float().mean().item()


# Name -> the sentences, how many numbers stand in each, and the encoders that are compared on them.
TASKS = {
    "two groups": (two_groups, 5, KINDS),
    "two long groups": (two_groups, 16, ["both ways", "self-attention"]),
    **{f"distance {d}": (at_a_distance, d, ["both ways", "open gates", "self-attention"]) for d in DISTANCES},
}


def read_scales(task, kind, seed):
    """Train and score one reader; the share of right scales after each of the MEASURED steps."""
    sentence, size, _ = TASKS[task]
    torch.manual_seed(seed)
    words = len(sentence(random.Random(0), size)[0])
    encoder = build_encoder(kind, words)
    model = Reader(encoder, d_state=80 if isinstance(encoder, nn.GRU) and encoder.bidirectional else 64)
    steps = enumerate(fit(model, sentence, size, MEASURED[-1], seed), start=1)
    shares = {str(step): round(right_scales(model, sentence, size), 4) for step, _ in steps if step in MEASURED}
    about = {"task": task, "kind": kind, "seed": seed, "words": words, "encoder": count_parameters(encoder)}
    return about | {"right": shares}


def translate(numbers, kind, seed):
    """Train and score one translator; by digits, the share of unseen numbers without a mistake."""
    torch.manual_seed(seed)
    model = AttentiveTranslator(len(numbers.tokenizer), d_vector=8)
    if kind != "recurrent":
        model = LookingTranslator(len(numbers.tokenizer), 8, build_encoder(kind, places=16))
    for _ in fit_translator(model, numbers, TRANSLATOR_STEPS, seed):
        pass
    shares = {str(digits): round(share, 4) for digits, share in score(model, numbers).items()}
    about = {"task": "translation", "kind": kind, "seed": seed, "encoder": count_parameters(model.encoder)}
    return about | {"right": {str(TRANSLATOR_STEPS): shares}}


def measured(seeds):
    """The record of every model on every task, with so many seeds each."""
    from workshop.lab.experiment import each  # here, as a page imports the functions above without the workshop

    readers = [(task, kind) for task, (*_, kinds) in TASKS.items() for kind in kinds]
    numbers = Numbers()
    translators = [(numbers, kind) for kind in KINDS if kind != "both ways"]
    runs = []
    for seed in range(seeds):
        runs += each(read_scales, [(*reader, seed) for reader in readers])
        runs += each(translate, [(*translator, seed) for translator in translators])
    return {
        "what": "shares after so many training steps. Groups and distances: numbers whose scale is named, in 500 "
        "fresh sentences. Translation: unseen numbers without a mistake, by digits. encoder: its parameters",
        "training": {"sentences": {"scales": 32, "translation": 64}, "learning_rate": 5e-3, "clipped_to": 1.0},
        "runs": runs,
    }


if __name__ == "__main__":
    from workshop.lab.experiment import record

    record("self_attention", __doc__, measured, seeds=5)
