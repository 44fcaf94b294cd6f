"""The marks of one submission in the formats of other graders: Gradescope, and Classroom 50 on GitHub.

Written from their published descriptions, https://gradescope-autograders.readthedocs.io/en/latest/specs/ and
https://github.com/foundation50/classroom50/wiki/Advanced-Autograding.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from workshop.course.grading.exercise_parts import is_written
from workshop.course.grading.marks import Marks

HIDDEN = "-hidden"
BY_HAND = "marked by hand, does not count here."
IDENTITY = {"classroom": "CLASSROOM", "assignment": "ASSIGNMENT", "submission": "SUBMISSION_TAG"}


def _remarks(marks: Marks) -> str:
    by_hand = filter(is_written, marks.maximum)
    lines = (f"{marks.title(name)}, {marks.maximum[name]:g} points: {BY_HAND}" for name in by_hand)
    return "\n".join([*marks.events, *lines])


def gradescope(marks: Marks, seconds: float) -> dict[str, Any]:
    """The content of results.json; a hidden check shows its message after the due date, a written answer itself."""
    tests = []
    for name in sorted(marks.maximum, key=is_written):  # last what people mark
        of = marks.maximum[name]
        if is_written(name):
            test = {"score": 0, "max_score": 0, "output": f"{of:g} points, {BY_HAND}\n\n{marks.written.get(name, '')}"}
        else:
            test = {"score": marks.points[name], "max_score": of, "output": marks.outcomes.get(name, "")}
        visibility = "after_due_date" if name.endswith(HIDDEN) else "visible"
        tests.append({"name": marks.title(name), **test, "visibility": visibility})
    output = {"output": _remarks(marks), "stdout_visibility": "hidden"}
    return {"execution_time": round(seconds), **output, "tests": tests}


def classroom50(marks: Marks, environment: Mapping[str, str]) -> dict[str, Any]:
    """The content of result.json, of the form classroom50/result/v1.

    Args:
        environment: the variables that the runner sets.

    Raises:
        KeyError: a variable that is not set.
    """
    tests = [
        {
            "test-name": marks.title(name),
            "passed": marks.points[name] == marks.maximum[name],
            "score": int(marks.points[name]),
            "max-score": int(marks.maximum[name]),
            # Read at once, in the student's own repository: of a hidden check it says no more than whether it passed.
            "output": "" if name.endswith(HIDDEN) else marks.outcomes.get(name, ""),
        }
        for name in marks.maximum
        if not is_written(name)
    ]
    return {
        "schema": "classroom50/result/v1",
        **{field: environment[name] for field, name in IDENTITY.items()},
        "commit": environment["COMMIT_URL"],
        "release": environment["RELEASE_URL"],
        "review": environment.get("REVIEW_URL") or environment["COMMIT_URL"],
        "datetime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
        "remarks": _remarks(marks),
    }
