"""Record what the first pages show at once: all numbers below a hundred, translated by a small model, and its looks.

    python -m workshop.site.record_hundred     writes book/_static/live/first_hundred.json

The model is the one that readers train in the page, from one seed. Beside it stand two small measurements that the
twenty minutes quote: ten withheld numbers under five seeds, and a larger model whose positions are multiplied by 0.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from transformer_lib import Transformer, greedy_decode, record_attention
from transformer_lib.data import make_batch
from transformer_lib.training import adam, train
from transformer_lib.transformer import named_attentions
from transformer_run.export.surgery import operated
from transformer_run.translator import Translator
from workshop.lab.provenance import origin
from workshop.site.training_task import MODEL, PAIRS, SETTINGS, TOKENIZER

PATH = Path(__file__).resolve().parents[2] / "book" / "_static" / "live" / "first_hundred.json"
SEED = 0
SEEDS = range(5)
WITHHELD = (21, 38, 47, 52, 56, 63, 74, 85, 89, 96)  # ten that need both of their words
SHOWN = 47
LARGER = "number_words_en_de"
BAGS = ("forty seven", "seventy four", "two hundred seven", "seven hundred two")


def batch_of(pairs: Sequence[tuple[str, str]]) -> Any:
    return make_batch([(TOKENIZER.encode(english), TOKENIZER.encode(german)) for english, german in pairs])


def trained(seed: int, withheld: Sequence[int] = ()) -> Transformer:
    """The model after the steps of the page, from this seed, without the withheld numbers."""
    torch.manual_seed(seed)
    model = Transformer(MODEL)
    batch = batch_of([pair for number, pair in enumerate(PAIRS) if number not in withheld])
    for _ in train(model, adam(model, SETTINGS), [batch] * SETTINGS.num_steps, SETTINGS):
        pass
    return model.eval()


def translations(model: Transformer) -> list[str]:
    """What it writes for each number below a hundred."""
    return [TOKENIZER.decode(row) for row in greedy_decode(model, batch_of(PAIRS).source).tolist()]


def looks(model: Transformer, written: Sequence[str]) -> list[list[list[list[int]]]]:
    """For each number and head, the percent of its weight that each word written puts on each word read: both with
    their end."""
    batch = batch_of([(english, german) for (english, _), german in zip(PAIRS, written, strict=True)])
    with torch.no_grad(), record_attention(model) as weights:
        model(batch.source, batch.target_input)
    percent = weights["decoder.0.cross"].mul(100).round().int()  # (numbers, heads, written, read)
    lengths = zip((batch.source != MODEL.pad_id).sum(1), (batch.target_output != MODEL.pad_id).sum(1), strict=True)
    return [percent[i, :, :rows, :columns].tolist() for i, (columns, rows) in enumerate(lengths)]


def likeliest(model: Transformer, count: int = 3) -> list[list[tuple[str, int]]]:
    """The likeliest next words at each step of the shown number, with their probabilities in percent."""
    batch = batch_of([PAIRS[SHOWN]])
    with torch.no_grad():
        found = model(batch.source, batch.target_input)[0].softmax(dim=-1)[:, : len(TOKENIZER)].topk(count)
    return [
        [(TOKENIZER.tokens([i])[0], round(100 * p)) for p, i in zip(values, ids, strict=True)]
        for values, ids in zip(found.values.tolist(), found.indices.tolist(), strict=True)
    ]


def bags() -> dict[str, list[str]]:
    """What the larger model writes with its positions, and with positions × 0."""
    translator = Translator.load(LARGER)
    model = translator.model
    whole = translator.translate(list(BAGS))
    gates = torch.ones(len([*named_attentions(model)]), model.config.num_heads)
    with operated(model, gates, 1.0, 0.0):
        without = translator.translate(list(BAGS))
    return {text: [a, b] for text, a, b in zip(BAGS, whole, without, strict=True)}


def found() -> dict[str, Any]:
    """All that is recorded, without where it came from."""
    model = trained(SEED)
    written = translations(model)
    rows = zip(PAIRS, written, looks(model, written), strict=True)
    right = [
        sum(translations(other)[n] == PAIRS[n][1] for n in WITHHELD) for other in (trained(s, WITHHELD) for s in SEEDS)
    ]
    return {
        "numbers": [[english, german, weights] for (english, _), german, weights in rows],
        "likeliest": likeliest(model),
        "withheld": {"numbers": WITHHELD, "right": right},
        "positions": bags(),
    }


def main() -> None:
    torch.set_num_threads(1)
    about = origin("python -m workshop.site.record_hundred", ("torch",), seed=SEED, seeds=[*SEEDS], larger=LARGER)
    text = json.dumps({"origin": about} | found(), ensure_ascii=False, separators=(",", ":")).replace('],["', '],\n["')
    PATH.write_text(text + "\n", "utf-8")
    print(f"{PATH.name}: {PATH.stat().st_size / 1e3:.1f} kB")


if __name__ == "__main__":
    main()
