"""Draw the picture of the README: where a shipped translator looks while it writes a sentence.

python -m workshop.site.readme_map     writes book/_static/translation.svg
"""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from transformer_lib import greedy_decode
from transformer_lib.decoding import hypothesis_attention
from transformer_lib.plots import matplotlib_style
from transformer_run.translator import Translator

PATH = Path(__file__).resolve().parents[2] / "book" / "_static" / "translation.svg"
SENTENCE = "Ich habe das Buch gestern gelesen."
NAME, LAYER = "tatoeba_de_en", 1


def weights_and_labels() -> tuple[torch.Tensor, list[str], list[str]]:
    """The mean weights of the heads of one layer's cross-attention: (target, source), and the tokens of both sides."""
    translator = Translator.load(NAME)
    model = translator.model
    source = torch.tensor([[*translator.source_tokenizer.encode(SENTENCE), model.config.eos_id]])  # (1, source)
    tokens = greedy_decode(model, source)[0].tolist()  # (target,)
    weights = hypothesis_attention(model, source, tokens)[f"decoder.{LAYER}.cross"][0].mean(dim=0)
    return weights, translator.target_tokenizer.tokens(tokens), translator.source_tokenizer.tokens(source[0].tolist())


def draw(axes: Axes, weights: torch.Tensor, rows: list[str], columns: list[str]) -> None:
    """A square for each pair, darker and with a number where the weight is large."""
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    for i, row in enumerate(weights.tolist()):
        for j, weight in enumerate(row):
            if weight >= 0.1:
                colour = "white" if weight > 0.6 else "black"
                axes.text(j, i, f"{weight:.1f}".removeprefix("0"), ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(range(len(columns)), [token.removeprefix("▁") for token in columns])
    axes.set_yticks(range(len(rows)), [token.removeprefix("▁") for token in rows])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)


def main() -> None:
    plt.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "translation"})
    with matplotlib_style():
        figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
        draw(axes, *weights_and_labels())
        axes.set_title("German, as it is read: weight of each token (blank: below 0.1)", fontsize=11, pad=10)
        axes.set_ylabel("English, as it is written")
        figure.savefig(PATH, metadata={"Date": None}, facecolor="white")
    print(f"{PATH.name}: {PATH.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
