"""Measure how many pods with claims ``dralab plan`` places per second: the scheduler on objects in memory, on one core.

Without options, each workload runs in its default size and prints a line. ``--init-pods`` are placed before the clock
starts; they also get the selectors compiled. ``podsPerCPUSecond`` does not depend on the load by other processes.
"""

import argparse
import copy
import json
import time
from typing import Any

from dra_apiserver.kinds import catalog
from dra_apiserver.schema import default
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.garbage import collect_rarely
from dra_scheduler.plan.simulation import Simulation
from dra_shared.api.codec import convert
from dra_shared.api.resources import (
    DEVICE_CLASSES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.log import configure

from bench._workloads import CLASS, WORKLOADS, Workload

_NAMESPACE = "default"
_GANG = 4
# For each line of the result: the workload of its claims, and how its pods arrive.
_LINES = {
    "template": ("template", "single"),
    "mig": ("partitionable", "single"),
    "consumable-shares": ("consumable-capacity", "single"),
    "gangs": ("template", "gang"),
    "preemption": ("template", "preempting"),
}


class Bench:
    """A world with nodes and devices in which pods are placed."""

    def __init__(self, line: str, nodes: int, devices: int) -> None:
        name, self._manner = _LINES[line]
        self._work: Workload = WORKLOADS[name]
        self._registry = catalog.registry("api/all=true")
        self._devices = devices
        gates = "GenericWorkload=true,GangScheduling=true" if self._manner == "gang" else ""
        self.world = Simulation(SchedulerConfig(gates=FeatureGates.parse(gates)))
        self._put(DEVICE_CLASSES, {"metadata": {"name": CLASS}, "spec": self._work.device_class})
        self._put(
            RESOURCE_CLAIM_TEMPLATES,
            {"metadata": {"name": "bench", "namespace": _NAMESPACE}, "spec": {"spec": self._work.claim}},
        )
        for index in range(nodes):
            name = f"node-{index:05}"
            amounts = {"cpu": str(devices), "memory": "256Gi", "pods": "250"}
            status = {"capacity": amounts, "allocatable": amounts}
            self._put(NODES, {"metadata": {"name": name, "labels": _host(name)}, "status": status})
            for piece in self._work.slices(name, devices):
                self._put(RESOURCE_SLICES, piece)
        if self._manner == "preempting":
            victims = [self._pod(f"victim-{i:05}", claim=False, cpu="1") for i in range(nodes * devices)]
            self._run(victims)

    def run(self, prefix: str, count: int) -> tuple[float, float, int]:
        """Place ``count`` pods. Return the seconds, the CPU seconds, and the number of pods that got a node."""
        pods = [self._pod(f"{prefix}-{index:05}") for index in range(count)]
        if self._manner == "gang":
            pods = [self._member(pod, index) for index, pod in enumerate(pods)]
            for group in range((count + _GANG - 1) // _GANG):
                self._put(POD_GROUPS, _group(f"{prefix}-{group:05}"))
        elif self._manner == "preempting":
            pods = [self._pod(f"{prefix}-{i:05}", cpu="1", priority=1000) for i in range(count)]
        return self._run(pods)

    def _run(self, pods: list[JsonObject]) -> tuple[float, float, int]:
        typed = [self._to_typed(PODS, pod) for pod in pods]
        started, cpu = time.perf_counter(), time.process_time()
        for pod in typed:
            self.world.add(PODS, pod)
        self.world.settle()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        keys = (pod.key for pod in typed)
        placed = sum(bool((pod := self.world.pod(key)) is not None and pod.spec.node_name) for key in keys)
        return seconds, cpu, placed

    def _pod(self, name: str, *, claim: bool = True, cpu: str = "", priority: int = 0) -> JsonObject:
        container: JsonObject = {"name": "main", "image": "bench"}
        spec: JsonObject = {"containers": [container], "priority": priority}
        if claim:
            spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": "bench"}]
            container["resources"] = {"claims": [{"name": "device"}]}
        if cpu:
            container.setdefault("resources", {})["requests"] = {"cpu": cpu}
        return {"metadata": {"name": name, "namespace": _NAMESPACE, "uid": name}, "spec": spec}

    def _member(self, pod: JsonObject, index: int) -> JsonObject:
        prefix = pod["metadata"]["name"].rpartition("-")[0]
        pod["spec"]["schedulingGroup"] = {"podGroupName": f"{prefix}-{index // _GANG:05}"}
        return pod

    def _put(self, resource: Resource[Any], obj: JsonObject) -> None:
        self.world.add(resource, self._to_typed(resource, obj))

    def _to_typed(self, resource: Resource[Any], obj: JsonObject) -> Any:
        kind = self._registry.get(resource.group, resource.plural)
        assert kind is not None
        complete = copy.deepcopy(obj)
        default(kind, resource.version, complete)
        return convert(resource, complete)


def _host(name: str) -> JsonObject:
    return {"kubernetes.io/hostname": name}


def _group(name: str) -> JsonObject:
    return {
        "metadata": {"name": name, "namespace": _NAMESPACE, "uid": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": _GANG}}},
    }


def measure(line: str, nodes: int, devices: int, before: int, pods: int) -> JsonObject:
    """Return the figures of one line."""
    bench = Bench(line, nodes, devices)
    if before:
        bench.run("init", before)
    seconds, cpu, placed = bench.run("pod", pods)
    bench.world.close()
    return {
        "benchmark": "plan",
        "workload": line,
        "nodes": nodes,
        "devicesPerNode": devices,
        "pods": pods,
        "placed": placed,
        "seconds": round(seconds, 3),
        "podsPerSecond": round(pods / seconds, 1),
        "podsPerCPUSecond": round(pods / cpu, 1),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run one workload, or all of them if no options are given."""
    options = argparse.ArgumentParser(prog="bench plan", description=__doc__)
    options.add_argument("--workload", choices=sorted(_LINES), default="template")
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--devices-per-node", type=int, default=8)
    options.add_argument("--init-pods", type=int, default=_GANG)
    options.add_argument("--pods", type=int, default=20000)
    options.add_argument("--json", action="store_true", help="one JSON object instead of a sentence")
    configure("bench", "error")
    chosen = options.parse_args(arguments)
    # As in `dralab plan`.
    with collect_rarely():
        _measure_all(chosen, default=arguments == [])


def _measure_all(chosen: argparse.Namespace, *, default: bool) -> None:
    runs = [(chosen.workload, chosen.nodes, chosen.pods)]
    if default:
        runs = [("template", 100, 700), ("template", 5000, 20000)]
        runs += [(line, 500, 1500) for line in ("mig", "consumable-shares", "gangs")] + [
            ("preemption", 50, 100)
        ]
    for line, nodes, pods in runs:
        figures = measure(line, nodes, chosen.devices_per_node, chosen.init_pods, pods)
        if chosen.json:
            print(json.dumps(figures))
        else:
            print(
                f"{line}: {figures['placed']} of {pods} pods on {nodes} nodes in {figures['seconds']} s: "
                f"{figures['podsPerSecond']} pods/s, {figures['podsPerCPUSecond']} a second of CPU"
            )


if __name__ == "__main__":
    main()
