"""The name most similar to one that does not exist."""

import difflib
from collections.abc import Iterable

# How similar a name has to be to be called near.
_SIMILAR = 0.5


def nearest(wanted: str, seen: Iterable[str], least: float = _SIMILAR) -> str:
    """Return the most similar name, preferring those that contain it or are a part of it; empty if none is similar."""
    low = wanted.lower()

    def likeness(text: str) -> tuple[bool, float, str]:
        other = text.lower()
        ratio = difflib.SequenceMatcher(None, low, other).ratio()
        return bool(low) and bool(other) and (low in other or other in low), ratio, text

    names = sorted(seen)
    if not names:
        return ""
    contained, ratio, best = max(map(likeness, names))
    return best if contained or ratio >= least else ""
