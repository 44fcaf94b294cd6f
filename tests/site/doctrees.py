"""Trees of docutils, as the local extension gets them from a page."""

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document


def document(*children: nodes.Node) -> nodes.document:
    tree = new_document("page.md", get_default_settings())
    tree.extend(children)
    return tree
