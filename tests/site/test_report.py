"""The links that open the form with the page filled in, and the workflows beside the forms."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from browser import API, CHAPTERS, ROOT
from doctrees import document

from workshop.site import book_report
from workshop.site.address import Address, configured

GITHUB = ROOT / ".github"
FORMS = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in GITHUB.glob("ISSUE_TEMPLATE/*.yml")}
HOME = Address("owner", "name")
LINK = re.compile(r'<p class="report"><a href="([^"]+)">')


def test_the_foot_and_the_menu_of_a_page_open_the_form_with_the_page_filled_in() -> None:
    button: dict[str, Any] = {"url": "https://github.com/owner/name/issues/new?title=x&body=y", "text": "Open issue"}
    context = {"body": "<h1>Masks</h1>", "header_buttons": [{"buttons": [button]}, {"type": "javascript"}]}
    config = SimpleNamespace(html_theme_options={"repository_url": HOME.repository})
    app: Any = SimpleNamespace(builder=SimpleNamespace(name="html"), config=config, srcdir=ROOT)
    book_report.add_links(app, "book/masks", "page.html", context, document())
    [foot] = LINK.findall(context["body"])
    assert foot.replace("&amp;", "&") == button["url"].replace("&amp;", "&")
    assert parse_qs(urlsplit(button["url"]).query) == {
        "template": ["stumbled.yml"],
        "title": ["masks: "],
        "page": ["masks"],
    }


@pytest.mark.slow
def test_every_page_of_the_site_has_one_link_at_its_foot(site: Path) -> None:
    for name in CHAPTERS + API:
        page = (site / name).read_text("utf-8")
        article = page[page.index("<article") : page.index("</article>")]
        [url] = LINK.findall(article)
        assert url.startswith(f"{configured().repository}/issues/new?template=")
        assert article.index(url) > max(heading.start() for heading in re.finditer(r"<h[1-3]>", article))


# ── What GitHub reads ─────────────────────────────────────────────────────────────────────────────────────────


def workflows() -> dict[str, Any]:
    return {path.name: yaml.safe_load(path.read_text("utf-8")) for path in GITHUB.glob("workflows/*.yml")}


def test_a_form_asks_for_what_a_link_fills_in_and_two_things_more() -> None:
    forms = {name: form for name, form in FORMS.items() if name != "config.yml"}
    assert set(forms) == {book_report.FORM, "equation.yml", "exercise.yml"}
    for form in forms.values():
        assert [field["id"] for field in form["body"] if "id" in field] == ["page", "section", "read", "expected"]


def test_a_workflow_may_write_only_where_its_job_says_so() -> None:
    for name, workflow in workflows().items():
        allowed = workflow["permissions"]
        assert allowed["contents"] == "read", name
        assert {key for key, value in allowed.items() if value == "write"} <= {"issues"}, name


# Document, what it names (a file, and perhaps a function of it), the folder of the file, how many at least.
NAMED = [
    ("ACCESSIBILITY.md", r"`(test_\w+\.py)(?:::(\w+))?`", "tests/site", 16),
    (".github/SECURITY.md", r"`((?:tests|\.github)/[\w/.]+)()`", "", 6),
    ("CONTRIBUTING.md", r"`((?:workshop|tests|transformer_lib|book|experiments)/(?![\w/]*NAME)[\w/]+\.\w+)()`", "", 11),
    ("book/differences.md", r'"([\w/]+\.py)::(test_\w+)"', "tests", 20),
]


@pytest.mark.parametrize(("document", "pattern", "folder", "least"), NAMED)
def test_the_files_and_the_tests_that_a_document_names_exist(
    document: str, pattern: str, folder: str, least: int
) -> None:
    named = re.findall(pattern, (ROOT / document).read_text("utf-8"))
    assert len(named) >= least
    for file, function in named:
        path = ROOT / folder / file
        assert path.is_file(), file
        assert not function or f"def {function}(" in path.read_text("utf-8"), f"{file}::{function}"
