"""The bibliography: a letter behind the year, as in "2014a", tells apart two papers of the same authors and year.

The letter stands in references.bib, so that pages, notebooks and slides cite alike.
"""

from typing import Any

from pybtex.plugin import register_plugin
from pybtex.style.formatting.alpha import Style
from pybtex.style.labels.alpha import LabelStyle

NAME = "lettered"  # as _config.yml has it


class Labels(LabelStyle):
    """Those of the style alpha, which ends a label with the last two characters of the year."""

    def format_label(self, entry: Any) -> str:
        """Such as CvMGB+14: two digits, whatever letter follows them."""
        year: str = entry.fields["year"]
        return super().format_label(entry).removesuffix(year[-2:]) + year.rstrip("abc")[-2:]


class Lettered(Style):
    """The style alpha with these labels."""

    default_label_style = Labels


def register() -> None:
    """Make the style known under its name."""
    register_plugin("pybtex.style.formatting", NAME, Lettered)
