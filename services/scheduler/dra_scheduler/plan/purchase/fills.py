"""Sets of units that a node can take, found with as few scheduler runs as possible.

A fill is the number of units of each shape on a node. If a fill fits, every smaller fill fits, too.
"""

from collections.abc import Callable, Iterator, Sequence

Counts = tuple[int, ...]

_TINY = 1e-9


class Fills:
    """The fills of one kind of node.

    ``fits`` runs the scheduler. ``room`` has the free amounts of the node's resources, ``needs`` the amounts
    that a unit of each shape uses. Fills that exceed the room are rejected without a run.
    """

    def __init__(
        self, fits: Callable[[Counts], bool], room: Sequence[int], needs: Sequence[Sequence[int]]
    ) -> None:
        self._fits = fits
        self._room = room
        self._needs = needs
        self._good: set[Counts] = set()
        self._bad: set[Counts] = set()
        self._largest: dict[tuple[Counts, int], int] = {}
        self._full: dict[Counts, list[Counts]] = {}

    def take(self, counts: Counts) -> bool:
        """True if the node can take these units."""
        if counts in self._good:
            return True
        if counts in self._bad or not all(left >= 0 for left in self._remaining_room(counts)):
            return False
        if any(_covers(known, counts) for known in self._good):
            return True
        if any(_covers(counts, known) for known in self._bad):
            return False
        fits = not any(counts) or self._fits(counts)
        (self._good if fits else self._bad).add(counts)
        return fits

    def alone(self, shape: int, most: int) -> int:
        """Return the number of units of one shape that the node can take, at most ``most``."""
        zero = (0,) * len(self._needs)
        return self._more(zero, shape, most)

    def best(self, values: Sequence[float], most: Counts) -> tuple[float, Counts]:
        """Return the most valuable fill and its value. ``values`` has the value of one unit of each shape."""
        order = sorted((s for s in range(len(most)) if values[s] > _TINY), key=lambda s: -values[s])
        best_value, best = 0.0, (0,) * len(most)

        def search(position: int, counts: Counts, value: float) -> None:
            nonlocal best_value, best
            if value > best_value + _TINY:
                best_value, best = value, counts
            if position == len(order):
                return
            if value + self.upper_bound(values, most, counts, order[position:]) <= best_value + _TINY:
                return
            shape = order[position]
            for count in range(self._more(counts, shape, most[shape]), -1, -1):
                search(position + 1, _with(counts, shape, count), value + count * values[shape])

        search(0, best, 0.0)
        return best_value, best

    def upper_bound(
        self, values: Sequence[float], most: Counts, counts: Counts, shapes: Sequence[int] | None = None
    ) -> float:
        """Return the maximum value of further units of these shapes, considering only the node's resources."""
        chosen = [s for s in (range(len(most)) if shapes is None else shapes) if values[s] > 0 and most[s]]
        bound = sum(values[s] * most[s] for s in chosen)
        for resource, left in enumerate(self._remaining_room(counts)):
            if all(self._needs[s][resource] for s in chosen) and chosen:
                densest = max(values[s] / self._needs[s][resource] for s in chosen)
                bound = min(bound, max(0, left) * densest)
        return bound

    def full(self, most: Counts) -> list[Counts]:
        """Return the fills of at most ``most`` to which nothing can be added."""
        most = tuple(min(count, self.alone(shape, count)) for shape, count in enumerate(most))
        found = self._full.get(most)
        if found is None:
            found = self._full[most] = [
                counts
                for counts in self._fillings(0, (0,) * len(most), most)
                if any(counts) and not any(self._more_fit(counts, shape, most) for shape in range(len(most)))
            ]
        return found

    def _fillings(self, shape: int, counts: Counts, most: Counts) -> Iterator[Counts]:
        if shape == len(most):
            yield counts
            return
        for count in range(self._more(counts, shape, most[shape]), -1, -1):
            yield from self._fillings(shape + 1, _with(counts, shape, count), most)

    def _more_fit(self, counts: Counts, shape: int, most: Counts) -> bool:
        return counts[shape] < most[shape] and self.take(_with(counts, shape, counts[shape] + 1))

    def _more(self, counts: Counts, shape: int, most: int) -> int:
        """Return the number of units of the shape that the node takes in addition. ``counts`` has none of it."""
        known = self._largest.get((counts, shape))
        if known is not None and known < most:
            return known
        for resource, left in enumerate(self._remaining_room(counts)):
            if self._needs[shape][resource]:
                most = min(most, max(0, left) // self._needs[shape][resource])
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.take(_with(counts, shape, middle)):
                low = middle
            else:
                high = middle - 1
        if low < most:
            self._largest[counts, shape] = low
        return low

    def _remaining_room(self, counts: Counts) -> list[int]:
        taken = [(count, needs) for count, needs in zip(counts, self._needs, strict=True) if count]
        return [
            room - sum(count * needs[resource] for count, needs in taken)
            for resource, room in enumerate(self._room)
        ]


def _with(counts: Counts, shape: int, count: int) -> Counts:
    return (*counts[:shape], count, *counts[shape + 1 :])


def _covers(more: Counts, fewer: Counts) -> bool:
    return all(a >= b for a, b in zip(more, fewer, strict=True))
