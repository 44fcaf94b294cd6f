"""Exercises, assignments and grading."""
