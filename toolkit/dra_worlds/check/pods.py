"""Pods in another version: schedule all pods again with the scheduler and allocator of each version."""

from collections.abc import Iterator

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.change import compare, places
from dra_scheduler.plan.fit import PodPlace
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.simulation import Simulation
from dra_shared.features import FeatureGates

from dra_worlds.check.finding import OTHERWISE, Finding


def findings(objects: Objects, now: FeatureGates, then: FeatureGates) -> tuple[int, Iterator[Finding]]:
    """Return the number of pods with claims, and a finding for each that gets another node, other devices or
    another reason.
    """
    found = compare(_places(objects, now), _places(objects, then))
    changed = (
        Finding(
            OTHERWISE,
            "pod",
            f"Pod {each.pod}",
            f"{_format_place(each.after)}; today: {_format_place(each.before)}",
        )
        for each in found.changed
    )
    return found.pods, changed


def _places(objects: Objects, gates: FeatureGates) -> dict[str, PodPlace]:
    world = Simulation(SchedulerConfig(gates=gates), seed=0)
    world.load((resource, each.values()) for resource, each in objects)
    try:
        return dict(places(world))
    finally:
        world.close()


def _format_place(place: PodPlace) -> str:
    if not place.node:
        return place.message or "it waits"
    devices = ", ".join(place.devices)
    return f"{place.node} with {devices}" if devices else place.node
