"""Files beside the pages: sitemap, robots.txt, 404.html, versions.json, notebooks, and the way in.

sphinx-sitemap would replace the six lines of sitemap.xml by as many settings, list search and index too unless told,
and lose the order of the book. sphinx-notfound-page makes the addresses of one page absolute through `pathto`, which
this theme's menus do not ask; and its page has neither the search field nor the list of parts.
"""

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sphinx.application import Sphinx

from workshop.site import versions
from workshop.site.address import configured
from workshop.site.book_head import description_of, plain_text
from workshop.site.book_index import parts_of_book
from workshop.site.filled import filled

NOTEBOOKS = "_downloads/notebooks"
# The page at the root leads to the front page, and describes the book where it is shared; the one for an address that
# leads nowhere may be shown at any depth, so its links start at the root of the host.
WRITTEN = {"sitemap.xml": "sitemap.xml", "404.html": "not_found.html", "index.html": "entrance.html"}


def write(app: Sphinx) -> None:
    """Write everything beside the pages."""
    site, source = Path(app.outdir), Path(app.srcdir)
    address = configured(source)
    parts, titles = parts_of_book(source), {name: plain_text(title) for name, title in app.env.titles.items()}
    pages = [app.config.root_doc, *(page for _, names in parts for page in names)]
    values = {"home": address.home, "host": urlsplit(address.home).path, "site_name": app.config.html_title}
    values |= {"pages": pages, "parts": parts, "titles": titles}
    values["description"] = description_of(app.env.get_doctree(app.config.root_doc))
    for file, template in WRITTEN.items():
        (site / file).write_text(filled(template, **values), "utf-8")
    (site / "robots.txt").write_text(f"User-agent: *\nAllow: /\n\nSitemap: {address.home}sitemap.xml\n", "utf-8")
    (site / versions.FILE).write_text(versions.listing(address.branch, "", []), "utf-8")
    (site / NOTEBOOKS).mkdir(parents=True, exist_ok=True)
    for notebook in sorted((source / "notebooks").glob("*.ipynb")):
        shutil.copyfile(notebook, site / NOTEBOOKS / notebook.name)


def offer_notebook(app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Let the menus of a page offer its notebook, in Colab and as a file; the theme offers the source, solutions and
    all."""
    file = f"{Path(page).name}.ipynb"
    link = {
        "type": "link",
        "url": context["pathto"](f"{NOTEBOOKS}/{file}", 1),
        "text": "Notebook (.ipynb)",
        "icon": "fas fa-code",
        "tooltip": "Download the notebook of this page",
        "label": "download-notebook-button",
    }
    for group in context.get("header_buttons", []):
        for button in (one for one in group.get("buttons", []) if one["text"] == "Colab"):
            button["url"] = configured(Path(app.srcdir)).colab(f"notebooks/{file}")
        if group.get("label") == "download-buttons":
            *_, print_ = group["buttons"]
            print_ |= {"text": "Print this page", "icon": "fas fa-print", "tooltip": "Print, or save as PDF"}
            group["buttons"] = [link, print_] if Path(app.srcdir, "notebooks", file).exists() else [print_]
