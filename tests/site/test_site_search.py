"""Search: its order, its passages, what it loads. Needs what conftest.py says."""

import json
import re
from urllib.parse import urlsplit

import pytest
from browser import choose, opened, recorded
from playwright.sync_api import Page

pytestmark = pytest.mark.slow

DONE = "/found/.test(document.querySelector('#search-results').textContent)"


def found(page: Page, origin: str, query: str) -> list[str]:
    """The files of the results, in order."""
    page.goto(f"{origin}search.html?q={query}")
    page.wait_for_function(DONE, timeout=20_000)
    links = page.locator("#search-results li > a").evaluate_all("links => links.map(link => link.href)")
    return [urlsplit(href).path.rpartition("/")[2].removesuffix(".html") for href in links]


@pytest.mark.parametrize("kind", ["http", "file"])
def test_search_finds_a_chapter_without_a_network(page: Page, origins: dict[str, str], kind: str) -> None:
    choose(page, "light")
    faults = recorded(page, origins[kind])
    assert found(page, origins[kind], "label+smoothing")[0] == "label_smoothing"
    first = page.locator("#search-results li").first
    first.locator(".context .highlighted").first.wait_for()  # from a file, too
    first.locator("a").click()
    page.wait_for_load_state()
    assert "/book/label_smoothing.html" in page.url
    assert faults == []


# Each word: the page that comes first, and pages that come directly after it, in any order.
FOUND = {
    "masking": ("masks", set()),
    "positional": ("positional_encoding", {"glossary"}),
    "softmax": ("first_steps", {"glossary", "twenty_minutes"}),
    "memory": ("encoder_decoder", {"glossary", "twenty_minutes"}),
    "attention": ("attention", {"glossary", "twenty_minutes"}),
    "matrix": ("first_steps", {"glossary", "twenty_minutes"}),
    "beam": ("decoding", set()),
    "GPT": ("since_then", {"glossary", "twenty_minutes"}),
    "ChatGPT": ("twenty_minutes", {"glossary", "since_then"}),
    "BERT": ("since_then", set()),
    "dropout": ("encoder_decoder", {"glossary"}),
    "label smoothing": ("label_smoothing", {"glossary"}),
}


@pytest.mark.parametrize("query", FOUND)
def test_a_word_finds_its_chapter_the_glossary_and_the_short_way_before_the_api(
    page: Page, origins: dict[str, str], query: str
) -> None:
    files = found(page, origins["http"], query)
    chapters = [name for name in files if not name.startswith("api")]
    first, then = FOUND[query]
    assert files[0] == first
    assert set(files[1 : 1 + len(then)]) == then
    assert len(chapters) == len(set(chapters))
    assert files[: len(chapters)] == chapters
    titles = page.locator("#search-results li > a").all_inner_texts()
    assert not any(re.search(r"(?:^|\. )(.+) > \1$", title) for title in titles)


def test_the_name_of_a_function_finds_its_entry_first(page: Page, origins: dict[str, str]) -> None:
    page.goto(f"{origins['http']}search.html?q=beam_search")
    first = page.locator("#search-results li > a").first
    assert (first.get_attribute("href") or "").endswith("api.html#transformer_lib.decoding.beam_search")


@pytest.mark.parametrize("query", ["memory", "ChatGPT", "softmax", "matrix", "label smoothing"])
def test_each_passage_has_the_words_and_nothing_is_loaded_that_is_not_seen(
    page: Page, origins: dict[str, str], query: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    found(page, origins["http"], query)
    page.wait_for_load_state("networkidle")
    passages = page.locator("#search-results p.context")
    seen = [url for url in loaded if "/_static/search/" in url]
    assert 1 <= len(seen) <= 8
    assert not any(url.startswith(origins["http"] + "book/") for url in loaded), "a whole page"
    for place in passages.all():
        place.scroll_into_view_if_needed()
        place.locator(".highlighted").first.wait_for()
    shown = passages.all_inner_texts()
    assert all(10 <= len(text) <= 260 for text in shown)
    words = [word[:5].lower() for word in query.split()]
    assert all(word in text.lower() for text in shown[:2] for word in words)
    # No passage of a page may have all of the words.
    assert all(any(word in text.lower() for word in words) for text in shown)


def test_a_term_of_the_glossary_is_shown_with_its_sentence(page: Page, origins: dict[str, str]) -> None:
    files = found(page, origins["http"], "softmax")
    item = page.locator("#search-results li").nth(files.index("glossary"))
    item.locator(".highlighted").first.wait_for()
    assert "softmax: turning scores into positive weights" in item.inner_text()
    item.locator("a").click()
    page.wait_for_load_state()
    assert page.locator(f"#{urlsplit(page.url).fragment}").inner_text() == "softmax"


@pytest.mark.parametrize("query", ["ChatGPT", "dice"])
def test_a_result_leads_to_the_section_named_after_the_word_or_to_what_is_shown(
    page: Page, origins: dict[str, str], query: str
) -> None:
    files = found(page, origins["http"], query)
    item = page.locator("#search-results li").nth(files.index("twenty_minutes"))
    item.scroll_into_view_if_needed()
    item.locator(".highlighted").first.wait_for()
    assert (item.locator("a").get_attribute("href") or "").endswith("#what-this-says-of-chatgpt")


def test_where_nothing_is_found_the_page_speaks_of_no_categories(page: Page, origins: dict[str, str]) -> None:
    page.goto(f"{origins['http']}search.html?q=rhinoceros")
    status = page.locator(".search-summary")
    page.wait_for_function("document.querySelector('.search-summary').textContent")
    assert "glossary" in status.inner_text()
    assert "categories" not in status.inner_text()


def test_a_long_name_does_not_widen_the_page(page: Page, origins: dict[str, str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    found(page, origins["http"], "why+does+it+make+mistakes")
    page.wait_for_load_state("networkidle")
    name = json.dumps("test_" + "a_name_without_a_space_" * 5)
    page.evaluate(f"for (const one of document.querySelectorAll('p.context')) one.textContent = {name}")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("name", ["search.html", "book/masks.html"])
def test_the_magnifying_glass_stands_beside_the_words(page: Page, origins: dict[str, str], name: str) -> None:
    opened(page, origins["http"] + name)
    overlap = page.locator("form.bd-search").first.evaluate(
        """form => {
          const glass = form.querySelector('svg, i'), field = form.querySelector('input');
          const words = parseFloat(getComputedStyle(field).paddingLeft);
          const [left, right] = [field.getBoundingClientRect().left, glass.getBoundingClientRect().right];
          return glass.getClientRects().length ? right - left - words : 0;
        }"""
    )
    assert overlap <= 0
