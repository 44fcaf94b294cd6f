"""Links that open the right form with the page and the section filled in, and the workflows beside the forms."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from browser import API, CHAPTERS, opened
from docutils.utils import new_document
from playwright.sync_api import Page

from workshop.site import book_report
from workshop.site.address import Address, configured

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
FORMS = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in GITHUB.glob("ISSUE_TEMPLATE/*.yml")}
HOME = Address("owner", "name")
ANCHOR = '<a class="headerlink" href="#x" title="Link to this heading">#</a>'
LINK = re.compile(r'<a class="report" href="([^"]+)" aria-label="([^"]+)">')


def reports(body: str) -> list[tuple[dict[str, list[str]], str]]:
    """What each link of the body fills in, and its name."""
    linked = book_report.with_reports(body, "masks", HOME)
    addresses = [(urlsplit(url.replace("&amp;", "&")), label) for url, label in LINK.findall(linked)]
    assert {url.netloc + url.path for url, _ in addresses} <= {"github.com/owner/name/issues/new"}
    return [(parse_qs(url.query, strict_parsing=True), label) for url, label in addresses]


@pytest.mark.parametrize(
    ("heading", "form", "name"),
    [
        (f"<h2>By hand{ANCHOR}</h2>", "stumbled.yml", "By hand"),
        (f'<span id="eq-1"></span><h2>The equation{ANCHOR}</h2>', "equation.yml", "The equation"),
        (f'<span id="elsewhere"></span><h2>A &amp; B{ANCHOR}</h2>', "stumbled.yml", "A & B"),
        (f'<h2>A run, with <span class="math">\\(d_k\\)</span>{ANCHOR}</h2>', "stumbled.yml", "A run, with d_k"),
        (
            '<div class="exercise admonition" id="ex">\n\n<p class="admonition-title">'
            '<span class="caption-number">Exercise 20 </span> (Five keys)</p>',
            "exercise.yml",
            "Exercise 20 (Five keys)",
        ),
    ],
)
def test_a_link_opens_the_right_form_with_page_and_section(heading: str, form: str, name: str) -> None:
    (filled, label), *others = reports(heading)
    assert others == []
    assert filled == {"template": [form], "title": [f"masks: {name}"], "page": ["masks"], "section": [name]}
    assert name in label.replace("&amp;", "&")


def test_the_link_stands_behind_the_heading_and_leaves_the_rest_alone() -> None:
    body = f"<p>before</p><h2>By hand{ANCHOR}</h2><p>after</p>"
    linked = book_report.with_reports(body, "masks", HOME)
    assert LINK.sub("", linked).replace("Report</a>", "") == body
    assert linked.index("</h2>") < linked.index('class="report"')


def test_the_menu_of_a_page_opens_the_same_form() -> None:
    button: dict[str, Any] = {"url": "https://github.com/owner/name/issues/new?title=x&body=y", "text": "Open issue"}
    context = {"body": f"<h1>Masks{ANCHOR}</h1>", "header_buttons": [{"buttons": [button]}, {"type": "javascript"}]}
    config = SimpleNamespace(html_theme_options={"repository_url": HOME.repository})
    app: Any = SimpleNamespace(builder=SimpleNamespace(name="html"), config=config, srcdir=ROOT)
    book_report.add_links(app, "book/masks", "page.html", context, new_document(""))
    assert parse_qs(urlsplit(button["url"]).query)["page"] == ["masks"]
    assert len(LINK.findall(context["body"])) == 1


@pytest.mark.slow
def test_every_heading_and_exercise_of_the_site_has_its_link(site: Path) -> None:
    for name in CHAPTERS + API:
        page = (site / name).read_text("utf-8")
        article = page[page.index("<article") : page.index("</article>")]
        links = [url.replace("&amp;", "&") for url, _ in LINK.findall(article)]
        headings = len(re.findall(r'<a class="headerlink"[^>]*title="Link to this heading"', article))
        assert len(links) == headings + article.count('<div class="exercise admonition"') > 0, name
        assert all(url.startswith(f"{configured().repository}/issues/new?template=") for url in links)


@pytest.mark.slow
def test_the_link_is_quiet_until_the_focus_comes(page: Page, origins: dict[str, str]) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    opened(page, f"{origins['http']}book/masks.html")
    link = page.locator("a.report").nth(1)
    seen = "link => Number(getComputedStyle(link).opacity)"
    assert link.evaluate(seen) == 0
    link.evaluate("link => link.previousElementSibling.querySelector('.headerlink').focus()")
    link.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert link.evaluate("link => link === document.activeElement")
    assert link.evaluate(seen) == 1
    page.emulate_media(media="print")
    assert not link.is_visible()


# ── What GitHub reads ─────────────────────────────────────────────────────────────────────────────────────────


def workflows() -> dict[str, Any]:
    return {path.name: yaml.safe_load(path.read_text("utf-8")) for path in GITHUB.glob("workflows/*.yml")}


def test_a_form_asks_for_what_a_link_fills_in_and_two_things_more() -> None:
    forms = {name: form for name, form in FORMS.items() if name != "config.yml"}
    assert set(forms) == {book_report.STUMBLED, book_report.EQUATION, book_report.EXERCISE}
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
