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

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from workshop.site.book_answers import form_html
from workshop.site.choices import choices_of, numbers_of, told
from workshop.site.filled import filled

FILES = ("asks.css", "asks.js")
MARK = 'class="answer ask'


def ask_html(
    name: str, question: str, choices: list[tuple[str, str, bool]], *, number: bool = False, before: str = ""
) -> str:
    """The form, and the fold for readers without scripts; `before` is the id of what waits for the answer."""
    kind, fields = ("number", ["Your number"]) if number else ("choice", [question])
    rules = numbers_of(choices) if number else [[[choice], remark, int(right)] for choice, remark, right in choices]
    offered = [] if number else [choice for choice, _, _ in choices]
    content: dict[str, Any] = {"kind": kind, "fields": fields, "choices": offered, "rules": rules}
    answer, remark = told(choices)
    fold = filled("ask_fold.html", question=question, choices=offered, answer=answer, remark=remark)
    return form_html(name, content, question, before) + fold


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
