"""Search: its order, its passages, what it loads. Needs what conftest.py says."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from browser import choose, opened, recorded
from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.slow

SHOWN = "[...document.querySelectorAll('p.context')].every(text => text.querySelector('.highlighted'))"
LOADED = "performance.getEntriesByType('resource').map(entry => entry.name)"
DONE = "/found/.test(document.querySelector('#search-results').textContent)"


@pytest.fixture(scope="module")
def tab(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


@pytest.fixture
def page(tab: Page) -> Page:
    """The same for all: each test opens in it what it needs."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    return tab


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


# No name of a function may be wider than a phone.
LONG = "for (const one of document.querySelectorAll('p.context')) one.textContent = 'test_' + 'a_name_'.repeat(15)"


@pytest.mark.parametrize("query", FOUND)
def test_a_word_finds_its_chapter_first_and_shows_the_words_without_loading_what_is_not_seen(
    page: Page, origins: dict[str, str], query: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    files = found(page, origins["http"], query)
    chapters = [name for name in files if not name.startswith("api")]
    first, then = FOUND[query]
    assert files[0] == first
    assert set(files[1 : 1 + len(then)]) == then
    assert len(chapters) == len(set(chapters))
    assert files[: len(chapters)] == chapters
    titles = page.locator("#search-results li > a").all_inner_texts()
    assert not any(re.search(r"(?:^|\. )(.+) > \1$", title) for title in titles)
    passages = page.locator("#search-results p.context")
    passages.first.locator(".highlighted").first.wait_for()  # what is seen is asked for at once
    assert 1 <= len([url for url in page.evaluate(LOADED) if "/_static/search/" in url]) <= 8
    page.set_viewport_size({"width": 390, "height": 9000})  # all of them
    page.wait_for_function(SHOWN)
    loaded = page.evaluate(LOADED)
    assert not any(url.startswith(origins["http"] + "book/") for url in loaded), "a whole page"
    shown = passages.all_inner_texts()
    assert all(0 < len(text) <= 260 for text in shown)
    words = [word[:4].lower() for word in query.split()]
    assert all(word in text.lower() for text in shown[:2] for word in words)
    # No passage of a page may have all of the words.
    assert all(any(word in text.lower() for word in words) for text in shown)
    page.evaluate(LONG)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize(
    ("query", "rank", "place", "sentence"),
    [
        ("softmax", "glossary", "glossary.html#word-softmax", "softmax: turning scores into positive weights"),
        ("ChatGPT", "twenty_minutes", "twenty_minutes.html#what-this-says-of-chatgpt", ""),
        ("dice", "twenty_minutes", "twenty_minutes.html#what-this-says-of-chatgpt", ""),
        ("beam_search", "api", "api.html#transformer_lib.decoding.beam_search", "beam_search"),
    ],
)
def test_a_result_leads_to_what_it_shows(
    page: Page, origins: dict[str, str], query: str, rank: str, place: str, sentence: str
) -> None:
    files = found(page, origins["http"], query)
    item = page.locator("#search-results li").nth(0 if rank == "api" else files.index(rank))
    item.scroll_into_view_if_needed()
    item.locator(".highlighted").first.wait_for()
    assert sentence in item.inner_text()
    assert (item.locator("a").get_attribute("href") or "").endswith(f"/{place}")
    item.locator("a").click()
    page.wait_for_load_state()
    assert page.locator(":target").count() == 1


@pytest.mark.parametrize(("query", "name"), [("softmax", "twenty_minutes"), ("Kendall", "attention_maps")])
def test_a_result_in_a_fold_opens_it(page: Page, origins: dict[str, str], query: str, name: str) -> None:
    """A box of the theme, and evidence."""
    files = found(page, origins["http"], query)
    item = page.locator("#search-results li").nth(files.index(name))
    item.scroll_into_view_if_needed()
    item.locator(".highlighted").first.wait_for()
    item.locator("a").click()
    page.wait_for_load_state()
    passage = page.locator(":target")
    passage.wait_for()
    assert query.lower() in passage.inner_text().lower()
    box = passage.bounding_box()
    assert box is not None
    assert 0 < box["y"] < 450


def test_where_nothing_is_found_the_page_speaks_of_no_categories(page: Page, origins: dict[str, str]) -> None:
    page.goto(f"{origins['http']}search.html?q=rhinoceros")
    status = page.locator(".search-summary")
    page.wait_for_function("document.querySelector('.search-summary').textContent")
    assert "glossary" in status.inner_text()
    assert "categories" not in status.inner_text()


def test_the_magnifying_glass_stands_beside_the_words(page: Page, origins: dict[str, str]) -> None:
    opened(page, origins["http"] + "search.html")
    overlap = page.locator("main form.bd-search").evaluate(
        """form => {
          const glass = form.querySelector('svg, i'), field = form.querySelector('input');
          const words = parseFloat(getComputedStyle(field).paddingLeft);
          return glass.getBoundingClientRect().right - field.getBoundingClientRect().left - words;
        }"""
    )
    assert overlap <= 0
