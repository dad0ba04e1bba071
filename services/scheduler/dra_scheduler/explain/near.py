"""The existing name that is most similar to one that does not exist."""

import difflib
from collections.abc import Iterable

from dra_shared.quoting import go_quote

# The minimum similarity.
_SIMILAR = 0.5
# The minimum similarity of names that often share a part, such as a top-level domain.
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


def names_hint(wanted: str, names: Iterable[str], *, others: bool = True) -> str:
    """Return the end of a hint: the most similar name or, with ``others``, all names if none is similar."""
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
    """Replace the separators that CEL users often write by dots."""
    return name.replace("_", ".").replace("-", ".")
