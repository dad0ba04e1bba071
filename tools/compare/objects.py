"""Random objects of resource.k8s.io in the form of v1, nearly all of them valid.

Slices, classes and claims are drawn by :mod:`tools.compare.worlds`. This module adds the fields and kinds that the
allocator does not read.
"""

import json
from collections.abc import Callable

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_36, V1_37, Version

from tools.compare.draw import Draw
from tools.compare.worlds import draw_world

_TIME = "2024-05-06T07:08:09Z"
_SHARE = "22222222-2222-4222-8222-222222222222"


def draw_object(kind: str, draw: Draw, kubernetes: Version) -> JsonObject:
    """Return an object of the kind, without ``apiVersion``."""
    world = draw_world(str(draw.number(0, 1 << 40)), kubernetes)
    obj = _KINDS[kind](_Objects(draw, kubernetes, world))
    meta = obj["metadata"]
    if draw.chance(0.2):
        meta["labels"] = {"example.com/team": "a"}
    if draw.chance(0.1):
        meta["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    return {"kind": kind, **obj}


def draw_status(claim: JsonObject, draw: Draw, kubernetes: Version) -> JsonObject:
    """Return a claim status: empty, with an allocation, or also with reservations and device statuses."""
    return _Objects(draw, kubernetes, {}).draw_status(claim)


class _Objects:
    def __init__(self, draw: Draw, kubernetes: Version, world: JsonObject) -> None:
        self._draw = draw
        self._kubernetes = kubernetes
        self._world = world

    def draw_class(self) -> JsonObject:
        draw = self._draw
        found: JsonObject = draw.pick(self._world["classes"])
        if draw.chance(0.3):
            found["spec"]["extendedResourceName"] = draw.pick(("example.com/gpu", "gpu.example.com/h100"))
        return found

    def draw_claim(self) -> JsonObject:
        draw = self._draw
        found: JsonObject = draw.pick(self._world["claims"])
        found["metadata"].pop("uid")
        used = {
            name
            for constraint in found["spec"]["devices"].get("constraints", ())
            for name in (constraint.get("matchAttribute"), constraint.get("distinctAttribute"))
        }
        for request in found["spec"]["devices"]["requests"]:
            for part in (request.get("exactly"), *request.get("firstAvailable", ())):
                unused = not used.issuperset(one["name"] for one in (part or {}).get("derivedAttributes", ()))
                if part and unused and draw.chance(0.8):
                    part.pop("derivedAttributes")
                for toleration in (part or {}).get("tolerations", ()):
                    if toleration.get("effect") == "NoExecute" and draw.chance(0.5):
                        toleration["tolerationSeconds"] = draw.number(0, 60)
        return found

    def draw_template(self) -> JsonObject:
        claim = self.draw_claim()
        template = {"spec": claim["spec"]}
        if self._draw.chance(0.3):
            template["metadata"] = {"labels": {"a": "b"}, "annotations": {"example.com/x": "y"}}
        return {"metadata": {"name": "template", "namespace": "default"}, "spec": template}

    def draw_slice(self) -> JsonObject:
        draw = self._draw
        found: JsonObject = draw.pick(self._world["slices"])
        spec = found["spec"]
        for device in spec.get("devices", ()):
            for taint in device.get("taints", ()):
                if draw.chance(0.3):
                    taint["timeAdded"] = _TIME
            if any("requestPolicy" in capacity for capacity in device.get("capacity", {}).values()):
                device["allowMultipleAllocations"] = draw.chance(0.95)
            if draw.chance(0.2):
                device |= self._node_resources(device)
        # Most drawn slices have node fields in the slice and in its devices. Only one of the two is valid.
        if not spec.get("perDeviceNodeSelection") and draw.chance(0.9):
            for device in spec.get("devices", ()):
                for field in ("nodeName", "nodeSelector", "allNodes"):
                    device.pop(field, None)
        elif spec.get("perDeviceNodeSelection") and draw.chance(0.9):
            for device in spec.get("devices", ()):
                if not device.keys() & {"nodeName", "nodeSelector", "allNodes"}:
                    device["allNodes"] = True
        if self._kubernetes >= V1_37 and draw.chance(0.2):
            spec["partitionTypeAttribute"] = draw.pick(("gpu.example.com/model", "shared.example.com/root"))
        return found

    def _node_resources(self, device: JsonObject) -> JsonObject:
        draw = self._draw
        names = draw.sample(("cpu", "memory", "hugepages-2Mi"), 2)
        capacity = list(device.get("capacity") or ("mem",))
        if self._kubernetes < V1_36:
            return {}
        if self._kubernetes < V1_37:
            mapping: JsonObject = {"allocationMultiplier": draw.pick(("1", "2"))}
            if draw.chance(0.5):
                mapping["capacityKey"] = draw.pick(capacity)
            return {"nodeAllocatableResourceMappings": dict.fromkeys(names, mapping)}
        resources: JsonObject = {}
        for name in names:
            one: JsonObject = {}
            if draw.chance(0.7):
                one["mapping"] = draw.pick(
                    (
                        {"deviceMultiplier": "2"},
                        {"capacityKey": draw.pick(capacity)},
                        {"capacityKey": draw.pick(capacity), "capacityMultiplier": "500m"},
                    )
                )
            if not one or draw.chance(0.4):
                one["overhead"] = draw.pick(
                    ({"perPod": "100m"}, {"perContainer": "1"}, {"perPod": "1", "perContainer": "2"})
                )
            resources[name] = one
        return {"nodeAllocatableResources": resources}

    def draw_rule(self) -> JsonObject:
        draw = self._draw
        effects = ["NoSchedule", "NoExecute", *(["None"] if self._kubernetes >= V1_35 else [])]
        taint: JsonObject = {"key": draw.pick(("example.com/bad", "a")), "effect": draw.pick(effects)}
        if draw.chance(0.5):
            taint["value"] = draw.pick(("v", "broken"))
        if draw.chance(0.4):
            taint["timeAdded"] = _TIME
        spec: JsonObject = {"taint": taint}
        if draw.chance(0.8):
            choices = {"driver": "gpu.example.com", "pool": "node-0/gpus", "device": "d0"}
            names = draw.sample(sorted(choices), 3) if draw.chance(0.9) else []
            spec["deviceSelector"] = {name: choices[name] for name in names}
        return {"metadata": {"name": "rule"}, "spec": spec}

    def draw_request(self) -> JsonObject:
        draw = self._draw
        spec: JsonObject = {"driver": "gpu.example.com"}
        if draw.chance(0.4):
            spec["poolName"] = draw.pick(("node-0", "rack/1"))
        if draw.chance(0.4):
            spec["limit"] = draw.number(1, 1000)
        if draw.chance(0.3) and self._kubernetes >= V1_37:
            spec["defaultPartitionTypeAttribute"] = "gpu.example.com/profile"
        return {"metadata": {"name": "pools"}, "spec": spec}

    def draw_status(self, claim: JsonObject) -> JsonObject:
        draw = self._draw
        if draw.chance(0.2):
            return {}
        requests = claim["spec"]["devices"]["requests"]
        results = [self._result(request, number) for number, request in enumerate(requests)]
        allocation: JsonObject = {"devices": {"results": results}}
        if draw.chance(0.4):
            name = draw.pick(requests)["name"]
            parameters: JsonObject = {"driver": "gpu.example.com", "parameters": {"a": 1}}
            allocation["devices"]["config"] = [
                {"source": source, "requests": [name], "opaque": parameters}
                for source in draw.sample(("FromClass", "FromClaim"), 2)
            ]
        if draw.chance(0.6):
            field = {"key": "metadata.name", "operator": "In", "values": ["node-0"]}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        if draw.chance(0.3):
            allocation["allocationTimestamp"] = _TIME
        status: JsonObject = {"allocation": allocation}
        if draw.chance(0.6):
            status["reservedFor"] = [
                {"resource": "pods", "name": f"pod-{number}", "uid": f"uid-{number}"}
                for number in range(draw.number(1, 3))
            ]
        if draw.chance(0.5):
            status["devices"] = [self._device_status(one) for one in results]
        return status

    def _result(self, request: JsonObject, number: int) -> JsonObject:
        draw = self._draw
        name = request["name"]
        if "firstAvailable" in request:
            name = f"{name}/{draw.pick(request['firstAvailable'])['name']}"
        result: JsonObject = {
            "request": name,
            "driver": "gpu.example.com",
            "pool": draw.pick(("node-0", "rack/one")),
            "device": f"d{number}",
        }
        if draw.chance(0.2):
            result["adminAccess"] = True
        if draw.chance(0.2):
            result["tolerations"] = [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]
        if draw.chance(0.2):
            result |= {"bindingConditions": ["example.com/ready"], "bindingFailureConditions": ["failed"]}
        if draw.chance(0.3):
            result |= {"shareID": _SHARE, "consumedCapacity": {"mem": "1Gi"}}
        if draw.chance(0.2) and self._kubernetes >= V1_37:
            result["skipNodeOperations"] = draw.pick((["*"], ["NodePrepareResources"]))
        return result

    def _device_status(self, result: JsonObject) -> JsonObject:
        draw = self._draw
        names = ("driver", "pool", "device", "shareID")
        found: JsonObject = {name: result[name] for name in names if name in result}
        if draw.chance(0.5):
            found["conditions"] = [
                {
                    "type": kind,
                    "status": draw.pick(("True", "False")),
                    "reason": "Good",
                    "message": "",
                    "lastTransitionTime": _TIME,
                }
                for kind in draw.sample(("Ready", "example.com/up"), 2)
            ]
        if draw.chance(0.3):
            found["data"] = {"x": 1}
        if draw.chance(0.4):
            found["networkData"] = {
                "interfaceName": "eth1",
                "ips": draw.sample(("10.0.0.1/24", "fd00::1/64", "10.0.0.2/32"), 3),
                "hardwareAddress": "00:11:22:33:44:55",
            }
        return found


_KINDS: dict[str, Callable[[_Objects], JsonObject]] = {
    "DeviceClass": _Objects.draw_class,
    "DeviceTaintRule": _Objects.draw_rule,
    "ResourceClaim": _Objects.draw_claim,
    "ResourceClaimTemplate": _Objects.draw_template,
    "ResourcePoolStatusRequest": _Objects.draw_request,
    "ResourceSlice": _Objects.draw_slice,
}


def convert_to_v1beta1(obj: JsonObject) -> JsonObject:
    """Return a copy of an object of v1 in the form of v1beta1, whose requests and devices have another shape."""
    obj = json.loads(json.dumps(obj))
    spec = obj["spec"]
    claim = spec.get("spec", spec) if obj["kind"] == "ResourceClaimTemplate" else spec
    if obj["kind"] == "ResourceSlice" and "devices" in spec:
        spec["devices"] = [
            {"name": device.pop("name"), "basic": device} if "name" in device else device
            for device in spec["devices"]
        ]
    elif "devices" in claim:
        for request in claim["devices"]["requests"]:
            request |= request.pop("exactly", {})
    return obj
