"""A link beside each heading and exercise: it opens the form for a report, with the page and the section filled in."""

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from workshop.lab.paper_ids import PAPER_IDS
from workshop.site.address import Address, configured
from workshop.site.book_head import plain_formula

# The forms of .github/ISSUE_TEMPLATE.
STUMBLED, EQUATION, EXERCISE = "stumbled.yml", "equation.yml", "exercise.yml"
FORMULA = re.compile(r"\\\((.+?)\\\)")
PLACES = re.compile(
    r'(?P<targets>(?:<span id="[^"]+"></span>)*)'
    r'<(?P<level>h[1-6])>(?P<heading>.*?)<a class="headerlink".*?</(?P=level)>'
    r'|(?P<box><div class="exercise admonition"[^>]*>\s*<p class="admonition-title">)(?P<title>.*?)</p>',
    re.DOTALL,
)
TARGET = re.compile(r'<span id="([^"]+)">')


def plain(marked: str) -> str:
    """The words of a piece of HTML, its formulas as text."""
    words = html.unescape(re.sub(r"<[^>]+>", "", marked))
    return " ".join(FORMULA.sub(lambda formula: plain_formula(formula[1]), words).split())


def form_of(place: re.Match[str]) -> str:
    """The form for an exercise, for a section that explains an item of the paper, or for any other."""
    if place["box"]:
        return EXERCISE
    return EQUATION if PAPER_IDS.keys() & set(TARGET.findall(place["targets"])) else STUMBLED


def with_reports(body: str, page: str, address: Address) -> str:
    """The body of a page with its links, each behind its heading: inside, it would be a part of the heading's name."""

    def linked(place: re.Match[str]) -> str:
        name = plain(place["title"] or place["heading"])
        url = html.escape(address.issue(form_of(place), title=f"{page}: {name}", page=page, section=name))
        label = html.escape(f"Report a problem in “{name}”")
        return f'{place[0]}<a class="report" href="{url}" aria-label="{label}">Report</a>'

    return PLACES.sub(linked, body)


def add_links(app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Link every section of a page, and let the menu open the same form for the page as a whole."""
    name, address = page.rsplit("/", 1)[-1], configured(Path(app.srcdir))
    if app.builder.name == "html" and doctree is not None:
        context["body"] = with_reports(context["body"], name, address)
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if "/issues/new" in button.get("url", ""):
                button["url"] = address.issue(STUMBLED, title=f"{name}: ", page=name)
