"""The formats of other graders, checked as their published descriptions say, which grading/elsewhere.py names."""

import re
from typing import Any

RUNNER = {
    "CLASSROOM": "nlp",
    "ASSIGNMENT": "attention",
    "SUBMISSION_TAG": "submit/2026-06-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://github.com/o/r/commit/a1b2c3d",
    "RELEASE_URL": "https://github.com/o/r/releases/tag/x",
}
VISIBILITIES = {"hidden", "after_due_date", "after_published", "visible"}


def check_gradescope(result: dict[str, Any]) -> None:
    known = {
        "score",
        "execution_time",
        "output",
        "visibility",
        "stdout_visibility",
        "extra_data",
        "tests",
        "leaderboard",
    }
    of_a_test = {"score", "max_score", "name", "number", "output", "tags", "visibility", "extra_data", "status"}
    assert set(result) <= known
    assert result["stdout_visibility"] in VISIBILITIES
    assert "score" in result or result["tests"]
    for test in result["tests"]:
        assert set(test) <= of_a_test
        assert 0 <= test["score"] <= test["max_score"]
        assert test["visibility"] in VISIBILITIES


def check_classroom50(result: dict[str, Any]) -> None:
    assert result["schema"] == "classroom50/result/v1"
    texts = ("classroom", "assignment", "submission", "commit", "release", "review", "datetime")
    assert all(isinstance(result[name], str) and result[name] for name in texts)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["datetime"])
    for name in ("score", "max-score"):
        assert isinstance(result[name], int)
        assert result[name] == sum(test[name] for test in result["tests"])
    for test in result["tests"]:
        assert isinstance(test["test-name"], str)
        assert test["passed"] == (test["score"] == test["max-score"])
