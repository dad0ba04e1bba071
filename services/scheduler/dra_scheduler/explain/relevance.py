"""Removes pools and devices that no class of the pod's requests can select."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
from dra_shared.cel import CelDevice, CompileError, EvaluationError

from dra_scheduler.allocator.programs import compile_selector
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.report import NodeReport, PoolReport, RequestReport
from dra_scheduler.explain.selectors import class_expressions, named_drivers

_replace = msgspec.structs.replace
_IsRelevant = Callable[[RequestReport, PoolReport], bool]


def without_foreign(
    manager: DRAManager, shown: Iterable[NodeReport], examined: Iterable[NodeReport]
) -> list[NodeReport]:
    """Return the ``shown`` node reports without pools from which no request's class can select a device.

    If a class selects no device on any examined node, the pools of its driver are kept, because the report
    shows why each of their devices is rejected.
    """
    selecting = selecting_requests(examined)
    is_foreign = functools.cache(functools.partial(_is_foreign, manager))

    def is_relevant(request: RequestReport, pool: PoolReport) -> bool:
        if (request.claim, request.request) in selecting and not pool.problem:
            return _selects(request, pool)
        return not is_foreign(request.device_class, pool.driver)

    return [_replace(_trim(node, is_relevant), silent_drivers=_silent(manager, node)) for node in shown]


def _silent(manager: DRAManager, node: NodeReport) -> tuple[str, ...]:
    """Return the drivers that the requests' classes name, and that publish pools only for other nodes."""
    named = {
        driver for each in node.requests for driver in named_drivers(manager.classes.get(each.device_class))
    }
    here = {pool.driver for pool in node.pools}
    published = {piece.spec.driver for piece in manager.slices.list()} if named - here else set()
    return tuple(sorted((named - here) & published))


def selecting_requests(examined: Iterable[NodeReport]) -> set[tuple[str, str]]:
    """Return the (claim, request) pairs whose class selects a device of some node."""
    return {
        (request.claim, request.request)
        for node in examined
        for request in node.requests
        if any(_selects(request, pool) for pool in node.pools)
    }


def _trim(node: NodeReport, is_relevant: _IsRelevant) -> NodeReport:
    pools: list[PoolReport] = []
    dropped: dict[int, set[str]] = {}
    for pool in node.pools:
        irrelevant = [index for index, each in enumerate(node.requests) if not is_relevant(each, pool)]
        if len(irrelevant) < len(node.requests):
            pools.append(pool)
        for index in irrelevant:
            dropped.setdefault(index, set()).add(f"{pool.driver}/{pool.pool}")
    requests = [
        _replace(
            request,
            devices=tuple(
                device
                for device in request.devices
                if device.device.rpartition("/")[0] not in dropped.get(index, ())
            ),
        )
        for index, request in enumerate(node.requests)
    ]
    return _replace(node, pools=tuple(pools), requests=tuple(requests))


def _selects(request: RequestReport, pool: PoolReport) -> bool:
    """True if the request's class accepts some device of the pool."""
    return _count_rejected(request)[f"{pool.driver}/{pool.pool}"] < pool.devices


def _count_rejected(request: RequestReport) -> Counter[str]:
    """Count the devices that the class rejects, by pool. A selector that fails does not count as a rejection."""
    return Counter(
        device.device.rpartition("/")[0]
        for device in request.devices
        if any(part.device_class and not part.error for part in device.details)
    )


def _is_foreign(manager: DRAManager, class_name: str, driver: str) -> bool:
    """True if the class names only other drivers and rejects a device of this driver."""
    device_class = manager.classes.get(class_name)
    named = named_drivers(device_class)
    if not named or driver in named:
        return False
    return any(_rejects(manager, text, driver) for text in class_expressions(device_class))


def _rejects(manager: DRAManager, expression: str, driver: str) -> bool:
    try:
        program = compile_selector(expression, manager.features)
        return not program.matches(CelDevice(driver, {}, {}, None))
    except (CompileError, EvaluationError):
        return False
