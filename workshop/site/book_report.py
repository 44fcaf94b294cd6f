"""One link at the foot of a page, and one in its menu: the form for a report, with the page filled in."""

import html
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from workshop.site.address import configured

FORM = "stumbled.yml"  # of .github/ISSUE_TEMPLATE


def add_links(app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Link the foot of a page, and let the menu open the same form."""
    name = page.rsplit("/", 1)[-1]
    url = configured(Path(app.srcdir)).issue(FORM, title=f"{name}: ", page=name)
    if app.builder.name == "html" and doctree is not None:
        link = f'<a href="{html.escape(url)}">Report a problem on this page</a>'
        context["body"] += f'<p class="report">{link}</p>\n'
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if "/issues/new" in button.get("url", ""):
                button["url"] = url
