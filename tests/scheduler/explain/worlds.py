"""Explanations of pods in memory."""

from typing import Any

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.text import render
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_scheduler.plan.simulation import Simulation
from dra_shared.api.codec import convert
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import DRIVER

_GROUPS = {
    "Node": "",
    "Pod": "",
    "DeviceClass": "resource.k8s.io",
    "ResourceClaim": "resource.k8s.io",
    "ResourceSlice": "resource.k8s.io",
    "PodGroup": "scheduling.k8s.io",
    "CompositePodGroup": "scheduling.k8s.io",
}


def simulation(
    *objects: JsonObject, config: SchedulerConfig | None = None, settle: bool = False
) -> Simulation:
    """Return a scheduler that knows the objects, and with ``settle`` has scheduled their pods."""
    typed = [
        (resource, convert(resource, value))
        for value in objects
        if (resource := BY_KIND[_GROUPS[value["kind"]], value["kind"]])
    ]
    world = Simulation(config or SchedulerConfig(gates=FeatureGates()))
    world.load((resource, each.values()) for resource, each in Objects().with_objects(typed))
    if settle:
        world.settle()
    return world


def explain(
    pod: str, *objects: JsonObject, config: SchedulerConfig | None = None, settle: bool = False
) -> PodReport:
    """Return the explanation of the pod in a world of these objects."""
    world = simulation(*objects, config=config, settle=settle)
    report = world.scheduler.explainer.pod("default", pod)
    world.close()
    assert report is not None
    return report


def text_of(report: PodReport) -> list[str]:
    """Return the lines of the report's text, without their indentation."""
    return [line.strip() for line in render(report).splitlines()]


def driver_class(name: str, driver: str = DRIVER, also: str = "", **spec: Any) -> JsonObject:
    """Return a class that selects a driver's devices."""
    expression = f"device.driver == '{driver}'" + (f" && {also}" if also else "")
    spec = {"selectors": [{"cel": {"expression": expression}}], **spec}
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def devices(node: str, *devices: JsonObject, driver: str = DRIVER, pool: str = "") -> JsonObject:
    """Return the slice of a node's pool with these devices."""
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def alternatives_claim(name: str, **alternatives: str) -> JsonObject:
    """Return a claim with a request ``r`` for the first that is available, each a class of devices by name."""
    first = [
        {"name": each, "deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
        for each, device_class in alternatives.items()
    ]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"},
        "spec": {"devices": {"requests": [{"name": "r", "firstAvailable": first}]}},
        "status": {},
    }
