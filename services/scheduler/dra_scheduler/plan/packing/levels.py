"""The free devices by shape, counters and shares on each node at one moment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dra_scheduler.allocator.amounts import amount, display
from dra_scheduler.explain.free import Free

# By node name, then by the name of the amount.
_Amounts = dict[str, dict[str, int]]


@dataclass
class Levels:
    """The free amounts of each node: devices by shape, counters, and capacity of shared devices (``shares``).

    Counters and capacities are in billionths.
    """

    devices: _Amounts = field(default_factory=dict)
    counters: _Amounts = field(default_factory=dict)
    shares: _Amounts = field(default_factory=dict)

    @classmethod
    def of(cls, report: Free) -> "Levels":
        """Return the levels of a report of free devices."""
        found = cls()
        for node in report.nodes:
            mine = found.devices.setdefault(node.node, {})
            for usage in node.usage:
                # A device may belong to several classes.
                mine[usage.shape] = max(mine.get(usage.shape, 0), usage.free)
        for pool in report.pools:
            if not pool.node:
                continue
            prefix = f"{pool.driver}/{pool.pool}"
            for kind, levels in ((found.counters, pool.counters), (found.shares, pool.capacity)):
                of_node = kind.setdefault(pool.node, {})
                for name, level in levels.items():
                    of_node[f"{prefix}/{name}"] = amount(level.free)
        return found

    def least(self, others: Iterable["Levels"]) -> "Levels":
        """Return the minimum of all levels."""
        found = self
        for other in others:
            found = Levels(
                _both(found.devices, other.devices, shared=False),
                _both(found.counters, other.counters, shared=False),
                _both(found.shares, other.shares, shared=True),
            )
        return found


def _both(one: _Amounts, other: _Amounts, *, shared: bool) -> _Amounts:
    """Return the smaller amounts.

    The capacity of a shared device that only one side lists counts as unused on the other side.
    """
    found: _Amounts = {}
    for node in one.keys() | other.keys():
        mine, theirs = one.get(node, {}), other.get(node, {})
        found[node] = {name: min(mine[name], theirs[name]) for name in mine.keys() & theirs.keys()}
        if shared:
            found[node] |= {name: (mine | theirs)[name] for name in mine.keys() ^ theirs.keys()}
    return found


def counts(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts above zero, sorted by name."""
    return {name: value for name, value in sorted(amounts.items()) if value > 0}


def texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return the amounts above zero as quantities."""
    return {name: display(value) for name, value in counts(amounts).items()}
