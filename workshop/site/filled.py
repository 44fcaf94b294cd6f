"""Texts with gaps: Jinja's templates, in this folder and that of the course; HTML and XML have each value escaped."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

SITE = Path(__file__).parent
TEMPLATES = Environment(
    loader=FileSystemLoader([SITE, SITE.with_name("course")]),
    autoescape=select_autoescape(["html", "html.j2", "xhtml", "xml"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}


def filled(name: str, /, **values: Any) -> str:
    """The template of this name with these values."""
    return TEMPLATES.get_template(name).render(values)
