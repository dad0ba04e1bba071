"""Numbers with their nouns."""


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one: ``1 slice``, ``2 slices``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
