"""Copies of the pods of a question."""

from collections.abc import Sequence
from typing import Any

import msgspec
from dra_shared.api.pod import Pod
from dra_shared.api.resources import POD_GROUPS, PODS, Resource
from dra_shared.api.scheduling import PodGroup

from dra_scheduler.plan.simulation import Simulation

_replace = msgspec.structs.replace


def copy_pods(
    world: Simulation, pods: Sequence[Pod], groups: Sequence[PodGroup], ending: str
) -> tuple[list[PodGroup], list[Pod]]:
    """Return copies of the groups and pods. Their names end with ``ending`` and do not exist in the world yet."""
    made = [rename(world, POD_GROUPS, group, ending) for group in groups]
    return made, [rename(world, PODS, _in_group(pod, ending), ending) for pod in pods]


def rename(world: Simulation, resource: Resource[Any], obj: Any, ending: str) -> Any:
    """Return the object with a new uid and an unused name."""
    meta = obj.metadata
    name = f"{meta.name}{ending}"
    while world.client.find(resource, f"{meta.namespace}/{name}") is not None:
        name += "-plan"
    return _replace(obj, metadata=_replace(meta, name=name, uid=world.client.new_uid()))


def _in_group(pod: Pod, ending: str) -> Pod:
    group = pod.spec.scheduling_group
    if not ending or group is None or group.pod_group_name is None:
        return pod
    group = _replace(group, pod_group_name=f"{group.pod_group_name}{ending}")
    return _replace(pod, spec=_replace(pod.spec, scheduling_group=group))
