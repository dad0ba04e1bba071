"""The cheapest nodes whose fills cover a demand, and a lower bound of the cost of any cover.

The bound is that of the linear program, in which fractions of nodes can be bought. Its columns are fills, which
are generated on demand (Gilmore and Gomory's cutting stock). A best-first search improves the bound: it is the
lower bound of the cheapest state that is still open when the search ends. If no state is open, the cover is
optimal.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from dra_scheduler.plan.purchase.fills import Counts, Fills
from dra_scheduler.plan.purchase.linear import Solution, maximize
from dra_scheduler.plan.simulation import Stopped

_TINY = 1e-7
# Prices that differ by less than a millionth are considered equal.
_SCALE = 1_000_000
# The price for demand that limited nodes leave uncovered. It is higher than that of any cover by nodes.
_OUTSIDE = 1e6
# The maximum number of steps to cover the demand that remains after rounding, and the maximum number of partial
# covers that a search examines.
_SHORT = 20_000
_MOST_STATES = 300_000


@dataclass(frozen=True)
class Supply:
    """A kind of node: ``price`` each, at most ``limit`` of them."""

    price: float
    fills: Fills
    limit: int | None = None


Pick = tuple[int, Counts]


@dataclass(frozen=True)
class Cover:
    """Nodes and fills, by supply number. No cover costs less than ``bound``. ``left`` is the uncovered demand."""

    picks: tuple[Pick, ...]
    cost: float
    bound: float
    left: Counts = ()


@dataclass(order=True)
class _State:
    """A partial cover: the remaining demand, and the number of used nodes of each limited supply."""

    least: float
    number: int
    cost: float = field(compare=False)
    left: Counts = field(compare=False)
    used: Counts = field(compare=False)
    picks: tuple[Pick, ...] = field(compare=False)


class Search:
    """Searches for the cheapest cover of ``demand``. ``go_on`` raises :class:`Stopped` when the time is up."""

    def __init__(
        self, supplies: Sequence[Supply], demand: Counts, go_on: Callable[[], None] = lambda: None
    ) -> None:
        self._supplies = supplies
        self._demand = demand
        self._go_on = go_on
        self._limited = [index for index, supply in enumerate(supplies) if supply.limit is not None]
        self._columns: dict[Pick, None] = {}
        self._values: tuple[float, ...] = (0.0,) * len(demand)
        self._scarcity: dict[int, float] = dict.fromkeys(self._limited, 0.0)
        self._dearest = max((supply.price for supply in supplies), default=1.0) or 1.0
        self.best: Cover | None = None
        self.bound = 0.0
        self.over = False

    def run(self) -> Cover:
        """Return the best cover that is found in time."""
        try:
            shares = self._solve_relaxation()
        except Stopped:
            self.over, shares = True, {}
        self._offer(self._round_solution(shares))
        if not self.over:
            try:
                self._search()
            except Stopped:
                self.over = True
        assert self.best is not None
        bound = min(self._rounded_up(self.bound), self.best.cost)
        return Cover(self.best.picks, self.best.cost, bound, self.best.left)

    # The linear program. The variables of its dual are the values of a unit of each shape and of a limited
    # supply.

    def _solve_relaxation(self) -> dict[Pick, float]:
        demand = self._demand
        for index, supply in enumerate(self._supplies):
            for shape, wanted in enumerate(demand):
                self._go_on()
                alone = supply.fills.alone(shape, wanted)
                if alone:
                    self._columns[index, _only(demand, shape, alone)] = None
        while True:
            self._go_on()
            solution = self._solve()
            found = False
            for index, supply in enumerate(self._supplies):
                self._go_on()
                value, fill = supply.fills.best(self._values, demand)
                if (
                    value > supply.price + self._scarcity.get(index, 0.0) + _TINY
                    and (index, fill) not in self._columns
                ):
                    self._columns[index, fill] = None
                    found = True
            if not found:
                self._settle_bound()
                return dict(zip(self._columns, solution.worth, strict=False))

    def _solve(self) -> Solution:
        shapes = len(self._demand)
        rows, limits = [], []
        for index, fill in self._columns:
            rows.append([*map(float, fill), *(-1.0 if each == index else 0.0 for each in self._limited)])
            limits.append(self._supplies[index].price)
        for shape in range(shapes):
            # A unit can always be left uncovered, at a price that is higher than that of any node.
            rows.append(
                [1.0 if each == shape else 0.0 for each in range(shapes)] + [0.0] * len(self._limited)
            )
            limits.append(_OUTSIDE * self._dearest)
        objective = [
            *map(float, self._demand),
            *(-float(self._supplies[i].limit or 0) for i in self._limited),
        ]
        solution = maximize(objective, rows, limits)
        assert solution is not None, "units outside are limited"
        self._values = solution.values[:shapes]
        self._scarcity = dict(zip(self._limited, solution.values[shapes:], strict=True))
        return solution

    def _settle_bound(self) -> None:
        """Correct the values for rounding errors so that they hold for every fill, and compute the bound."""
        factor = 1.0
        for index, supply in enumerate(self._supplies):
            value, _ = supply.fills.best(self._values, self._demand)
            if index in self._scarcity:
                self._scarcity[index] = max(self._scarcity[index], value - supply.price, 0.0)
            elif value > supply.price:
                factor = min(factor, supply.price / value)
        self._values = tuple(value * factor for value in self._values)
        self._scarcity = {index: value * factor for index, value in self._scarcity.items()}
        self.bound = self._least(self._demand, (0,) * len(self._limited))

    def _least(self, left: Counts, used: Counts) -> float:
        """Return a lower bound for the cost of covering the remaining demand ``left``."""
        worth = sum(value * amount for value, amount in zip(self._values, left, strict=True))
        for index, spent in zip(self._limited, used, strict=True):
            worth -= self._scarcity[index] * ((self._supplies[index].limit or 0) - spent)
        return max(0.0, worth)

    # Covers

    def _round_solution(self, shares: dict[Pick, float]) -> Iterator[tuple[Pick, ...]]:
        """Yield covers: the linear program's solution rounded down and then completed, and each supply alone."""
        whole: list[Pick] = []
        for pick, share in shares.items():
            whole += [pick] * math.floor(share + _TINY)
        yield tuple(self._complete(whole, range(len(self._supplies))))
        if whole:
            yield (*whole, *self._rest(whole))
        yield tuple(self._complete([], range(len(self._supplies))))
        free = [index for index, supply in enumerate(self._supplies) if not supply.price]
        for index, supply in enumerate(self._supplies):
            if supply.price:
                yield tuple(self._complete([], [*free, index]))

    def _rest(self, whole: Sequence[Pick]) -> tuple[Pick, ...]:
        """Return the best cover of the remaining demand that a short search finds."""
        left = self._demand
        for _, fill in whole:
            left = _less(left, fill)
        steps = count()

        def go_on() -> None:
            self._go_on()
            if next(steps) > _SHORT:
                raise Stopped

        supplies = [
            replace(
                supply,
                limit=None if supply.limit is None else supply.limit - sum(i == index for i, _ in whole),
            )
            for index, supply in enumerate(self._supplies)
        ]
        return Search(supplies, left, go_on).run().picks if any(left) else ()

    def _complete(self, picks: Sequence[Pick], supplies: Sequence[int]) -> list[Pick]:
        chosen, left = [], self._demand
        for index, fill in picks:
            fill = tuple(map(min, fill, left))
            if any(fill):
                chosen.append((index, fill))
                left = _less(left, fill)
        # Take the fill with the best ratio of value to price. Without a linear program, all units have the
        # same value.
        values = self._values if any(self._values) else (1.0,) * len(left)
        while any(left):
            best: tuple[float, int, Counts] | None = None
            for index in supplies:
                supply = self._supplies[index]
                if supply.limit is not None and sum(i == index for i, _ in chosen) >= supply.limit:
                    continue
                value, fill = supply.fills.best(values, left)
                rate = value / (supply.price or _TINY)
                if any(fill) and (best is None or rate > best[0]):
                    best = rate, index, fill
            if best is None:
                break
            times = self._times(best[1], best[2], left, chosen)
            chosen += [(best[1], best[2])] * times
            left = _less(left, tuple(times * amount for amount in best[2]))
        return self._cheaper(chosen)

    def _times(self, index: int, fill: Counts, left: Counts, chosen: Sequence[Pick]) -> int:
        times = min(have // need for have, need in zip(left, fill, strict=True) if need)
        limit = self._supplies[index].limit
        return times if limit is None else min(times, limit - sum(i == index for i, _ in chosen))

    def _cheaper(self, chosen: Sequence[Pick]) -> list[Pick]:
        """Move each fill to the cheapest kind of node that can take it."""
        used = [0] * len(self._supplies)
        found = []
        for index, fill in chosen:
            for other in sorted(range(len(used)), key=lambda i: self._supplies[i].price):
                supply = self._supplies[other]
                if other == index or (
                    supply.price < self._supplies[index].price
                    and (
                        supply.limit is None
                        or used[other] < supply.limit - sum(i == other for i, _ in chosen)
                    )
                    and supply.fills.take(fill)
                ):
                    used[other] += other != index
                    found.append((other, fill))
                    break
        return found

    def _offer(self, covers: Iterator[tuple[Pick, ...]]) -> None:
        for picks in covers:
            left = self._demand
            for _, fill in picks:
                left = _less(left, fill)
            cost = sum(self._supplies[index].price for index, _ in picks)
            best = self.best
            if best is None or (sum(left), cost) < (sum(best.left), best.cost):
                self.best = Cover(picks, cost, 0.0, left)

    def _search(self) -> None:
        """Search best first: the state from the heap costs at most as much as all others in it."""
        none = (0,) * len(self._limited)
        numbers = count()
        heap = [_State(self.bound, next(numbers), 0.0, self._demand, none, ())]
        seen: dict[tuple[Counts, Counts], float] = {}
        while heap:
            self._go_on()
            if len(seen) > _MOST_STATES:
                raise Stopped
            assert self.best is not None
            state = heapq.heappop(heap)
            self.bound = max(self.bound, state.least)
            whole = not any(self.best.left)
            if whole and self._rounded_up(state.least) >= self.best.cost - _TINY:
                self.bound = self.best.cost
                return
            if not any(state.left):
                self._offer(iter([state.picks]))
                continue
            for new in self._steps(state, numbers):
                key = new.left, new.used
                if seen.get(key, math.inf) > new.cost + _TINY:
                    seen[key] = new.cost
                    heapq.heappush(heap, new)
        if self.best is not None and not any(self.best.left):
            self.bound = self.best.cost

    def _steps(self, state: _State, numbers: Iterator[int]) -> Iterator[_State]:
        """Yield the states after one more node for a unit of the most valuable shape."""
        shape = max((s for s, left in enumerate(state.left) if left), key=lambda s: self._values[s])
        for index, supply in enumerate(self._supplies):
            used = state.used
            if index in self._scarcity:
                place = self._limited.index(index)
                if used[place] >= (supply.limit or 0):
                    continue
                used = (*used[:place], used[place] + 1, *used[place + 1 :])
            self._go_on()
            for fill in supply.fills.full(state.left):
                if fill[shape]:
                    left = _less(state.left, fill)
                    cost = state.cost + supply.price
                    least = cost + self._least(left, used)
                    yield _State(least, next(numbers), cost, left, used, (*state.picks, (index, fill)))

    def _rounded_up(self, bound: float) -> float:
        """Return the smallest sum of prices that is at least ``bound``, using the prices' common divisor."""
        prices = [round(supply.price * _SCALE) for supply in self._supplies]
        unit = math.gcd(*prices) / _SCALE
        return math.ceil(bound / unit - _TINY) * unit if unit else bound


def _only(demand: Counts, shape: int, amount: int) -> Counts:
    return tuple(amount if index == shape else 0 for index in range(len(demand)))


def _less(left: Counts, fill: Counts) -> Counts:
    return tuple(max(0, have - taken) for have, taken in zip(left, fill, strict=True))
