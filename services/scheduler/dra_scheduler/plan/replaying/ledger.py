"""The ledger of a replay: device time by model, device class and namespace, and the use of models over time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_scheduler.plan.replaying.answer import Moment, Use

_MOST_MOMENTS = 240


@dataclass(frozen=True)
class Holding:
    """The model, class and namespace for which the ledger counts a claim's devices."""

    model: str
    device_class: str
    namespace: str


Holdings = Mapping[Holding, float]


class Ledger:
    """Adds up device time. ``totals`` are the whole devices of each model, ``start`` is the moment of the first entry.

    ``prices`` has the price of a device of each model for one hour.
    """

    def __init__(self, totals: Mapping[str, float], prices: Mapping[str, float], start: float) -> None:
        self._totals, self._prices = totals, prices
        self._now: dict[Holding, float] = {}
        self._seconds: dict[Holding, float] = {}
        self._start = self._counted_to = start
        self._moments: list[tuple[float, dict[str, float]]] = []

    def change(self, holdings: Holdings, factor: int, now: float) -> None:
        """Record that devices are held from now on (``factor`` 1) or no longer (-1)."""
        self.count(now)
        for holding, amount in holdings.items():
            self._now[holding] = self._now.get(holding, 0.0) + factor * amount
        used = _group(self._now, lambda holding: holding.model)
        if self._moments and self._moments[-1][0] == now:
            self._moments.pop()
        self._moments.append((now, used))

    def count(self, now: float) -> None:
        """Add the device time since the last change."""
        seconds, self._counted_to = now - self._counted_to, now
        for holding, amount in self._now.items() if seconds else ():
            self._seconds[holding] = self._seconds.get(holding, 0.0) + amount * seconds

    @property
    def device_seconds(self) -> float:
        """The device seconds of all models."""
        return sum(self._seconds.values())

    def models(self, span: float) -> tuple[Use, ...]:
        """Return the use of each model over so many seconds, also of unused models."""
        return self._uses(lambda holding: holding.model, span, self._totals)

    def classes(self, span: float) -> tuple[Use, ...]:
        """Return the use by device class. The utilisation is a fraction of all devices."""
        return self._uses(lambda holding: holding.device_class, span)

    def namespaces(self, span: float) -> tuple[Use, ...]:
        """Return the use by namespace. The utilisation is a fraction of all devices."""
        return self._uses(lambda holding: holding.namespace, span)

    def _uses(
        self, key: Callable[[Holding], str], span: float, totals: Mapping[str, float] | None = None
    ) -> tuple[Use, ...]:
        seconds = _group(self._seconds, key)
        costs: dict[str, float] = {}
        for holding, used in self._seconds.items():
            price = self._prices.get(holding.model, 0.0)
            costs[key(holding)] = costs.get(key(holding), 0.0) + used / 3600 * price
        everything = sum(self._totals.values())
        found = []
        for name in sorted({*seconds, *(totals or ())}):
            room = (everything if totals is None else totals.get(name, 0.0)) * span
            used = seconds.get(name, 0.0)
            fraction = round(used / room, 6) if room else 0.0
            hours, cost = round(used / 3600, 4), round(costs.get(name, 0.0), 4)
            found.append(Use(name=name, device_hours=hours, utilisation=fraction, cost=cost))
        return tuple(sorted(found, key=lambda use: -use.device_hours))

    def moments(self) -> tuple[Moment, ...]:
        """Return the fraction of each model in use after each change, thinned out to a maximum."""
        step = max(1, -(-len(self._moments) // _MOST_MOMENTS))
        kept = self._moments[::step]
        if self._moments and kept[-1] is not self._moments[-1]:
            kept.append(self._moments[-1])
        return tuple(
            Moment(
                at=round(now - self._start, 3),
                used={
                    name: round(used.get(name, 0.0) / whole, 4)
                    for name, whole in self._totals.items()
                    if whole
                },
            )
            for now, used in kept
        )


def _group(amounts: Holdings, key: Callable[[Holding], str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for holding, amount in amounts.items():
        found[key(holding)] = found.get(key(holding), 0.0) + amount
    return found
