"""The assignment of a chapter: its exercises as a notebook in the format of nbgrader, solutions in place.

What a student gets is made from this by nbgrader (grading/course.py): starters put back, explanations and
hidden checks taken out. The same chapter always gives the same bytes: each cell is named after its exercise.
"""

import json
from itertools import groupby

import nbformat
from nbformat.notebooknode import NotebookNode

from workshop.course.assignment_papers import half_right, numbered, with_code
from workshop.course.exercise_context import asked, bound, cells_before, places
from workshop.course.exercises import PASSED, Exercise, exercises_of, split_check, tags
from workshop.course.grading.counted import counted
from workshop.course.variants import written
from workshop.site.address import Address
from workshop.site.book_index import Page
from workshop.site.filled import filled
from workshop.site.make_notebooks import METADATA, installation
from workshop.site.myst_blocks import Block
from workshop.site.plain_markdown import Plain, task_words

SCHEMA = 3  # of the metadata that nbgrader 0.9 writes
WRITTEN_STARTER = "*Write your answer here.*"
CHECK = """\
{definitions}


def stopped_before():  # what the cell before ended with, in a notebook
    shell = globals().get("get_ipython", lambda: None)()
    last = shell and shell.user_ns is globals() and shell.last_execution_result
    error = last and (last.error_in_exec or last.error_before_exec)
    return None if isinstance(error, AssertionError) else error


assert not stopped_before(), f"The cell before did not run to its end, mend it first: {{stopped_before()!r}}"
message = {call}
print(message)
assert message.startswith({passed!r}), message"""
HIDDEN = """\
# The grader runs further checks here.
### BEGIN HIDDEN TESTS
{definitions}


{source}
### END HIDDEN TESTS"""


def _nbgrader(grade_id: str, **role: bool | int) -> dict[str, object]:
    """The metadata by which nbgrader knows a cell."""
    plain = {"schema_version": SCHEMA, "grade": False, "solution": False, "locked": False, "task": False}
    return {**plain, "grade_id": grade_id, **role}


def code(name: str, source: str, nbgrader: dict[str, object], **book: object) -> NotebookNode:
    metadata = {"nbgrader": nbgrader, "book": book} if book else {"nbgrader": nbgrader}
    return nbformat.v4.new_code_cell(source, id=name, metadata=metadata)


def text(name: str, source: str, **metadata: object) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(source, id=name, metadata=metadata)


class AssignmentWriter:
    """Collects the cells of one chapter's assignment."""

    def __init__(self, page: Page, plain: Plain, address: Address):
        self.page, self.plain, self.address = page, plain, address
        self.cells: list[NotebookNode] = []
        self.given: set[int] = set()  # places of the chapter's cells that are already in the assignment
        exercises = [one for one in exercises_of(page) if one.is_graded_by_machine]
        self.needed = {place for one in exercises for place in places(cells_before(page, plain, one.line), one)}

    def write(self) -> list[NotebookNode]:
        words = {"title": self.plain.inline(self.page.title, 1), "site": self.address.site, "name": self.page.name}
        self.cells.append(text("introduction", filled("introduction.md", **words).rstrip()))
        install = installation(self.address)
        self.cells.append(code("install", install, _nbgrader("install", locked=True), binds=[]))
        for place, exercise in enumerate(exercises_of(self.page), 1):
            if exercise.is_graded_by_machine:
                self._setup(exercise)
            self._statement(exercise, numbered(self.page, self.plain, exercise, place))
            if exercise.is_graded_by_machine:
                self._machine(exercise)
            else:
                self._written(exercise)
        return self.cells

    def _setup(self, exercise: Exercise) -> None:
        """The chapter's cells above the exercise that it or a later one stands on, unless they are there already.

        So an answer may use what it could in the chapter, such as an import that only a later exercise needs.
        """
        sources = cells_before(self.page, self.plain, exercise.line)
        for place in range(len(sources)):
            if place in self.needed and place not in self.given:
                self.given.add(place)
                name = f"setup-{place:02d}"
                binds = sorted(bound(sources[place]))
                self.cells.append(code(name, sources[place], _nbgrader(name, locked=True), binds=binds))

    def _statement(self, exercise: Exercise, number: str) -> None:
        """Title, task and hints as text; a cell that the exercise only shows stays a cell."""
        task = task_words(exercise.kind, vars(exercise) | {"without": " | ".join(exercise.without)})
        head = f"## {number}: {self.plain.inline(exercise.title, exercise.line)}\n\n*{task}*"
        for is_code, run in groupby([*exercise.statement, *exercise.hints], lambda one: one.name == "code-cell"):
            blocks = [*run]
            words = [head, "" if is_code else self.plain.render(blocks)]
            head = ""
            if any(words):
                name = f"{exercise.label}-text-{len(self.cells)}"
                self.cells.append(text(name, "\n\n".join(filter(None, words))))
            for block in blocks if is_code else ():
                self._shown(exercise, block)

    def _shown(self, exercise: Exercise, block: Block) -> None:
        is_numbers = "numbers" in tags(block)
        name = f"{exercise.label}-numbers" if is_numbers else f"{exercise.label}-shown-{len(self.cells)}"
        source = block.text.strip("\n")
        book: dict[str, object] = {"binds": sorted(bound(source))}
        if is_numbers:  # what there is to choose from is for the grader, and for no reader
            book |= {"numbers": exercise.label, "choices": source}
            source = written(source)
        self.cells.append(code(name, source, _nbgrader(name, locked=True), **book))

    def _machine(self, exercise: Exercise) -> None:
        """The answer cell, filled in; the visible check; the hidden check; and the explanation."""
        label, cells = exercise.label, exercise.cells
        without = {"without": exercise.without} if exercise.without else {}
        solution = code(label, cells["solution"], _nbgrader(label, solution=True), starter=cells["answer"], **without)
        definitions, call = split_check(cells["check"])
        check = CHECK.format(definitions=definitions, call=call, passed=PASSED)
        hidden = HIDDEN.format(definitions=definitions, source=cells["hidden-check"])  # it may call the visible one
        names = sorted(asked(exercise))
        points = {"check": exercise.visible_points, "hidden": exercise.points - exercise.visible_points}
        self.cells.append(solution)
        for part, source in (("check", check), ("hidden", hidden)):
            name = f"{label}-{part}"
            role = _nbgrader(name, grade=True, locked=True, points=points[part])
            self.cells.append(code(name, source, role, answer=label, names=names, **without))
        if words := with_code(self.plain, exercise.explanation):
            self.cells.append(text(f"{label}-explanation", words, book={"only": "instructor"}))

    def _written(self, exercise: Exercise) -> None:
        """One cell of prose, marked by hand; the rubric stands in the instructor's version."""
        words = self.plain.inline
        rubric = [f"- {counted(points, 'point')}: {words(what, exercise.line)}" for points, what in exercise.rubric]
        explanation = with_code(self.plain, exercise.explanation)
        answer = "\n\n".join([explanation, "**Rubric**\n\n" + "\n".join(rubric), half_right(exercise)])
        role = _nbgrader(exercise.label, grade=True, solution=True, points=exercise.points)
        self.cells.append(text(exercise.label, answer, nbgrader=role, book={"starter": WRITTEN_STARTER}))


def assignment(page: Page, plain: Plain, address: Address) -> NotebookNode:
    """The instructor's notebook of a chapter."""
    metadata = {**METADATA, "book": {"chapter": page.name}}
    notebook = nbformat.v4.new_notebook(cells=AssignmentWriter(page, plain, address).write(), metadata=metadata)
    nbformat.validate(notebook)
    return notebook


def assignment_text(notebook: NotebookNode) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
