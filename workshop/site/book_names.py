"""Roles for what prose names: `{test}` a test or a file of tests, `{lib}` a name of a package.

A name that is not there fails the build, and the notebooks. A test is named by its id, as pytest names it:
{test}`tests/paper/test_masks.py::test_padding_hides_keys`; a name of a package as an import finds it:
{lib}`transformer_lib.layers.AddAndNorm`. The page shows the last part of the name, in code.
"""

import ast
import importlib
import inspect
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole

from workshop.site.address import configured

LOGGER = logging.getLogger(__name__)


def file_of_test(root: Path, test: str) -> tuple[str, str]:
    """The words that name a test, and its file; ValueError if there is no such test."""
    path, _, name = test.partition("::")
    if not path.startswith("tests/") or not (root / path).is_file():
        raise ValueError(f"no file of tests {path!r}, which {test!r} names")
    defined = {getattr(node, "name", "") for node in ast.parse((root / path).read_text("utf-8")).body}
    if name and name not in defined:
        raise ValueError(f"no test {name!r} in {path}")
    return name or path, path


def file_of_name(root: Path, name: str) -> tuple[str, str]:
    """The last part of a name of a package, and the file of its module; ValueError if there is no such name."""
    module_name, _, attribute = name.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError):  # ValueError: no module at all
        raise ValueError(f"no module {module_name!r}, in which {name!r} should be") from None
    if not hasattr(module, attribute):
        raise ValueError(f"no {attribute!r} in {module_name}")
    package = importlib.import_module(module_name.partition(".")[0])
    checkout = Path(inspect.getfile(package)).parents[1]  # `root` may be a copy of the book
    return attribute, Path(inspect.getfile(module)).relative_to(checkout).as_posix()


FILES = {"test": file_of_test, "lib": file_of_name}


def markdown(role: str, target: str, root: Path) -> str:
    """The name as a link to its file on the repository's site, as a notebook has it."""
    words, path = FILES[role](root, target)
    return f"[`{words}`]({configured(root).blob(path)})"


class Named(ReferenceRole):
    """The name in code, linked: a test to its file, a name of the package to the API, where that describes it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        root = Path(self.env.srcdir)
        try:
            words, path = FILES[self.name](root, self.target)
        except ValueError as error:
            LOGGER.warning("%s", error, location=self.get_location())
            return [nodes.literal("", self.target)], []
        word = nodes.literal("", words, classes=["xref"])
        if self.name == "test":
            address = configured(root).blob(path)
            return [nodes.reference("", "", word, refuri=address, internal=False, reftitle=path)], []
        link = addnodes.pending_xref(
            "", word, refdomain="py", reftype="obj", reftarget=self.target, refexplicit=True, refwarn=False
        )
        return [link], []
