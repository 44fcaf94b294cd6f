"""From the instructor's notebook to the student's: our own starters instead of nbgrader's `# YOUR CODE HERE`."""

from typing import Any

from nbgrader.preprocessors import NbGraderPreprocessor  # pyright: ignore[reportMissingImports]


class StudentVersion(NbGraderPreprocessor):
    """Puts the starters back and takes out what is for the instructor only; stands where ClearSolutions would."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        nb.cells = [cell for cell in nb.cells if cell.metadata.get("book", {}).get("only") != "instructor"]
        for cell in nb.cells:
            book = cell.metadata.get("book", {})
            if "starter" in book:
                cell.source = book.pop("starter")
        return nb, resources
