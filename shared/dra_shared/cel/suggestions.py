"""Suggest declared names for one that is not declared (cel-go 0.33, common/env/catalog.go)."""

from collections.abc import Iterable, Sequence
from typing import Final

MACROS: Final = (
    "all",
    "cel.bind",
    "exists",
    "existsOne",
    "exists_one",
    "filter",
    "has",
    "map",
    "optFlatMap",
    "optMap",
    "sortBy",
    "transformList",
    "transformMap",
    "transformMapEntry",
)
TYPES: Final = (
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
)
_LONG: Final = 16
_MOST: Final = 64 * 64
_FAR: Final = (1 << 31) - 1


class Catalog:
    """The names that an environment declares."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset((*names, *MACROS, *TYPES))

    def find(self, name: str) -> Sequence[str]:
        """Return the name itself if it is declared; otherwise at most two similar ones, or that begin with it."""
        if name in self._names:
            return [name]
        candidates = [one for one in self._names if ("." in one) == ("." in name)]
        limit = 1 if len(name) <= 3 else 2 if len(name) <= 8 else len(name) // 3
        distances = {one: _edit_distance(name, one) for one in candidates}
        nearest = min(distances.values(), default=_FAR)
        if nearest <= limit:
            found = [one for one, distance in distances.items() if distance == nearest]
        else:
            found = [one for one in candidates if len(name) >= 2 and one.startswith(name)]
        return sorted(found, key=lambda one: (len(one), one))[:2]

    def suggest(self, name: str) -> str:
        """Return the end of a message about an undeclared name: the similar ones."""
        found = self.find(name)
        if not found or found == [name]:
            return ""
        shown = " or ".join(f"'{one}'" for one in found)
        return f" (did you mean {shown}?)"


def _edit_distance(a: str, b: str) -> int:
    """Return the number of insertions, deletions, replacements and swaps that make ``b`` of ``a``.

    Like upstream, count nothing for names that are too long or too different.
    """
    short, long = sorted((len(a), len(b)))
    if not short:
        return long
    if long >= _LONG and long * 2 >= short * 3:
        return long - short
    if short * long > _MOST:
        return _FAR
    rows = [list(range(len(b) + 1))]
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            best = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                best = min(best, rows[i - 2][j - 2] + 1)
            row.append(best)
        if min(row) > long // 3:
            return _FAR
        rows.append(row)
    return rows[-1][-1]
