"""`{ask}`: a question before a showing. Whoever answers it gets a remark on that very answer, at once.

    ```{ask} Which word comes first?
    :name: ask-first
    :before: the-figure
    - [ ] forty | It comes first in English. German says the ones first.
    - [x] seven | Yes: *sieben*.
    ```

The remark on a wrong answer gets a No in front. With `:before:`, what has this id is veiled until the reader answers or
asks to see it: asks.js.

With `:number:`, a number is typed; each line answers what rounds to its digits, the last, `- [ ] else | …`, all others.
The form is that of the predictions (book_answers.py), and book-answers.js judges it. Without scripts, and on paper, the
answer is a fold.
"""

import html
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from workshop.site.book_answers import CHECK, form_html
from workshop.site.choices import choices_of, numbers_of, told

FILES = ("asks.css", "asks.js")
MARK = 'class="answer ask'
NOTE = '<p class="answer-note"'
SHOW = '<button type="button" class="ask-show">Show the answer</button>\n'


def ask_html(
    name: str, question: str, choices: list[tuple[str, str, bool]], *, number: bool = False, before: str = ""
) -> str:
    """The form, and the fold for readers without scripts; `before` is the id of what waits for the answer."""
    if number:
        content: dict[str, Any] = {"kind": "number", "fields": ["Your number"], "choices": []}
        form = form_html(name, content | {"rules": numbers_of(choices)})
        form = form.replace("<legend>Answer here", f"<legend>{html.escape(question)}", 1).replace(
            CHECK, CHECK + SHOW, 1
        )
        offered = ""
    else:
        rules = [[[choice], remark, int(right)] for choice, remark, right in choices]
        content = {"kind": "choice", "fields": [question], "choices": [choice for choice, _, _ in choices]}
        form = form_html(name, content | {"rules": rules}).replace("<legend>Answer here: ", "<legend>", 1)
        form = form.replace(NOTE, SHOW + NOTE, 1)
        offered = f" <i>({html.escape(', '.join(content['choices']))})</i>"
    waits = f' data-before="{before}"' if before else ""
    form = form.replace('class="answer"', f'{MARK}"{waits}', 1)
    answer, remark = told(choices)
    fold = (
        f'<details class="ask-fold">\n<summary>{html.escape(question)}{offered}</summary>\n'
        f"<p><b>{html.escape(answer)}</b>{html.escape(remark)}</p>\n</details>"
    )
    return f"{form}\n{fold}"


class Ask(SphinxDirective):
    """A question with its answers."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {
        "name": directives.unchanged_required,
        "number": directives.flag,
        "before": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        try:
            answers = choices_of(list(self.content))
            choice = {"number": "number" in self.options, "before": self.options.get("before", "")}
            text = ask_html(self.options["name"], self.arguments[0], answers, **choice)
        except ValueError as error:
            raise self.error(str(error)) from None
        return [nodes.raw("", text, format="html")]
