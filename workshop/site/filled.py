"""HTML and XML that the site's Python fills in: Jinja's templates, beside this file; each value is escaped."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}


def filled(name: str, **values: Any) -> str:
    """The template of this name with these values."""
    return TEMPLATES.get_template(name).render(values)
