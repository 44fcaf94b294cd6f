"""`{ask}`: a question before a showing. Whoever answers it gets a remark on that very answer, at once.

    ```{ask} Which word comes first?
    :name: ask-first
    - [ ] forty | It comes first in English. German says the ones first.
    - [x] seven | Yes: *sieben*.
    ```

The form is that of the predictions (book_answers.py), and book-answers.js judges it. Without scripts, and on paper, the
answer is a fold.
"""

import html
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from workshop.site.book_answers import form_html
from workshop.site.choices import choices_of

FILES = ("asks.css", "asks.js")
MARK = 'class="answer ask'


def ask_html(name: str, question: str, choices: list[tuple[str, str, bool]]) -> str:
    """The form, and the fold for readers without scripts."""
    rules = [[[choice], remark, int(right)] for choice, remark, right in choices]
    content: dict[str, Any] = {"kind": "choice", "fields": [question], "choices": [c for c, _, _ in choices]}
    form = form_html(name, content | {"rules": rules})
    form = form.replace('class="answer"', MARK + '"', 1).replace("<legend>Answer here: ", "<legend>", 1)
    [(answer, remark)] = [(choice, remark) for choice, remark, right in choices if right]
    offered = ", ".join(choice for choice, _, _ in choices)
    fold = (
        f'<details class="ask-fold">\n<summary>{html.escape(question)} <i>({html.escape(offered)})</i></summary>\n'
        f"<p><b>{html.escape(answer)}.</b> {html.escape(remark)}</p>\n</details>"
    )
    return f"{form}\n{fold}"


class Ask(SphinxDirective):
    """A question with its choices."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        try:
            text = ask_html(self.options["name"], self.arguments[0], choices_of(list(self.content)))
        except ValueError as error:
            raise self.error(str(error)) from None
        return [nodes.raw("", text, format="html")]
