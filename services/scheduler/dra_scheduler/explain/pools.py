"""Pools whose ResourceSlices contradict each other, and devices that claims hold but no ResourceSlice publishes."""

from collections import Counter
from collections.abc import Iterable

import msgspec
from dra_shared.api.resource import DeviceRequest, ResourceClaim

from dra_scheduler.allocator import DeviceID
from dra_scheduler.allocator.state import PoolID
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.obstacles import selector_text
from dra_scheduler.explain.report import HeldReport, NodeReport, PoolReport
from dra_scheduler.explain.selectors import drivers_of, expressions, named_drivers
from dra_scheduler.explain.shortfalls import parts_of
from dra_scheduler.explain.text import names_text
from dra_scheduler.explain.whatif import claim_key

_replace = msgspec.structs.replace
_BOTH = "a claim that holds such a device holds it on all of them"


def with_warnings(manager: DRAManager, node: NodeReport) -> NodeReport:
    """Add a warning to each pool that other nodes publish with the same device names."""
    pools = tuple(_replace(pool, warning=_warning(manager, node.node, pool)) for pool in node.pools)
    return _replace(node, pools=pools)


def _warning(manager: DRAManager, node_name: str, pool: PoolReport) -> str:
    names = _by_audience(manager, (pool.driver, pool.pool))
    own = names.pop(f"node {node_name}", None)
    if own is None:
        # The pool may have slices for several nodes. Node selectors decide which nodes can reach a slice.
        twice = "" if pool.problem else find_double_publication(manager, (pool.driver, pool.pool))
        return f"{twice}: {_BOTH}" if twice else ""
    shared = {audience: each & own for audience, each in names.items() if each & own}
    if not shared:
        return ""
    devices = names_text(sorted(set().union(*shared.values())))
    audiences = _list_audiences(shared)
    return f"the same pool with the same device names ({devices}) is published for {audiences}, too: {_BOTH}"


def find_double_publication(manager: DRAManager, pool: PoolID) -> str:
    """Return the nodes for which the pool publishes devices with the same names, as text; empty if there are none."""
    names = _by_audience(manager, pool)
    counts = Counter(device for each in names.values() for device in each)
    devices = sorted(device for device, count in counts.items() if count > 1)
    if not devices:
        return ""
    shared = [audience for audience, each in names.items() if not each.isdisjoint(devices)]
    return f"published for {_list_audiences(shared)} with the same device names ({names_text(devices)})"


def _by_audience(manager: DRAManager, pool: PoolID) -> dict[str, set[str]]:
    """Return the device names by the nodes that they are published for."""
    found: dict[str, set[str]] = {}
    slices = list(manager.snapshot.slices_of(pool))
    newest = max((piece.spec.pool.generation for piece in slices), default=0)
    for piece in slices:
        spec = piece.spec
        if spec.node_name:
            audience = f"node {spec.node_name}"
        elif spec.node_selector is not None and spec.pool.generation == newest:
            # Ignore older generations: an update may have changed the selector, and the old slices are about to
            # be deleted.
            audience = f"nodes with {selector_text(spec.node_selector)}"
        else:
            continue
        found.setdefault(audience, set()).update(each.name for each in spec.devices)
    return found


def _list_audiences(audiences: Iterable[str]) -> str:
    single = [each.removeprefix("node ") for each in audiences if each.startswith("node ")]
    parts = [f"node{'s' if len(single) > 1 else ''} {names_text(sorted(single))}"] if single else []
    return " and ".join([*parts, *(each for each in audiences if not each.startswith("node "))])


def find_unpublished(
    manager: DRAManager, claims: Iterable[ResourceClaim], *, others: bool
) -> tuple[HeldReport, ...]:
    """Return the devices that claims hold but no ResourceSlice publishes.

    Covers the given claims and, with ``others``, all claims whose driver the requests might select.
    """
    claims = list(claims)
    own = {claim.key for claim in claims}
    requests = [request for claim in claims for request in claim.spec.devices.requests]
    drivers = _drivers(manager, requests) if others else frozenset[str]()
    published: dict[tuple[str, str], set[str]] = {}
    found: dict[DeviceID, list[str]] = {}
    for claim in sorted(manager.claims, key=lambda claim: claim.key):
        if claim.status.allocation is None:
            continue
        for result in claim.status.allocation.devices.results:
            is_wanted = others and (drivers is None or result.driver in drivers)
            if claim.key not in own and (not is_wanted or result.admin_access):
                continue
            pool = result.driver, result.pool
            if pool not in published:
                slices = manager.snapshot.slices_of(pool)
                published[pool] = {device.name for piece in slices for device in piece.spec.devices}
            if result.device not in published[pool]:
                found.setdefault(DeviceID(*pool, result.device), []).append(claim.key)
    return tuple(
        HeldReport(device=str(device), claims=tuple(keys), pods=_users(manager, keys))
        for device, keys in found.items()
    )


def _drivers(manager: DRAManager, requests: Iterable[DeviceRequest]) -> frozenset[str] | None:
    """Return the drivers that the requests might select, or None for any driver."""
    found: set[str] = set()
    for request in requests:
        for _, part in parts_of(request):
            named = set(named_drivers(manager.classes.get(part.device_class_name)))
            named.update(*map(drivers_of, expressions(part.selectors)))
            if not named:
                return None
            found |= named
    return frozenset(found)


def _users(manager: DRAManager, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the pods that the claims are reserved for."""
    users: list[str] = []
    for key in keys:
        namespace, _, name = claim_key(key).partition("/")
        claim = manager.claims.get(namespace, name)
        users += [ref.name for ref in claim.status.reserved_for] if claim is not None else []
    return tuple(users)
