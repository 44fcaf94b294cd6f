"""Handing out and grading assignments through nbgrader. Runs in .venv-grading; kernels run in .venv."""
