"""German words in English text carry lang="de": a screen reader pronounces them as what they are.

They are found by their vocabulary, so that no chapter marks them by hand. A run of German words is marked whole, unless
each of its words could be English.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import traverse_parent

from transformer_lib.data import german_number

# The words of the chapters' German sentences, beside numbers.
WORDS = """
    abgelehnt alt arbeitet bist buch bundesrat das dass dem der die dieses du er es fenster frau garten gehört gelesen
    gesetz gestern habe hat haus ich im in ist junge kann kind leicht lesen meine oder schläft sehr so sogar tante
    tisch weggelaufen wie wird wir wohnen zerbrochen
""".split()
ENGLISH_TOO = {"alt", "die", "elf", "er", "hat", "in", "kind", "so"}
NUMBERS = [german_number(n) for n in range(1000)]
GERMAN = {*WORDS, "tausend", *" ".join(NUMBERS).split(), *(number.replace(" ", "") for number in NUMBERS)}
WORD = re.compile(r"[^\W\d_]+")
BETWEEN = re.compile(r"(?:\s*,)?\s+")
LEFT_ALONE = (nodes.literal_block, nodes.FixedTextElement, nodes.math, nodes.raw, nodes.comment)


def german_runs(text: str) -> list[tuple[int, int]]:
    """Where runs of German words start and end."""
    runs: list[list[re.Match[str]]] = [[]]
    for word in WORD.finditer(text):
        if word[0].lower() not in GERMAN:
            runs.append([])
        elif runs[-1] and not BETWEEN.fullmatch(text, runs[-1][-1].end(), word.start()):
            runs.append([word])
        else:
            runs[-1].append(word)
    surely = [run for run in runs if any(word[0].lower() not in ENGLISH_TOO for word in run)]
    return [(run[0].start(), run[-1].end()) for run in surely]


def marked(text: str) -> list[nodes.Node]:
    """The text in parts; docutils writes the class language-de as an attribute."""
    parts: list[nodes.Node] = []
    done = 0
    for start, end in german_runs(text):
        parts.append(nodes.Text(text[done:start]))
        parts.append(nodes.inline("", text[start:end], classes=["language-de"]))
        done = end
    return [part for part in (*parts, nodes.Text(text[done:])) if part.astext()]


def mark_german(_app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    for text in list(doctree.findall(nodes.Text)):
        if not german_runs(text.astext()) or any(traverse_parent(text.parent, LEFT_ALONE)):
            continue
        if isinstance(text.parent, nodes.literal):
            text.parent["classes"].append("language-de")
        else:
            text.parent.replace(text, marked(text.astext()))
