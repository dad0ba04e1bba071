"""Tests with the scheduler what one node can take: a world with only that node, and simplified pods."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dra_shared.api.meta import Object
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceSlice
from dra_shared.api.resources import (
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    Resource,
)

from dra_scheduler.framework.resources import PODS as POD_COUNT
from dra_scheduler.framework.resources import amounts, pod_requests
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.purchase.fills import Counts, Fills
from dra_scheduler.plan.purchase.units import DEVICES, Demand
from dra_scheduler.plan.simulation import Simulation
from dra_scheduler.plan.upkeep import claim_names

Typed = tuple[Resource[Any], Object]
NewSimulation = Callable[[], Simulation]


class OneNode:
    """A world with one node."""

    def __init__(
        self, new: NewSimulation, surroundings: Objects, demand: Demand, node: Iterable[Typed]
    ) -> None:
        self._new = new
        self._demand = demand
        self._objects = surroundings.with_objects(node)
        self._world: Simulation | None = None

    def fills(self) -> Fills:
        """Return the fills of the demand that the node can take."""
        room = self._room()
        names = list(room)
        needs = [[units[0].needs.get(name, 0) for name in names] for units in self._demand.shapes]
        return Fills(self.fits, [room[name] for name in names], needs)

    def fits(self, counts: Counts) -> bool:
        """True if the scheduler places these units on the node, in order or in reverse order."""
        pods = [
            self._demand.alone(pod)
            for units, count in zip(self._demand.shapes, counts, strict=True)
            for unit in units[:count]
            for pod in unit.pods
        ]
        return self._can_place(pods) or (sum(map(bool, counts)) > 1 and self._can_place(pods[::-1]))

    def refusal(self, pod: Pod) -> str:
        """Return the scheduler's message for a pod that the node does not take."""
        world = self._simulation()
        with world.trial():
            world.add(PODS, self._demand.alone(pod))
            world.settle()
            return world.message(pod.key, "")

    def _can_place(self, pods: Iterable[Pod]) -> bool:
        world = self._simulation()
        with world.trial():
            keys = []
            for pod in pods:
                world.add(PODS, pod)
                keys.append(pod.key)
            world.settle()
            return all((found := world.pod(key)) is not None and found.spec.node_name for key in keys)

    def _simulation(self) -> Simulation:
        if self._world is None:
            self._world = self._new()
            self._world.load((resource, each.values()) for resource, each in self._objects)
            # DaemonSets' pods are placed before all others.
            self._world.settle()
        return self._world

    def close(self) -> None:
        """Close its scheduler."""
        if self._world is not None:
            self._world.close()

    def _room(self) -> Mapping[str, int]:
        """Return the remaining resources of the node.

        Devices are included only if all of them belong to this node and none is shared.
        """
        (node,) = self._objects.of(NODES).values()
        room = amounts(node.status.allocatable)
        for pod in self._objects.of(PODS).values():
            for name, value in (*pod_requests(pod).items(), (POD_COUNT, 1)):
                if name in room:
                    room[name] -= value
        pieces = list(self._objects.of(RESOURCE_SLICES).values())
        devices = [device for piece in pieces for device in piece.spec.devices]
        if all(piece.spec.node_name for piece in pieces) and not any(
            device.allow_multiple_allocations for device in devices
        ):
            room[DEVICES] = len(devices)
        return room


def surroundings(objects: Objects, demand: Demand, pods: Iterable[Pod]) -> Objects:
    """Return the objects of a world that these pods may need on any node."""
    names = {f"{pod.metadata.namespace}/{name}" for pod in pods for name in claim_names(pod)}
    groups = objects.of(POD_GROUPS)
    for group in groups.values():
        for status in group.status.resource_claim_statuses:
            names.add(f"{group.metadata.namespace}/{status.resource_claim_name}")
    claims = objects.of(RESOURCE_CLAIMS)
    elsewhere = [key for key, piece in objects.of(RESOURCE_SLICES).items() if piece.spec.node_name]
    left = objects.without(RESOURCE_CLAIMS, claims.keys() - names).without(RESOURCE_SLICES, elsewhere)
    left = left.without(NODES, objects.of(NODES)).without(PODS, objects.of(PODS))
    # Quotas depend on all pods, so they are left out.
    left = left.without(RESOURCE_QUOTAS, objects.of(RESOURCE_QUOTAS))
    return left.with_objects((POD_GROUPS, demand.alone_group(group)) for group in groups.values())


def on_node(objects: Objects, name: str) -> list[Typed]:
    """Return the node with its slices, its pods and their claims."""
    node: Node = objects.of(NODES)[name]
    pods = [pod for pod in objects.of(PODS).values() if pod.spec.node_name == name]
    pieces: list[ResourceSlice] = [
        piece for piece in objects.of(RESOURCE_SLICES).values() if piece.spec.node_name == name
    ]
    claims = objects.of(RESOURCE_CLAIMS)
    keys = {f"{pod.metadata.namespace}/{claim}" for pod in pods for claim in claim_names(pod)}
    return [
        (NODES, node),
        *((RESOURCE_SLICES, piece) for piece in pieces),
        *((RESOURCE_CLAIMS, claims[key]) for key in keys if key in claims),
        *((PODS, pod) for pod in pods),
    ]
