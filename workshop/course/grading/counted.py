"""Numbers in sentences."""


def counted(number: float, noun: str) -> str:
    """A number with its noun in the form that goes with it: 1 point, 0.5 points, 1,000 points."""
    return f"{number:,.10g} {noun}" + "s" * (number != 1)
