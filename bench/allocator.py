"""Measure the allocator alone: per pod at 500 and 5,000 nodes, and for claims that cannot be satisfied.

Prints one JSON object a line. ``microseconds`` is the mean CPU time for one pod: find devices on a node for its
claim, then count the claim as allocated. ``first_microseconds`` is what a node costs when such a claim meets it for the
first time.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dra_scheduler.allocator import AllocatedState, Allocator, Features, Snapshot, TimeLimit
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject

DRIVER = "gpu.example.com"
LIMIT_S = 10.0


def node(name: str) -> Node:
    return convert(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})


def device_class(expression: str) -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return convert(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": spec})


def claim(name: str, requests: list[JsonObject], constraints: Iterable[JsonObject] = ()) -> ResourceClaim:
    spec = {"devices": {"requests": requests, "constraints": list(constraints)}}
    return convert(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "bench"}, "spec": spec})


def request(name: str = "r", count: int = 1, **fields: Any) -> JsonObject:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **fields}
    return {"name": name, "exactly": exactly}


def gpu(number: int, node_name: str, **fields: Any) -> JsonObject:
    attributes: JsonObject = {
        "model": {"string": "H100"},
        "index": {"int": number},
        "uuid": {"string": f"GPU-{node_name}-{number}"},
        "driverVersion": {"version": "570.0.1"},
    }
    return {
        "name": f"gpu-{number}",
        "attributes": attributes,
        "capacity": {"memory": {"value": "80Gi"}},
        **fields,
    }


def resource_slice(
    node_name: str, devices: list[JsonObject], *, of: int = 1, number: int = 0, **fields: Any
) -> ResourceSlice:
    spec = {
        "driver": DRIVER,
        "nodeName": node_name,
        "pool": {"name": node_name, "generation": 1, "resourceSliceCount": of},
        "devices": devices,
        **fields,
    }
    return convert(RESOURCE_SLICES, {"metadata": {"name": f"{node_name}-{number}"}, "spec": spec})


def plain(name: str) -> Iterator[ResourceSlice]:
    yield resource_slice(name, [gpu(i, name) for i in range(10)])


def tainted_gpus(name: str) -> Iterator[ResourceSlice]:
    taint = {"key": "example.com/sick", "effect": "NoSchedule"}
    yield resource_slice(name, [gpu(i, name, **({"taints": [taint]} if i % 2 else {})) for i in range(10)])


def partitioned_gpus(name: str) -> Iterator[ResourceSlice]:
    sets = [{"name": f"gpu-{g}", "counters": {"memory": {"value": "80Gi"}}} for g in range(2)]
    yield resource_slice(name, [], of=3, sharedCounters=sets)
    for g in range(2):
        parts = [(f"gpu-{g}", "80Gi"), *((f"gpu-{g}-half-{i}", "40Gi") for i in range(2))]
        parts += [(f"gpu-{g}-quarter-{i}", "20Gi") for i in range(4)]
        devices = []
        for part, memory in parts:
            uses = [{"counterSet": f"gpu-{g}", "counters": {"memory": {"value": memory}}}]
            device = gpu(g, name, consumesCounters=uses, capacity={"memory": {"value": memory}})
            devices.append(device | {"name": part})
        yield resource_slice(name, devices, of=3, number=g + 1)


def shared_gpus(name: str) -> Iterator[ResourceSlice]:
    yield resource_slice(name, [gpu(i, name, allowMultipleAllocations=True) for i in range(4)])


PLAIN = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "H100"'
QUARTER = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("20Gi")) == 0'
WORKLOADS: dict[str, tuple[Callable[[str], Iterator[ResourceSlice]], Callable[[int], ResourceClaim]]] = {
    "plain": (plain, lambda i: claim(f"c{i}", [request()])),
    "taints": (tainted_gpus, lambda i: claim(f"c{i}", [request()])),
    "first-available": (
        plain,
        lambda i: claim(
            f"c{i}",
            [
                {
                    "name": "r",
                    "firstAvailable": [
                        {
                            "name": name,
                            "deviceClassName": "gpu",
                            "allocationMode": "ExactCount",
                            "count": 1,
                            "selectors": [
                                {"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}
                            ],
                        }
                        for name, model in (("best", "B200"), ("good", "H100"))
                    ],
                }
            ],
        ),
    ),
    "partitionable": (
        partitioned_gpus,
        lambda i: claim(f"c{i}", [request("r", 2, selectors=[{"cel": {"expression": QUARTER}}])]),
    ),
    "consumable-capacity": (
        shared_gpus,
        lambda i: claim(f"c{i}", [request(capacity={"requests": {"memory": "20Gi"}})]),
    ),
}


def per_pod(workload: str, nodes: int, pods: int) -> JsonObject:
    """Measure the CPU time to place a pod. Nodes are filled in order, so each search also tries the full nodes."""
    slices_of, claim_of = WORKLOADS[workload]
    features, state = Features.all(), AllocatedState()
    snapshot = Snapshot(features)
    names = [f"node-{i:05}" for i in range(nodes)]
    for name in names:
        for slice_ in slices_of(name):
            snapshot.set_slice(slice_)
    allocator = Allocator(features, state, {"gpu": device_class(PLAIN)}, snapshot)
    objects = [node(name) for name in names]
    claims = [claim_of(i) for i in range(pods)]
    start = time.process_time()
    for here in objects:
        allocator.allocate(here, claims[:1])
    first = time.process_time() - start
    # Services also freeze their objects after start, so that garbage collections skip the long-lived ones.
    gc.collect()
    gc.freeze()
    calls = 0
    start = time.process_time()
    at = 0
    for item in claims:
        for _ in range(nodes):
            calls += 1
            found = allocator.allocate(objects[at], [item])
            if found is not None:
                state.hold(item.key, found[0])
                at = (at + nodes // 3 + 1) % nodes
                break
            at = (at + 1) % nodes
        else:
            raise SystemExit(f"{workload}: no room for pod {item.key}")
    took = time.process_time() - start
    gc.unfreeze()
    return {
        "workload": workload,
        "nodes": nodes,
        "pods": pods,
        "calls": calls,
        "microseconds": round(took / pods * 1e6, 1),
        "first_microseconds": round(first / nodes * 1e6, 1),
    }


# Long: a table of workloads, one statement each.
def impossible() -> Iterator[tuple[str, list[JsonObject], list[JsonObject], list[JsonObject]]]:
    """Yield cases without a solution: a name, devices, requests and constraints."""
    many = [gpu(i, "n") for i in range(64)]
    model = f"{DRIVER}/model"
    yield "no-device-for-the-last", many, [*(request(f"r{i}") for i in range(31)), _none("last")], []
    yield "half-of-them-and-one-more", many, [request("r", 16), _none("last")], []
    yield (
        "more-than-there-are",
        many[:31],
        [request(f"r{i}") for i in range(32)],
        [],
    )
    yield (
        "distinct-values-too-few",
        [gpu(i, "n", attributes={"model": {"string": f"m{i % 31}"}}) for i in range(64)],
        [request(f"r{i}") for i in range(32)],
        [{"distinctAttribute": model}],
    )
    yield (
        "matching-values-too-few",
        [gpu(i, "n", attributes={"model": {"string": f"m{i // 15}"}}) for i in range(64)],
        [request(f"r{i}") for i in range(16)],
        [{"matchAttribute": model}],
    )
    yield (
        "matching-values-in-one-request",
        [gpu(i, "n", attributes={"model": {"string": f"m{i // 15}"}}) for i in range(64)],
        [request("r", 16)],
        [{"matchAttribute": model}],
    )
    yield (
        "all-different-and-one-more",
        [gpu(i, "n", attributes={"model": {"string": f"m{i}"}}) for i in range(64)],
        [request("r", 16), _none("last")],
        [{"distinctAttribute": model}],
    )
    sets = [
        {"counterSet": f"set-{i % 8}", "counters": {"memory": {"value": f"{10 + i}Gi"}}} for i in range(64)
    ]
    yield (
        "counters-all-different",
        [gpu(i, "n", consumesCounters=[sets[i]]) for i in range(64)],
        [*(request(f"r{i}") for i in range(16)), _none("last")],
        [],
    )
    uses = [{"counterSet": f"set-{i % 16}", "counters": {"memory": {"value": "100Gi"}}} for i in range(128)]
    parent = [{"parent": {"string": f"GPU-{i % 16}"}} for i in range(128)]
    yield (
        "partitions-of-one-parent-too-few",
        [gpu(i, "n", consumesCounters=[uses[i]], attributes=parent[i]) for i in range(128)],
        [request(f"r{i}") for i in range(6)],
        [{"matchAttribute": f"{DRIVER}/parent"}],
    )
    yield (
        "partitions-do-not-fit-together",
        [gpu(i, "n", consumesCounters=[sets[i]]) for i in range(32)],
        [*(request(f"r{i}", 2) for i in range(4)), request("big", capacity={"requests": {"memory": "81Gi"}})],
        [],
    )
    sizes = [{"counterSet": "set-0", "counters": {"memory": {"value": f"{40 + i}Gi"}}} for i in range(60)]
    yield (
        "sizes-do-not-add-up",
        [gpu(i, "n", consumesCounters=[sizes[i]]) for i in range(60)],
        [request(f"r{i}") for i in range(12)],
        [],
    )


def _none(name: str) -> JsonObject:
    return request(name, selectors=[{"cel": {"expression": 'device.driver == "absent.example.com"'}}])


def adversarial(
    name: str, devices: list[JsonObject], requests: list[JsonObject], constraints: list[JsonObject]
) -> JsonObject:
    """Measure the time until an allocation fails because there is no solution, or exceeds the time limit of Filter."""
    slices = [resource_slice("n", devices)]
    if any("consumesCounters" in device for device in devices):
        sets = [{"name": f"set-{i}", "counters": {"memory": {"value": "500Gi"}}} for i in range(16)]
        slices = [
            resource_slice("n", [], of=2, sharedCounters=sets),
            resource_slice("n", devices, of=2, number=1),
        ]
    classes = {"gpu": device_class(f'device.driver == "{DRIVER}"')}
    allocator = Allocator(Features.all(), AllocatedState(), classes, slices)
    start = time.perf_counter()

    def check() -> None:
        if time.perf_counter() - start > LIMIT_S:
            raise TimeLimit

    try:
        found = allocator.allocate(node("n"), [claim("c", requests, constraints)], check=check)
        ended = "none" if found is None else "allocated"
    except TimeLimit as error:
        ended = str(error)
    took = time.perf_counter() - start
    return {"impossible": name, "ended": ended, "milliseconds": round(took * 1e3, 1)}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print one JSON object a figure."""
    parser = argparse.ArgumentParser(prog="bench allocator", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pods, and only up to 1,000 nodes")
    options = parser.parse_args(arguments)
    sizes, pods = ((100, 1000), 200) if options.quick else ((500, 5000), 1000)
    for workload in WORKLOADS:
        figures = []
        for nodes in sizes:
            per_pod(workload, nodes, 50)
            figure = per_pod(workload, nodes, pods)
            figures.append(figure)
            print(json.dumps(figure), flush=True)
        growth = figures[1]["microseconds"] / figures[0]["microseconds"]
        print(json.dumps({"workload": workload, "growth": round(growth, 2)}), flush=True)
    for case in impossible():
        print(json.dumps(adversarial(*case)), flush=True)


if __name__ == "__main__":
    main()
