"""Published devices of a class that no node of the cluster can reach."""

from collections.abc import Iterable, Iterator, Sequence

from dra_shared.api.node import Node
from dra_shared.api.resource import ResourceSlice
from dra_shared.plurals import count

from dra_scheduler.allocator import PoolDevice
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.relevance import selecting_requests
from dra_scheduler.explain.report import NodeReport

_MOST_POOLS = 3


def out_of_reach(manager: DRAManager, examined: Sequence[NodeReport], nodes: Iterable[Node]) -> list[str]:
    """Return the classes of the pod's requests whose devices no node can reach. ``examined`` must have all nodes."""
    selecting = selecting_requests(examined)
    seen = {(pool.driver, pool.pool) for node in examined for pool in node.pools}
    requests = {(each.claim, each.request): each for node in examined for each in node.requests}
    classes = dict.fromkeys(each.device_class for key, each in requests.items() if key not in selecting)
    names = {node.metadata.name for node in nodes}
    found = []
    for name in classes:
        devices = [each for each in manager.allocator.devices_of(name) if each.id[:2] not in seen]
        if devices:
            pools = list(dict.fromkeys(_pools(manager, devices, names)))
            more = f" and {len(pools) - _MOST_POOLS} more" if len(pools) > _MOST_POOLS else ""
            where = "; ".join(pools[:_MOST_POOLS])
            found.append(
                f"class {name}: no node can reach its {count(len(devices), 'device')}: {where}{more}"
            )
    return found


def _pools(manager: DRAManager, devices: Iterable[PoolDevice], names: set[str]) -> Iterator[str]:
    for device in devices:
        spec = device.slice.spec
        pool = f"pool {spec.driver}/{spec.pool.name}"
        newest = max(piece.spec.pool.generation for piece in manager.snapshot.slices_of(device.id[:2]))
        if spec.pool.generation < newest:
            yield f"{pool} has generation {newest} by now, and these slices are of generation {spec.pool.generation}"
        else:
            yield f"{pool} is for {_nodes(device.slice, names)}"


def _nodes(piece: ResourceSlice, names: set[str]) -> str:
    name = piece.spec.node_name
    if name:
        return f"node {name}" + ("" if name in names else ", which does not exist")
    return "nodes that its selector matches"
