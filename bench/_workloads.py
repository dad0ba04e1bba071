"""The objects of the scheduling benchmark: nodes with devices, and pods with claims for them.

The objects are like those of upstream's scheduler benchmarks (test/integration/scheduler_perf/dra).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dra_shared.jsontypes import JsonObject

DRIVER = "bench.example.com"
CLASS = "bench"


@dataclass(frozen=True)
class Workload:
    """``slices(node, devices)`` returns a node's slices. ``claim`` is the spec of each pod's claim, None for no claim.

    ``per_node`` returns how many pods fit a node with the given number of devices.
    """

    slices: Callable[[str, int], list[JsonObject]]
    claim: JsonObject | None
    device_class: JsonObject
    pod_resources: JsonObject | None = None
    per_node: Callable[[int], int] = lambda devices: devices
    steady: bool = False


def _slice(node: str, name: str, devices: list[JsonObject], count: int = 1, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{name}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
            **({"devices": devices} if devices else {}),
            **spec,
        },
    }


def _devices(count: int, **fields: Any) -> list[JsonObject]:
    return [
        {
            "name": f"device-{i}",
            "attributes": {"index": {"int": i}, "model": {"string": "bench"}, "preallocate": {"bool": True}},
            "capacity": {"counters": {"value": "2"}},
            **fields,
        }
        for i in range(count)
    ]


def _plain(node: str, count: int) -> list[JsonObject]:
    return [_slice(node, "devices", _devices(count))]


def _tainted_devices(node: str, count: int) -> list[JsonObject]:
    taint = {"key": "example.com/maintenance", "value": "soon", "effect": "NoSchedule"}
    return [_slice(node, "devices", _devices(count, taints=[taint]))]


def _shared_devices(node: str, count: int) -> list[JsonObject]:
    devices = _devices(count, allowMultipleAllocations=True)
    for device in devices:
        device["capacity"] = {"memory": {"value": "8Gi"}, "cores": {"value": "4"}}
    return [_slice(node, "devices", devices)]


def _partitions(node: str, count: int) -> list[JsonObject]:
    """Return ``count`` cards, each as a whole device and two halves that share the card's counters."""
    sets = [
        {"name": f"card-{i}", "counters": {"memory": {"value": "8Gi"}, "slices": {"value": "2"}}}
        for i in range(count)
    ]
    halves = []
    for i in range(count):
        for name, part in ((f"card-{i}", 2), (f"card-{i}-half-0", 1), (f"card-{i}-half-1", 1)):
            halves.append(
                {
                    "name": name,
                    "attributes": {"card": {"int": i}, "parts": {"int": part}},
                    "consumesCounters": [
                        {
                            "counterSet": f"card-{i}",
                            "counters": {
                                "memory": {"value": f"{4 * part}Gi"},
                                "slices": {"value": str(part)},
                            },
                        }
                    ],
                }
            )
    pieces = [halves[i : i + 60] for i in range(0, len(halves), 60)]
    counters = [sets[i : i + 8] for i in range(0, len(sets), 8)]
    total = len(pieces) + len(counters)
    return [
        *(_slice(node, f"counters-{i}", [], total, sharedCounters=piece) for i, piece in enumerate(counters)),
        *(_slice(node, f"devices-{i}", piece, total) for i, piece in enumerate(pieces)),
    ]


def _claim(*requests: JsonObject, **spec: Any) -> JsonObject:
    return {"devices": {"requests": list(requests), **spec}}


def _exactly(name: str = "device", **fields: Any) -> JsonObject:
    return {"name": name, "exactly": {"deviceClassName": CLASS, **fields}}


def _selector(expression: str) -> list[JsonObject]:
    return [{"cel": {"expression": expression}}]


_ANY = {"selectors": _selector(f'device.driver == "{DRIVER}"')}
_HALF = _selector(f'device.attributes["{DRIVER}"].parts == 1')

WORKLOADS = {
    "template": Workload(_plain, _claim(_exactly()), _ANY),
    "steady-state": Workload(_plain, _claim(_exactly()), _ANY, steady=True),
    "first-available": Workload(
        _plain,
        _claim(
            {
                "name": "device",
                "firstAvailable": [
                    {
                        "name": f"sub-{i}",
                        "deviceClassName": CLASS,
                        "selectors": _selector(expression),
                    }
                    for i, expression in enumerate(
                        (f'device.attributes["{DRIVER}"].model == "other"', f'device.driver == "{DRIVER}"')
                    )
                ],
            }
        ),
        _ANY,
    ),
    "taints": Workload(
        _tainted_devices,
        _claim(_exactly(tolerations=[{"key": "example.com/maintenance", "operator": "Exists"}])),
        _ANY,
    ),
    "consumable-capacity": Workload(
        _shared_devices,
        _claim(_exactly(capacity={"requests": {"memory": "4Gi", "cores": "2"}})),
        _ANY,
        per_node=lambda devices: 2 * devices,
    ),
    "partitionable": Workload(
        _partitions,
        _claim(
            _exactly("one", selectors=_HALF),
            _exactly("two", selectors=_HALF),
            constraints=[{"matchAttribute": f"{DRIVER}/card"}],
        ),
        _ANY,
    ),
    "extended-resource": Workload(
        _plain, None, {**_ANY, "extendedResourceName": "example.com/device"}, {"example.com/device": "1"}
    ),
}
