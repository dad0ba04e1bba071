"""The pods of DaemonSets that a bought node runs before any others: drivers, agents, exporters.

The scheduler decides which of them a node gets, because it knows node selectors, affinity and taints like
the controller (``nodeShouldRunDaemonPod`` of upstream's ``pkg/controller/daemon/daemon_controller.go``).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec
from dra_shared.api.apps import DaemonSet
from dra_shared.api.meta import Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import DAEMON_SETS, PODS, Resource

from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.simulation import Simulation
from dra_scheduler.plan.workloads import pods_of

_replace = msgspec.structs.replace
# A pod that is not bound to a node yet has the affinity of its template.
_PROBE = "new"


class Makes(Protocol):
    """Creates a node with that name, its slices, and the objects that come with it."""

    def __call__(self, name: str, /) -> Iterable[tuple[Resource[Any], Object]]: ...


def with_daemons(
    node: Makes, objects: Objects, surroundings: Objects, new: Callable[[], Simulation]
) -> Makes:
    """Return a function that also creates the pods of the world's DaemonSets for the node."""
    sets = list(objects.of(DAEMON_SETS).values())
    if not sets:
        return node
    kept = _sets_for_node(sets, node, surroundings, new())

    def make_node(name: str) -> Iterator[tuple[Resource[Any], Object]]:
        yield from node(name)
        yield from ((PODS, _pod(each, name, bound=True)) for each in kept)

    return make_node


def _sets_for_node(
    sets: Iterable[DaemonSet], node: Makes, surroundings: Objects, world: Simulation
) -> list[DaemonSet]:
    try:
        world.load((r, each.values()) for r, each in surroundings.with_objects(node(_PROBE)))
        pods = [(each, _pod(each, _PROBE, bound=False)) for each in sets]
        for _, pod in pods:
            world.add(PODS, pod)
        world.settle()
        return [each for each, pod in pods if (found := world.pod(pod.key)) and found.spec.node_name]
    finally:
        world.close()


def _pod(daemons: DaemonSet, node: str, *, bound: bool) -> Pod:
    """Return the DaemonSet's pod for that node. With ``bound``, it can run on no other node."""
    (pod,) = pods_of(DAEMON_SETS, daemons, [node])
    spec = pod.spec if bound else daemons.spec.template.spec
    name = f"{daemons.metadata.name}-{node}"
    meta = _replace(pod.metadata, name=name, uid=f"plan-daemon-{pod.metadata.namespace}-{name}")
    spec = _replace(
        spec,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        priority=spec.priority or 0,
        preemption_policy="Never",
    )
    return _replace(pod, metadata=meta, spec=spec)
