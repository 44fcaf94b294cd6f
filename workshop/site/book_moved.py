"""Anchors of headings that were renamed: they stand as further anchors where the text is now, so old links still lead
there, without JavaScript too."""

from docutils import nodes
from sphinx.application import Sphinx

# The anchor of a section → those that it had before, on any page or on one.
ANYWHERE = {"the-test": ["the-test-that-proves-it"]}
MOVED: dict[str, dict[str, list[str]]] = {
    "attention_maps": {
        "can-the-map-be-trusted": [
            "can-the-map-be-trusted-a-case-with-known-answers",
            "does-it-hold-for-real-sentences",
        ],
        "take-a-head-out": ["what-it-costs-in-bleu"],
    },
    "common_mistakes": {"sixteen-claims-and-what-holds": ["fourteen-claims-and-what-holds"]},
    "differences": {
        "the-paper-s-own-costs-computed-again": ["parsing", "table-4", "what-is-not-trained-here-yet-parsing"]
    },
    "embeddings": {"one-matrix-one-address": ["one-matrix-seen-in-memory"]},
    "encoder_decoder": {
        "one-layer-of-each": ["the-parts-in-short"],
        "the-whole-model": ["into-vectors-and-out-again"],
        "forty-seven-from-ids-to-sieben": ["one-sentence-every-shape"],
        "counting": ["counting-and-what-the-paper-s-column-tells"],
    },
    "gpu_training": {
        "one-saving-after-another": ["one-by-one-on-a-gpu"],
        "train-it-now": ["translate-your-own-sentence"],
    },
    "label_smoothing": {"training-without-end": ["a-pupil-who-is-punished-for-certainty"]},
    "layers": {
        "exchange-then-work-on-each-word-and-keep-the-sizes-in-bounds": ["exchange-then-think-and-not-too-loudly"],
        "before-the-sum-or-after-it": ["does-it-train"],
    },
    "learning_rate": {"a-run-three-widths-a-factor-a-cosine": ["a-run-three-widths"]},
    "many_gpus": {"what-would-27-3-take-today": ["hours-from-a-measured-speed", "the-rest-of-the-plan"]},
    "speed": {"a-step-taken-apart": ["an-hour"], "the-tests-that-hold-it": ["the-tests-that-prove-it"]},
    "variations": {"counting-by-hand": ["the-table"]},
}


def earlier(page: str) -> dict[str, list[str]]:
    """The anchor of each section of a page → those that it had before."""
    return ANYWHERE | MOVED.get(page, {})


def keep_anchors(_app: Sphinx, doctree: nodes.document, page: str) -> None:
    for section in doctree.findall(nodes.section):
        for now, before in earlier(page.rsplit("/", 1)[-1]).items():
            if now in section["ids"]:
                section["ids"] += [anchor for anchor in before if anchor not in section["ids"]]
