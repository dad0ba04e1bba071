"""The same objects for a simulation and for a scheduler with an API server."""

import random
from typing import Any

from dra_scheduler.plan.simulation import Simulation
from dra_shared.api.codec import convert
from dra_shared.api.resources import (
    DEVICE_CLASSES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json

_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource
    for resource in (
        DEVICE_CLASSES,
        NODES,
        POD_DISRUPTION_BUDGETS,
        POD_GROUPS,
        PODS,
        RESOURCE_CLAIMS,
        RESOURCE_CLAIM_TEMPLATES,
        RESOURCE_SLICES,
    )
}


def put(world: Simulation, *objects: JsonObject) -> None:
    """Add objects, with the UIDs that the fake API server gives them."""
    for obj in objects:
        resource = _RESOURCES[obj["kind"]]
        meta = obj["metadata"]
        uid = f"uid-{resource.plural}-{meta.get('namespace', '')}-{meta['name']}"
        world.add(resource, convert(resource, {**obj, "metadata": {"uid": uid, **meta}}))


def template_json(name: str, **request: Any) -> JsonObject:
    spec = claim_json(name, request=request)["spec"]
    meta = {"name": name, "namespace": "default"}
    return {"kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": spec}}


def random_world(rng: random.Random) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return nodes with devices, and pods to add later, each after its claims."""
    attributes = [{"index": {"int": i}, "half": {"bool": True}} for i in range(2)]
    standing: list[JsonObject] = [class_json("gpu"), class_json("half", selectors=[_half()])]
    for index in range(rng.randint(1, 4)):
        name = f"node-{index}"
        taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
        standing.append(node_json(name, taints=taints))
        more = {"attributes": attributes[0]} if rng.random() < 0.5 else {}
        if rng.random() < 0.8:
            standing.append(slice_json(name, rng.randint(1, 4), **more))
    coming: list[JsonObject] = []
    for index in range(rng.randint(1, 12)):
        name, wanted = f"pod-{index:02}", {}
        if rng.random() < 0.8:
            device_class = rng.choice(["gpu", "gpu", "half"])
            coming.append(
                claim_json(name, request={"count": rng.randint(1, 2), "deviceClassName": device_class})
            )
            wanted = {"gpu": name}
        cpu = rng.choice(["500m", "1", "3"])
        coming.append(pod_json(name, claims=wanted, requests={"cpu": cpu}, container={"image": "x"}))
    return standing, coming


def _half() -> JsonObject:
    return {"cel": {"expression": 'device.attributes["gpu.example.com"].?half.orValue(false)'}}
