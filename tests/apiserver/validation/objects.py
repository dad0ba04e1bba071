"""A well-formed object of each kind that is validated, with most of its fields."""

from typing import Any

Json = dict[str, Any]

_REQUEST: Json = {
    "deviceClassName": "gpu",
    "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}],
    "capacity": {"requests": {"memory": "10Gi"}},
}
_SPEC: Json = {
    "devices": {
        "requests": [
            {"name": "a", "exactly": {**_REQUEST, "adminAccess": False}},
            {"name": "b", "firstAvailable": [{"name": "c", **_REQUEST}]},
        ],
        "constraints": [{"requests": ["a"], "matchAttribute": "example.com/model"}],
        "config": [{"requests": ["b/c"], "opaque": {"driver": "gpu.example.com", "parameters": {"x": 1}}}],
    }
}
_TERMS: Json = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}],
        }
    ]
}
_STATUS: Json = {
    "allocation": {
        "devices": {
            "results": [
                {
                    "request": "a",
                    "driver": "gpu.example.com",
                    "pool": "node",
                    "device": "gpu-0",
                    "bindingConditions": ["ready"],
                    "bindingFailureConditions": ["failed"],
                    "shareID": "8ba5b10b-2be4-4c1f-8b1d-2a4f3a2b0c11",
                    "consumedCapacity": {"memory": "10Gi"},
                }
            ],
            "config": [
                {"source": "FromClaim", "requests": ["a"], "opaque": {"driver": "d", "parameters": {}}}
            ],
        },
        "nodeSelector": _TERMS,
    },
    "reservedFor": [{"resource": "pods", "name": "pod", "uid": "1"}],
    "devices": [
        {
            "driver": "gpu.example.com",
            "pool": "node",
            "device": "gpu-0",
            "shareID": "8ba5b10b-2be4-4c1f-8b1d-2a4f3a2b0c11",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Ok",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "data": {"a": 1},
            "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24"], "hardwareAddress": "00:11"},
        }
    ],
}
_DEVICE: Json = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "x"},
        "example.com/index": {"int": 1},
        "driverVersion": {"version": "1.2.3"},
        "ok": {"bool": True},
    },
    "capacity": {
        "memory": {
            "value": "40Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}},
        },
        "cores": {"value": "8", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    },
    "allowMultipleAllocations": True,
    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
    "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "10Gi"}}}],
    "bindsToNode": True,
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["failed"],
    "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cores", "allocationMultiplier": "2"}},
}


def _resource(kind: str, spec: Json, version: str = "v1", **more: Any) -> Json:
    meta: Json = {"name": "it", "labels": {"a": "b"}, "annotations": {"c": "d"}, "resourceVersion": "1"}
    if kind in ("ResourceClaim", "ResourceClaimTemplate"):
        meta["namespace"] = "default"
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": meta, "spec": spec, **more}


CLAIM = _resource("ResourceClaim", _SPEC, status=_STATUS)
TEMPLATE = _resource("ResourceClaimTemplate", {"metadata": {"labels": {"a": "b"}}, "spec": _SPEC})
SLICE = _resource(
    "ResourceSlice",
    {
        "driver": "gpu.example.com",
        "pool": {"name": "node", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node",
        "devices": [_DEVICE, {"name": "gpu-1", "nodeSelector": _TERMS}],
        "sharedCounters": [{"name": "set", "counters": {"memory": {"value": "80Gi"}}}],
    },
)
CLASS = _resource(
    "DeviceClass",
    {
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
        "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "x"}}}],
        "extendedResourceName": "example.com/gpu",
    },
)
RULE = _resource(
    "DeviceTaintRule",
    {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "node", "device": "gpu-0"},
        "taint": {"key": "a", "value": "b", "effect": "NoExecute"},
    },
    "v1beta2",
    status={"conditions": _STATUS["devices"][0]["conditions"]},
)
POOL_STATUS = _resource(
    "ResourcePoolStatusRequest",
    {"driver": "gpu.example.com", "poolName": "node", "limit": 10},
    "v1alpha3",
    status={"poolCount": 1, "pools": [{"driver": "d", "poolName": "p", "generation": 1, "totalDevices": 1}]},
)
