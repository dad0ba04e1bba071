"""Free devices as tables for people."""

from collections.abc import Iterable, Iterator, Sequence

from dra_scheduler.explain.free import Free, NodeUsage, PoolUsage, Usage
from dra_scheduler.explain.text import held_lines, names_text

_COUNTS = ("FREE", "USED", "BLOCKED", "DEVICES")
_SHARES = ("SHARES", "MORE SHARES")


def render_free(report: Free) -> str:
    """Return all tables that have rows. Counters and capacities have a row only if some of it is used."""
    tables = [_classes(report.classes), _nodes(report.nodes), _pools(report.pools)]
    for title, part in (("COUNTER", "counters"), ("CAPACITY", "capacity")):
        rows = [
            (f"{pool.driver}/{pool.pool}/{name}", level.free, level.total)
            for pool in report.pools
            for name, level in getattr(pool, part).items()
            if level.free != level.total
        ]
        tables.append([(title, "FREE", "TOTAL"), *rows] if rows else [])
    tables += [_partitions(report.pools), _shared_capacity(report.pools)]
    shown = ["\n".join(_align(table)) for table in tables if table]
    shown += [f"{node.node}: nothing is given there: {node.problem}" for node in report.nodes if node.problem]
    gone = "\n".join(held_lines(report.unpublished))
    return "\n\n".join([*shown, *([gone] if gone else [])]) + "\n"


def _classes(classes: Sequence[Usage]) -> list[tuple[str, ...]]:
    if not classes:
        return [("CLASS", "SHAPE", *_COUNTS)]
    return _with_counts(("CLASS", "SHAPE"), [((usage.device_class, usage.shape), usage) for usage in classes])


def _nodes(nodes: Sequence[NodeUsage]) -> list[tuple[str, ...]]:
    """Return rows in which nodes with equal devices are merged."""
    same: dict[str, list[NodeUsage]] = {}
    for node in nodes:
        same.setdefault(repr(node.usage), []).append(node)
    rows = [
        ((names_text([node.node for node in group]), usage.device_class, usage.shape), usage)
        for group in same.values()
        for usage in group[0].usage
    ]
    return _with_counts(("NODE", "CLASS", "SHAPE"), rows) if rows else []


def _with_counts(
    titles: tuple[str, ...], rows: Sequence[tuple[tuple[str, ...], Usage]]
) -> list[tuple[str, ...]]:
    shared = any(usage.shares is not None for _, usage in rows)
    why = any(usage.why for _, usage in rows)
    header = (*titles, *_COUNTS, *(_SHARES if shared else ()), *(("WHY BLOCKED",) if why else ()))
    table = [header]
    for names, usage in rows:
        cells = [*names, *map(str, (usage.free, usage.used, usage.blocked, usage.devices))]
        if shared:
            cells += ["-" if value is None else str(value) for value in (usage.shares, usage.more_shares)]
        if why:
            cells.append(", ".join(f"{reason}: {count}" for reason, count in usage.why.items()))
        table.append(tuple(cells))
    return table


def _pools(pools: Sequence[PoolUsage]) -> list[tuple[str, ...]]:
    if not pools:
        return []
    problems = any(pool.problem for pool in pools)
    header = ("POOL", "USED", "DEVICES", *(("PROBLEM",) if problems else ()))
    rows = [
        (
            f"{pool.driver}/{pool.pool}",
            str(pool.used),
            str(pool.devices),
            *((pool.problem,) if problems else ()),
        )
        for pool in pools
    ]
    return [header, *rows]


def _partitions(pools: Sequence[PoolUsage]) -> list[tuple[str, ...]]:
    rows = [
        (f"{pool.driver}/{pool.pool}/{entry.type}", str(entry.allocatable), str(entry.total))
        for pool in pools
        for entry in pool.partitions
    ]
    return [("PARTITION", "ALLOCATABLE", "TOTAL"), *rows] if rows else []


def _shared_capacity(pools: Sequence[PoolUsage]) -> list[tuple[str, ...]]:
    """Return the capacity of shared devices of each pool, if some of it is used."""
    rows = [
        (f"{pool.driver}/{pool.pool}/{entry.name}", entry.available or "", entry.total or "")
        for pool in pools
        if pool.shareable is not None and pool.shareable.partially_available_devices
        for entry in pool.shareable.capacity
    ]
    return [("SHARED CAPACITY", "FREE", "TOTAL"), *rows] if rows else []


def _align(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
