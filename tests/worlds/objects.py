"""Objects of a small cluster, as an API server returns them."""

from typing import Any

from dra_shared.jsontypes import JsonObject


def cluster(devices: int = 2) -> list[JsonObject]:
    """Return nodes with devices, their class, and a pod with a claim for one of them."""
    return [_node(), _slice(devices), _class(), claim("held", "gpu-0"), pod("holder", "node-0", "held")]


def _meta(name: str, namespace: str = "", **more: Any) -> JsonObject:
    meta: JsonObject = {"name": name, "uid": f"uid-{name}", **more}
    meta["managedFields"] = [
        {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:x": {}}}, "operation": "Update"}
    ]
    return meta | ({"namespace": namespace} if namespace else {})


def _node() -> JsonObject:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta("node-0", labels={"kubernetes.io/hostname": "node-0"}),
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _slice(count: int) -> JsonObject:
    """Return a slice in v1beta1, whose devices have another shape."""
    devices = [{"name": f"gpu-{i}", "basic": {"attributes": {"index": {"int": i}}}} for i in range(count)]
    return {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "metadata": _meta("slice"),
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-0",
            "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _class() -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": _meta("gpu"),
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
    }


def claim(name: str, device: str = "") -> JsonObject:
    """Return a claim in v1beta1, whose requests are flat."""
    request = {"name": "r", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    made: JsonObject = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": _meta(name, "default"),
        "spec": {"devices": {"requests": [request]}},
    }
    if device:
        result = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": device}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
    return made


def pod(name: str, node: str = "", claim_name: str = "") -> JsonObject:
    """Return a pod with a claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(name, "default"),
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


SECRET: JsonObject = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": _meta("s", "default"),
    "data": {"k": "aHVzaA=="},
}
UNKNOWN: JsonObject = {
    "apiVersion": "example.com/v7",
    "kind": "Widget",
    "metadata": _meta("w"),
    "spec": {"x": 1},
}
