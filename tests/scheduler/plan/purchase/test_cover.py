"""The search for the cheapest nodes, compared with exhaustive search."""

import functools
import random
from collections.abc import Iterator, Sequence

import pytest
from dra_scheduler.plan.purchase.cover import Search, Supply
from dra_scheduler.plan.purchase.fills import Counts, Fills
from dra_scheduler.plan.purchase.linear import maximize
from dra_scheduler.plan.simulation import Stopped

from tests.support.sampling import sample


class _Case:
    """Nodes and units with amounts of some resources. ``clash`` names two shapes that share no node."""

    def __init__(self, rng: random.Random) -> None:
        resources = rng.randint(1, 3)
        shapes = rng.randint(1, 4)
        self.needs = [[rng.randint(0, 4) for _ in range(resources)] for _ in range(shapes)]
        for need in self.needs:
            need[0] = max(1, need[0])
        self.rooms = [[rng.randint(3, 9) for _ in range(resources)] for _ in range(rng.randint(1, 4))]
        self.rooms.append([max(need[r] for need in self.needs) for r in range(resources)])
        self.prices = [float(rng.randint(1, 20)) for _ in self.rooms]
        self.limits = [rng.choice([None, None, 1, 2]) for _ in self.rooms[:-1]] + [None]
        self.demand = tuple(rng.randint(1, 4) for _ in range(shapes))
        self.clash = (0, shapes - 1) if shapes > 1 and rng.random() < 0.3 else None

    def fits(self, node: int, counts: Counts) -> bool:
        if self.clash is not None and all(counts[shape] for shape in self.clash):
            return False
        return all(
            sum(count * need[r] for count, need in zip(counts, self.needs, strict=True)) <= room
            for r, room in enumerate(self.rooms[node])
        )

    def supplies(self) -> list[Supply]:
        # The first resource is known in advance. The others are found by trying.
        needs = [need[:1] for need in self.needs]
        return [
            Supply(price, Fills(functools.partial(self.fits, node), self.rooms[node][:1], needs), limit)
            for node, (price, limit) in enumerate(zip(self.prices, self.limits, strict=True))
        ]

    def optimum(self) -> float:
        """Return the lowest cost, by trying every fill of every node for the first remaining unit."""

        @functools.cache
        def cheapest(left: Counts, used: Counts) -> float:
            if not any(left):
                return 0.0
            first = next(shape for shape, count in enumerate(left) if count)
            best = float("inf")
            for node, price in enumerate(self.prices):
                limit = self.limits[node]
                if limit is not None and used[node] >= limit:
                    continue
                now = tuple(n + (i == node) for i, n in enumerate(used))
                for fill in _below(left):
                    if fill[first] and self.fits(node, fill):
                        rest = tuple(a - b for a, b in zip(left, fill, strict=True))
                        best = min(best, price + cheapest(rest, now if limit is not None else used))
            return best

        return cheapest(self.demand, (0,) * len(self.prices))


def _below(counts: Sequence[int]) -> list[Counts]:
    found: list[Counts] = [()]
    for count in counts:
        found = [(*each, n) for each in found for n in range(count + 1)]
    return found


def test_the_search_finds_the_optimum_of_random_cases() -> None:
    for seed in sample(range(200), 60):
        case = _Case(random.Random(seed))
        cover = Search(case.supplies(), case.demand).run()
        optimum = case.optimum()
        assert not any(cover.left), seed
        assert cover.cost == pytest.approx(optimum), seed
        assert cover.bound == pytest.approx(optimum), seed


def test_the_lower_bound_on_the_cost_is_valid_if_the_search_ends_early() -> None:
    for seed in range(60):
        case = _Case(random.Random(seed))
        optimum = case.optimum()
        steps = iter(range(seed % 40))

        def go_on(steps: Iterator[int] = steps) -> None:
            if next(steps, None) is None:
                raise Stopped

        cover = Search(case.supplies(), case.demand, go_on).run()
        assert cover.bound <= optimum + 1e-6 <= cover.cost + 2e-6
        assert not any(cover.left) or any(case.limits)


def test_the_cost_for_a_large_demand_is_close_to_the_lower_bound() -> None:
    rng = random.Random(5)
    case = _Case(rng)
    case.limits = [None] * len(case.prices)
    demand = tuple(500 + 37 * shape for shape in range(len(case.demand)))
    left = iter(range(20_000))

    def go_on() -> None:
        if next(left, None) is None:
            raise Stopped

    cover = Search(case.supplies(), demand, go_on).run()
    assert not any(cover.left)
    assert cover.bound <= cover.cost <= 1.01 * cover.bound


def test_units_beyond_the_limited_nodes_are_left_uncovered() -> None:
    fills = Fills(lambda counts: counts[0] <= 2, [], [[]])
    cover = Search([Supply(3.0, fills, 2)], (5,)).run()
    assert (len(cover.picks), cover.cost, cover.left) == (2, 6.0, (1,))


def test_the_linear_program_solver_finds_the_optimum() -> None:
    solution = maximize([3, 2], [[1, 1], [1, 3], [1, 0]], [4, 6, 3])
    assert solution is not None
    assert solution.values == pytest.approx((3, 1))
    assert solution.worth == pytest.approx((2, 0, 1))
    assert maximize([1], [], []) is None
