"""Show nbgrader's form, in which written answers are marked by hand, and let nothing that a student wrote run in it.

    make mark [OUT=grades]

Students' text is shown without its tags, formulas become MathML, and the page's policy lets no script run but the
form's own: each of them carries a word that is drawn anew at every start. Nothing is fetched from elsewhere.
"""

import argparse
import base64
import hashlib
import os
import re
import secrets
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import BaseLoader, pass_context
from jupyter_server.serverapp import ServerApp  # pyright: ignore[reportMissingImports]
from nbgrader.server_extensions.formgrader import handlers  # pyright: ignore[reportMissingImports]
from nbgrader.utils import is_grade, is_solution  # pyright: ignore[reportMissingImports]
from traitlets.config import Config

from workshop.course.grading.feedback import markdown

FORM = "nbgrader.server_extensions.formgrader"
# The formulas are MathML. nbgrader's script waits for the signal that MathJax has set them: it comes at once. It also
# cuts a mark above the most that there is without a word.
NO_MATHJAX = """{% macro mathjax(url="") %}<script>
document.addEventListener("change", ({target}) => {
  if (target.matches("input.score") && Number(target.value) > Number(target.max))
    alert(`${target.value} of ${target.max} points: saved as ${target.max}.`);
}, true);
MathJax = {Hub: {Startup: {signal: {Interest: (listener) => setTimeout(listener, 0, "End")}}}};
</script>{% endmacro %}"""

# Tables and feedback know points of a part, and no more than it is worth.
EXTRA_CREDIT = re.compile(r'\+ <input class="extra-credit[^>]*>\s*\(extra credit\)')
MOST = '<input max="{{ cell.metadata.nbgrader.points }}"'


def policy(word: str) -> str:
    """What the browser may do: run scripts with this word and the clicks of nbgrader's templates, fetch from here."""
    templates = [path.read_text("utf-8") for path in Path(handlers.template_path).rglob("*") if path.is_file()]
    clicks = {click for text in templates for click in re.findall(r'onclick="([^"]*)"', text)}
    hashes = [base64.b64encode(hashlib.sha256(click.encode()).digest()).decode() for click in sorted(clicks)]
    own = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src 'nonce-{word}'; script-src-attr 'unsafe-hashes' {own}; connect-src 'self'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )


class WithWord(BaseLoader):
    """Templates whose scripts carry the word. What students wrote comes in later, and does not."""

    def __init__(self, loader: Any, word: str):
        self.loader, self.word = loader, word

    def get_source(self, environment: Any, template: str) -> tuple[str, str | None, Any]:
        source, name, is_fresh = self.loader.get_source(environment, template)
        if template.endswith("mathjax.html.j2"):
            source = NO_MATHJAX
        source = source.replace('<input class="score', MOST + ' class="score')
        source = EXTRA_CREDIT.sub("", source)
        return source.replace("<script", f'<script nonce="{self.word}"'), name, is_fresh


@cache
def rubrics() -> dict[str, str]:
    """Written answer → its solution and rubric as HTML, from the instructor's notebooks in this folder of marks."""
    cells = [cell for path in Path("source").glob("*/*.ipynb") for cell in nbformat.read(path, 4).cells]
    written = [cell for cell in cells if is_grade(cell) and is_solution(cell)]
    return {cell.metadata.nbgrader.grade_id: markdown(cell.source, trusted=True) for cell in written}


@pass_context
def shown(context: Any, source: str) -> str:
    """The text of a cell of the assignment, or of a student, as HTML."""
    cell = context["cell"]
    own = bool(cell.metadata.get("assignment")) and not is_solution(cell)
    text = markdown(source, trusted=own, attachments=cell.get("attachments"))
    rubric = rubrics().get(cell.metadata.get("nbgrader", {}).get("grade_id"))
    return f"<details><summary>How to mark it</summary>{rubric}</details>{text}" if rubric else text


def serve(options: list[str]) -> None:
    """The form, until Ctrl-C."""
    os.environ["JUPYTER_NO_CONFIG"] = "1"  # no other extension
    word = secrets.token_urlsafe(24)
    settings = Config()
    settings.ServerApp.jpserver_extensions = {FORM: True}
    settings.ServerApp.tornado_settings = {"headers": {"Content-Security-Policy": policy(word)}}
    settings.ServerApp.default_url = "/formgrader/gradebook"
    # nbgrader's pages would bind the cookie of the login to their own address, and the marks go to another.
    settings.IdentityProvider.cookie_options = {"path": "/"}
    settings.ServerApp.open_browser = True
    settings.ServerApp.answer_yes = True  # Ctrl-C stops the form, unasked: marks are saved as they are typed
    settings.ServerApp.terminals_enabled = False
    settings.ServerApp.allow_root = True
    server = ServerApp.instance(config=settings)
    server.initialize(options)
    form = server.web_app.settings
    exporter = form["nbgrader_exporter"]
    exporter.register_filter("markdown2html", shown)
    for environment in (exporter.environment, form["nbgrader_jinja2_env"]):
        environment.loader = WithWord(environment.loader, word)
    server.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grades", type=Path, help="the folder of marks that `make grade` wrote")
    given, options = parser.parse_known_args()
    if not (given.grades / "nbgrader_config.py").exists():
        parser.error(f"{given.grades} holds no marks: run `make grade` first, or name its folder (OUT=…)")
    os.chdir(given.grades)
    with tempfile.TemporaryDirectory(prefix="mark-") as own:
        tempfile.tempdir = own  # Jupyter makes folders for its settings and removes none
        serve(options)


if __name__ == "__main__":
    main()
