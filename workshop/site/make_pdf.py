"""Print the built site as one PDF, chapter by chapter, and offer it for download on the pages.

    make book pdf

Needs a Chromium or Chrome of version 131 or newer, which prints page numbers by CSS. The pages are printed as a
reader's browser would print them, in the light scheme and without solutions, then joined: a title page, the contents,
an outline of parts, chapters and sections. Links between chapters stay inside the file; all others lead to the
published site.
"""

import argparse
import json
import re
import time
from pathlib import Path

import yaml
from playwright.sync_api import BrowserContext, PdfMargins, sync_playwright

from workshop.site.address import configured
from workshop.site.chromium import ARGUMENTS, SETTLED, find_browser
from workshop.site.join_pdf import FRONT, Chapter, front_matter, joined

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
NAME = "the-executable-transformer.pdf"
MARKER = "<!-- whole-book-pdf -->"
ICON = '<span class="btn__icon-container"><i class="fas fa-download" aria-hidden="true"></i></span>'
MENU = re.compile(r'(<button onclick="window\.print\(\)".*?</button>\s*</li>)', re.DOTALL)
MARGIN: PdfMargins = {"top": "18mm", "bottom": "20mm", "left": "17mm", "right": "17mm"}
# Below every page: the chapter's title and the number of the page in the whole book.
FOOT = """@page {{ font: 8pt "DejaVu Sans", sans-serif; color: #4a5a6a; @bottom-left {{ content: {title} }}
@bottom-right {{ content: counter(page) }} }} html {{ counter-reset: page {before} }}"""
# Solutions go. Ids get the chapter's name, since all chapters share one list of them; links get public addresses.
PREPARE = """([chapter, base, home]) => {
  document.querySelectorAll('.solution, details.admonition.solution').forEach(box => box.remove());
  document.querySelectorAll('article a[href]').forEach(link => {
    const href = link.getAttribute('href');
    if (!href.startsWith('#')) {
      if (link.href.startsWith(base)) link.href = home + link.href.slice(base.length);
      return;
    }
    const target = document.getElementById(decodeURIComponent(href.slice(1)));
    if (!target) { link.removeAttribute('href'); return; }
    if (!target.id.startsWith(chapter + '--')) target.id = chapter + '--' + target.id;
    link.setAttribute('href', '#' + target.id);
  });
}"""


def chapters_in_order(toc: Path) -> list[Chapter]:
    """All pages but those of the API, which nobody reads from end to end."""
    table = yaml.safe_load(toc.read_text("utf-8"))
    parts = [(part["caption"], chapter["file"]) for part in table["parts"] for chapter in part["chapters"]]
    return [Chapter(table["root"]), *(Chapter(file, part) for part, file in parts if not file.startswith("book/api"))]


def print_chapter(context: BrowserContext, site: Path, chapter: Chapter, home: str) -> None:
    """Open the chapter, wait until it is drawn, and print it."""
    page = context.new_page()
    page.add_init_script("for (const key of ['mode', 'theme']) localStorage.setItem(key, 'light');")
    page.emulate_media(media="print", color_scheme="light")
    page.goto((site / f"{chapter.file}.html").as_uri(), wait_until="load")
    page.wait_for_function(SETTLED, timeout=60_000)
    page.evaluate(PREPARE, [chapter.name, f"{site.as_uri()}/", home])
    heading = page.locator("article h1").first
    chapter.title = heading.evaluate("h => [...h.childNodes].filter(n => !n.matches?.('.headerlink'))"
                                     ".map(n => n.textContent).join('').trim()")  # fmt: skip
    title = json.dumps(chapter.title, ensure_ascii=False)
    page.add_style_tag(content=FOOT.format(title=title, before=chapter.first_page))
    chapter.printed = page.pdf(format="A4", margin=MARGIN, print_background=True, outline=True, tagged=True)
    page.close()


def print_html(context: BrowserContext, text: str) -> bytes:
    """Print a page that this program wrote, edge to edge."""
    page = context.new_page()
    page.set_content(text)
    printed = page.pdf(format="A4", prefer_css_page_size=True)
    page.close()
    return printed


def print_book(site: Path) -> tuple[bytes, int]:
    """The whole book and its number of pages."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    book, licence, home = config["title"], config["html"]["extra_footer"].strip(), configured().home
    chapters = chapters_in_order(ROOT / "_toc.yml")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=ARGUMENTS)
        context = browser.new_context(viewport={"width": 794, "height": 1123})
        first_page = FRONT
        for chapter in chapters:
            chapter.first_page = first_page
            print_chapter(context, site, chapter, home)
            first_page += chapter.length
            print(f"  {chapter.length:4} pages  {chapter.title}", flush=True)
        front = print_html(context, front_matter(book, chapters, home, licence))
        browser.close()
    return joined(book, chapters, front, home)


def offer_file(site: Path, name: str, marker: str, label: str, words: str) -> None:
    """Put the link to a file into the menu of every page, and words with it beside the first door of the front page."""
    for file in [*site.glob("*.html"), *site.glob("book/*.html")]:
        page = file.read_text("utf-8")
        up = "../" if file.parent != site else ""
        link = f'<a class="btn btn-sm dropdown-item" href="{up}{name}" download>{ICON}{label}</a>'
        offered = MENU.sub(rf"\1<li>{link}</li>", page)
        offered = offered.replace(marker, words.format(address=f"{up}{name}"))
        if name not in page and offered != page:
            file.write_text(offered, "utf-8")


def chosen_site(about: str) -> Path:
    """The built site that the command names, or the one that `make book` built."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--site", type=Path, default=SITE, help="the built site")
    site = parser.parse_args().site.resolve()
    if not (site / "index.html").exists():
        raise SystemExit(f"{site} holds no site: run `make book` first")
    return site


def main() -> None:
    site = chosen_site(__doc__ or "")
    start = time.monotonic()
    data, pages = print_book(site)
    (site / NAME).write_bytes(data)
    offer_file(site, NAME, MARKER, "Whole book (.pdf)", 'Or as a <a href="{address}" download>book to print (PDF)</a>.')
    print(f"{NAME}: {pages} pages, {len(data) / 1e6:.1f} MB, {time.monotonic() - start:.0f} s.")


if __name__ == "__main__":
    main()
