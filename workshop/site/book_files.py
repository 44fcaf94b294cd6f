"""Files beside the pages: sitemap, robots.txt, 404.html, versions.json, notebooks, and the way in.

sphinx-sitemap would replace the five lines of `sitemap` by as many settings, list search and index too unless told, and
lose the order of the book. sphinx-notfound-page makes the addresses of one page absolute through `pathto`, which this
theme's menus do not ask; and its page has neither the search field nor the list of parts.
"""

import html
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx

from workshop.site import versions
from workshop.site.address import Address, configured
from workshop.site.book_head import description_of, plain_text, tags
from workshop.site.book_index import parts_of_book
from workshop.site.filled import filled

NOTEBOOKS = "_downloads/notebooks"


def sitemap(addresses: list[str]) -> str:
    lines = [f"  <url><loc>{html.escape(address)}</loc></url>" for address in addresses]
    start = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return "\n".join([start, *lines, "</urlset>\n"])


def not_found(home: str, book: str, parts: list[tuple[str, list[str]]], titles: dict[str, str]) -> str:
    """The page for an address that leads nowhere, at any depth: its links start at the root of the host."""
    return filled("not_found.html", home=home, book=book, parts=parts, titles=titles)


def entrance(app: Sphinx, address: Address) -> str:
    """The page at the root of the site: it leads to the front page, and describes the book where it is shared."""
    root, book = app.config.root_doc, app.config.html_title
    target = f"{address.home}{root}.html"
    described = tags(book, description_of(app.env.get_doctree(root)), target, address.home, book)
    return filled("entrance.html", title=book, page=f"{root}.html", address=target, tags=described)


def write(app: Sphinx) -> None:
    """Write everything beside the pages."""
    site, source = Path(app.outdir), Path(app.srcdir)
    address = configured(source)
    parts, titles = parts_of_book(source), {name: plain_text(title) for name, title in app.env.titles.items()}
    pages = [app.config.root_doc, *(page for _, names in parts for page in names)]
    (site / "sitemap.xml").write_text(sitemap([f"{address.home}{page}.html" for page in pages]), "utf-8")
    (site / "robots.txt").write_text(f"User-agent: *\nAllow: /\n\nSitemap: {address.home}sitemap.xml\n", "utf-8")
    (site / versions.FILE).write_text(versions.listing(address.branch, "", []), "utf-8")
    home = urlsplit(address.home).path
    (site / "404.html").write_text(not_found(home, app.config.html_title, parts, titles), "utf-8")
    (site / "index.html").write_text(entrance(app, address), "utf-8")
    (site / NOTEBOOKS).mkdir(parents=True, exist_ok=True)
    for notebook in sorted((source / "notebooks").glob("*.ipynb")):
        shutil.copyfile(notebook, site / NOTEBOOKS / notebook.name)


def offer_downloads(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Let the page's menu offer its notebook and its print; the theme offers the source, solutions and all."""
    groups = [group for group in context.get("header_buttons", []) if group.get("label") == "download-buttons"]
    if not groups:
        return
    buttons = [button for button in groups[0]["buttons"] if button["type"] == "javascript"]
    for button in buttons:
        button |= {"text": "Print this page", "icon": "fas fa-print", "tooltip": "Print, or save as PDF"}
    notebook = f"{Path(page).name}.ipynb"
    if doctree is not None and Path(app.srcdir, "notebooks", notebook).exists():
        link = {
            "type": "link",
            "url": context["pathto"](f"{NOTEBOOKS}/{notebook}", 1),
            "text": "Notebook (.ipynb)",
            "icon": "fas fa-code",
            "tooltip": "Download the notebook of this page",
            "label": "download-notebook-button",
        }
        buttons.insert(0, link)
    groups[0]["buttons"] = buttons
