"""The name most similar to one that does not exist."""

import difflib
from collections.abc import Iterable

from dra_shared.quoting import go_quote

# How similar a name has to be to be called near.
_SIMILAR = 0.5
# The same for names that many have a part of, such as a top-level domain, in common.
_SAME = 0.75
_MOST_NAMES = 5


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


def seen(wanted: str, names: Iterable[str], *, others: bool = True) -> str:
    """Return the part of a hint with the name near to the wanted one or, with ``others``, else with all names."""
    known = sorted(set(filter(None, names)))
    near = nearest(plain(wanted), map(plain, known), least=_SAME)
    spelled = next((each for each in known if plain(each) == near), "")
    if spelled:
        return f", nearest seen {go_quote(spelled)}"
    if not others:
        return ""
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f", seen {', '.join(known[:_MOST_NAMES])}{more}" if known else ""


def plain(name: str) -> str:
    """Return the name with dots for the separators that CEL users often write instead."""
    return name.replace("_", ".").replace("-", ".")
