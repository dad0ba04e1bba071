"""Objects for tests, as JSON and as decoded types."""

from typing import Any

from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject

DRIVER = "gpu.example.com"


def node_json(name: str, *, labels: JsonObject | None = None, **spec: Any) -> JsonObject:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod_json(
    name: str,
    *,
    claims: dict[str, str] | None = None,
    requests: JsonObject | None = None,
    labels: JsonObject | None = None,
    container: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    """Return a pod. ``claims`` maps the pod's name for each claim to the claim's name."""
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "resources": {"requests": requests or {}}, **(container or {})}],
            "resourceClaims": [
                {"name": key, "resourceClaimName": value} for key, value in (claims or {}).items()
            ],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def claim_json(name: str, *, request: JsonObject | None = None, **devices: Any) -> JsonObject:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **(request or {})}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}},
        "status": {},
    }


def slice_json(node: str, count: int, **device: Any) -> JsonObject:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{i}", "attributes": {"index": {"int": i}}, **device} for i in range(count)
            ],
        },
    }


def class_json(name: str = "gpu", **spec: Any) -> JsonObject:
    return {"kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def node(name: str, **fields: Any) -> Node:
    return convert(NODES, node_json(name, **fields))


def pod(name: str, **fields: Any) -> Pod:
    return convert(PODS, pod_json(name, **fields))


def claim(name: str, **fields: Any) -> ResourceClaim:
    return convert(RESOURCE_CLAIMS, claim_json(name, **fields))


def allocated_claim(
    name: str, *devices: str, version: str = "1", pool: str = "node-1", **result: Any
) -> ResourceClaim:
    """Return a claim with those devices of the pool."""
    obj = claim_json(name)
    obj["metadata"]["resourceVersion"] = version
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": pool, "device": device, **result} for device in devices
    ]
    obj["status"] = {"allocation": {"devices": {"results": results}}}
    return convert(RESOURCE_CLAIMS, obj)


def piece(node_name: str, count: int, **device: Any) -> ResourceSlice:
    return convert(RESOURCE_SLICES, slice_json(node_name, count, **device))
