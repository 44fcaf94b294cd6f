"""A recurrent translator of number words, with one vector of several widths, and the same network with attention.

    python experiments/recurrent.py

Each model learns English to German number words with several seeds and is scored, by the number of digits, on numbers
that it has not seen. Two chapters show the classes and functions below, and read the result.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.attention import AdditiveAttention
from transformer_lib.data import WordTokenizer, english_number, load_pairs, make_batch

PAD_ID, BOS_ID = 0, 1
# Kind, and the width of its one vector.
MODELS = [*(("recurrent", d_vector) for d_vector in (4, 8, 16, 64)), ("attentive", 8), ("blind", 8)]
MEASURED = [150, 300, 900, 1800]  # steps after which a model is scored
DIGITS = [3, 4, 5, 6]  # nearly all numbers of fewer digits are in the training set
SCORED = 200  # most numbers of one length to score


class RecurrentTranslator(nn.Module):
    """Reads a sentence into one vector of d_vector numbers; writes from it."""

    def __init__(self, vocabulary_size, d_vector, d_model=64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, d_model)
        self.encoder = nn.GRU(d_model, d_model, batch_first=True)
        self.squeeze = nn.Linear(d_model, d_vector)
        self.expand = nn.Linear(d_vector, d_model)
        self.decoder = nn.GRU(d_model + d_vector, d_model, batch_first=True)
        self.to_logits = nn.Linear(d_model + d_vector, vocabulary_size)

    def encode(self, source):
        """States (batch, source, d_model) and the vector (batch, d_vector)."""
        states, _ = self.encoder(self.embedding(source))
        last = (source != PAD_ID).sum(dim=1) - 1  # (batch): the place of <eos>
        return states, self.squeeze(states[torch.arange(len(source)), last])

    def decode(self, vector, target_input):
        """States (batch, target, d_model); every step gets the vector."""
        repeated = vector[:, None].expand(-1, target_input.size(1), -1)
        words = torch.cat([self.embedding(target_input), repeated], dim=-1)
        start = self.expand(vector).tanh()  # (batch, d_model)
        return self.decoder(words, start[None])[0]

    def forward(self, source, target_input):
        """Logits (batch, target, vocabulary)."""
        _, vector = self.encode(source)
        states = self.decode(vector, target_input)
        repeated = vector[:, None].expand(-1, states.size(1), -1)
        return self.to_logits(torch.cat([states, repeated], dim=-1))


class AttentiveTranslator(RecurrentTranslator):
    """The same, but for each word it writes it looks at the source again."""

    def __init__(self, vocabulary_size, d_vector, d_model=64):
        super().__init__(vocabulary_size, d_vector, d_model)
        self.attention = AdditiveAttention(d_model, d_model, d_hidden=d_model)
        self.to_logits = nn.Linear(2 * d_model, vocabulary_size)

    def look(self, source, target_input):
        """Logits, and the attention weights (batch, target, source)."""
        memory, vector = self.encode(source)  # (batch, source, d_model)
        states = self.decode(vector, target_input)  # (batch, target, d_model)
        mask = (source != PAD_ID)[:, None]  # (batch, 1, source): True at words
        found, weights = self.attention(states, memory, memory, mask)
        return self.to_logits(torch.cat([states, found], dim=-1)), weights

    def forward(self, source, target_input):
        """Logits (batch, target, vocabulary)."""
        return self.look(source, target_input)[0]


class Numbers:
    """Number words as ids, by digits: some to learn, unseen ones to score."""

    def __init__(self):
        training, val, test = (
            # No number is in two of them.
            load_pairs("number_words", split, "en", "de")
            for split in ("train", "val", "test")
        )
        texts = (text for pair in training for text in pair)
        self.tokenizer = WordTokenizer.train(texts)
        self.below_1000 = {english_number(n): n for n in range(1000)}
        self.training = self._by_digits(training)
        unseen = self._by_digits(val + test)
        self.scored = {d: make_batch(unseen[d][:SCORED]) for d in DIGITS}

    def digits(self, english):
        """How many digits the number has that these words name."""
        head, thousand, rest = english.partition(" thousand")
        number = self.below_1000[head]
        if thousand:
            number = 1000 * number + self.below_1000.get(rest.strip(), 0)
        return len(str(number))

    def batch(self, generator, sentences=64):
        """Training pairs, each number of digits equally often."""
        groups = generator.choices(list(self.training.values()), k=sentences)
        return make_batch([generator.choice(group) for group in groups])

    def _by_digits(self, pairs):
        groups = {}
        encode = self.tokenizer.encode
        for english, german in pairs:
            ids = encode(english), encode(german)
            groups.setdefault(self.digits(english), []).append(ids)
        return groups


def fit(model, numbers, num_steps, seed=0):
    """Train in place with Adam; yields each step's loss, in nats per token."""
    generator = random.Random(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(num_steps):
        batch = numbers.batch(generator)
        logits = model(batch.source, batch.target_input)
        answers = batch.target_output.flatten()
        logits = logits.flatten(0, 1)  # (batch · target, vocabulary)
        loss = F.cross_entropy(logits, answers, ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def write(model, source, longest=16):
    """Ids (batch, longest): the likeliest word, each from those before."""
    written = torch.full((len(source), 1), BOS_ID)
    for _ in range(longest):
        logits = model(source, written)[:, -1:]  # (batch, 1, vocabulary)
        written = torch.cat([written, logits.argmax(dim=-1)], dim=1)
    return written[:, 1:]


@torch.no_grad()
def score(model, numbers):
    """By digits, the share of numbers written without a mistake."""
    shares = {}
    for digits, batch in numbers.scored.items():
        answers = batch.target_output
        written = write(model, batch.source, answers.size(1))
        right = (written == answers) | (answers == PAD_ID)  # (batch, target)
        shares[digits] = right.all(dim=1).float().mean().item()
    return shares


@torch.no_grad()
def right_words(model, numbers):
    """By digits, the share of words it names after the right ones before."""
    shares = {}
    for digits, batch in numbers.scored.items():
        likeliest = model(batch.source, batch.target_input).argmax(dim=-1)
        real = batch.target_output != PAD_ID
        right = (likeliest == batch.target_output)[real]  # (real tokens)
        shares[digits] = right.float().mean().item()
    return shares


def build(kind, vocabulary_size, d_vector):
    """A fresh model: "recurrent", "attentive", or "blind", whose attention is fixed to be even."""
    if kind == "recurrent":
        return RecurrentTranslator(vocabulary_size, d_vector)
    model = AttentiveTranslator(vocabulary_size, d_vector)
    if kind == "blind":
        nn.init.zeros_(model.attention.score.weight).requires_grad_(False)
    return model


def one_run(numbers, kind, d_vector, seed):
    """Train and score one model; shares by digits after each of the MEASURED steps."""
    torch.manual_seed(seed)
    model = build(kind, len(numbers.tokenizer), d_vector)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    result = {"kind": kind, "d_vector": d_vector, "seed": seed, "parameters": parameters, "measured": []}
    for step_num, loss in enumerate(fit(model, numbers, MEASURED[-1], seed), start=1):
        if step_num in MEASURED:
            shares = {
                name: {str(digits): round(share, 4) for digits, share in found(model, numbers).items()}
                for name, found in (("exact_match", score), ("right_words", right_words))
            }
            result["measured"].append({"step_num": step_num, "loss_nats_per_token": round(loss, 4)} | shares)
    return result


def measured(seeds):
    """The record of every model, with so many seeds each."""
    from workshop.lab.experiment import each  # here, as a page imports the functions above without the workshop

    numbers = Numbers()
    return {
        "what": "shares of unseen numbers translated without a mistake, by digits; right_words is the share of "
        "words named after the right words before",
        "data": "English to German number words; to learn from: the training set, each number of digits equally "
        "often; to score: numbers of the validation and test sets",
        "scored": {str(digits): len(batch.source) for digits, batch in numbers.scored.items()},
        "training": {"sentences": 64, "learning_rate": 5e-3, "clipped_to": 1.0},
        "runs": each(one_run, [(numbers, *model, seed) for model in MODELS for seed in range(seeds)]),
    }


if __name__ == "__main__":
    from workshop.lab.experiment import record

    record("recurrent", __doc__, measured, seeds=3)
