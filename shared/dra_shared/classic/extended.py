"""Convert extended resources of device plugins to claims: `limits: {nvidia.com/gpu: 1}` becomes a request of a
template.

Containers share devices as with a device plugin: each device belongs to one container, and an init container
passes its devices on.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_shared.classic.drivers import GPU_CLASS, MIG_CLASS, NVIDIA
from dra_shared.classic.expressions import of_profile
from dra_shared.classic.fields import entries, mapping
from dra_shared.classic.notes import Notes
from dra_shared.classic.pods import pod_spec
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity, QuantityError

CLASSES = {
    "amd.com/gpu": "gpu.amd.com",
    "example.com/gpu": "gpu.example.com",
    "google.com/tpu": "tpu.google.com",
    "gpu.intel.com/i915": "gpu.intel.com",
    "gpu.intel.com/xe": "gpu.intel.com",
    "habana.ai/gaudi": "gaudi.intel.com",
    "nvidia.com/gpu": GPU_CLASS,
}
"""The DeviceClass of the driver that replaces each extended resource's device plugin."""

_CLAIM = "devices"
_MIG = re.compile(r"nvidia\.com/mig-(\d+g\.\d+gb(?:\.me)?)")
_UNNAMABLE = re.compile(r"[^a-z0-9-]+")
_QUOTA = "requests."
_LONGEST = 63


@dataclass(frozen=True, slots=True)
class _Target:
    """The class of a resource, and further conditions on its devices."""

    class_name: str
    selectors: tuple[str, ...] = ()


@dataclass(slots=True)
class _Request:
    """A request for a container's resource. ``shared`` means that an init container already uses it."""

    name: str
    resource: str
    count: int
    target: _Target
    shared: bool = False


class ExtendedResources:
    """Converts the extended resources of pods to claims. ``classes`` override the known classes of resources."""

    def __init__(self, classes: Mapping[str, str]) -> None:
        self._classes = {**CLASSES, **classes}

    def convert(self, obj: JsonObject, notes: Notes) -> list[JsonObject]:
        """Return the object, after the template of its pods' claims if it needs one."""
        if obj.get("apiVersion") == "v1" and obj.get("kind") == "ResourceQuota":
            return [self._quota(obj, notes)]
        changed = copy.deepcopy(obj)
        found = pod_spec(changed)
        if found is None:
            return [obj]
        path, spec = found
        requests = self._requests(spec, path, notes)
        if not requests:
            return [changed]
        meta = mapping(obj.get("metadata"))
        name = _name(str(meta.get("name") or meta.get("generateName") or "pod").rstrip("-"), _CLAIM)
        spec.setdefault("resourceClaims", []).append({"name": _CLAIM, "resourceClaimTemplateName": name})
        return [_template(name, meta.get("namespace"), requests), changed]

    def _requests(self, spec: JsonObject, path: str, notes: Notes) -> list[_Request]:
        requests: list[_Request] = []
        # An init container uses devices that a later container of the pod gets.
        containers = sorted(_containers(spec), key=lambda one: not _keeps_devices(one[0], one[2]))
        for field, index, container in containers:
            resources = container.get("resources")
            if not isinstance(resources, dict):
                continue
            where = f"{path}.{field}[{index}].resources"
            for resource, amount in _extended_amounts(resources).items():
                request = self._request(
                    resource, amount, container, _keeps_devices(field, container), requests, where, notes
                )
                if request is None:
                    continue
                for kind in ("limits", "requests"):
                    _remove(resources, kind, resource)
                claims = resources.setdefault("claims", [])
                claims.append({"name": _CLAIM, "request": request.name})
        return requests

    def _request(
        self,
        resource: str,
        amount: Any,
        container: JsonObject,
        stays: bool,
        requests: list[_Request],
        where: str,
        notes: Notes,
    ) -> _Request | None:
        field = f"{where}.limits.{resource}"
        target, count = self._target(resource), _count(amount)
        if target is None:
            notes.note_lost(field, f"no DeviceClass is known for it: name one with --class {resource}=CLASS")
            return None
        if not count:
            notes.note_lost(field, f"{amount!r} is not a number of devices")
            return None
        free = (one for one in requests if one.resource == resource and one.count == count and not one.shared)
        request = None if stays else next(free, None)
        if request is None:
            name = _name(str(container.get("name") or "container"), _short(resource))
            request = _Request(name, resource, count, target)
            requests.append(request)
        notes.note_moved(field, f"request {request.name} of {count} of class {target.class_name}")
        return request

    def _target(self, resource: str) -> _Target | None:
        if class_name := self._classes.get(resource):
            return _Target(class_name)
        if found := _MIG.fullmatch(resource):
            profile = found[1].replace(".me", "+me")
            selector = of_profile(NVIDIA, profile)
            return _Target(MIG_CLASS, (selector,))
        return None

    def _quota(self, obj: JsonObject, notes: Notes) -> JsonObject:
        """Convert a quota of an extended resource to one that counts the devices of its class."""
        changed = copy.deepcopy(obj)
        hard = mapping(mapping(changed.get("spec")).get("hard"))
        for name in [name for name in hard if name.startswith(_QUOTA)]:
            class_name = self._classes.get(name.removeprefix(_QUOTA))
            if class_name is not None:
                today = f"{class_name}.deviceclass.resource.k8s.io/devices"
                hard[today] = hard.pop(name)
                notes.note_moved(f"spec.hard.{name}", f"spec.hard.{today}")
        return changed


def _containers(spec: JsonObject) -> Iterator[tuple[str, int, JsonObject]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(entries(spec.get(field))):
            if isinstance(container, dict):
                yield field, index, container


def _keeps_devices(field: str, container: JsonObject) -> bool:
    """True if a container keeps its devices as long as the pod runs."""
    return field == "containers" or container.get("restartPolicy") == "Always"


def _extended_amounts(resources: JsonObject) -> dict[str, Any]:
    """Return the extended resources of a container by name. Their limits and requests are equal."""
    amounts = {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}
    return {
        name: amount
        for name, amount in amounts.items()
        if "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
    }


def _remove(resources: JsonObject, kind: str, resource: str) -> None:
    amounts = resources.get(kind)
    if isinstance(amounts, dict):
        amounts.pop(resource, None)
        if not amounts:
            del resources[kind]


def _count(amount: Any) -> int:
    try:
        return Quantity.parse(str(amount)).value()
    except QuantityError:
        return 0


def _short(resource: str) -> str:
    return _UNNAMABLE.sub("-", resource.partition("/")[2].lower()).strip("-")


def _name(first: str, second: str) -> str:
    """Join two parts to a DNS label in which both can be recognized."""
    first = _UNNAMABLE.sub("-", first.lower()).strip("-")
    return f"{first[: _LONGEST - len(second) - 1]}-{second}"[:_LONGEST].strip("-")


def _template(name: str, namespace: str | None, requests: list[_Request]) -> JsonObject:
    asked = []
    for request in requests:
        exactly: JsonObject = {"deviceClassName": request.target.class_name}
        if request.target.selectors:
            exactly["selectors"] = [{"cel": {"expression": one}} for one in request.target.selectors]
        exactly |= {"allocationMode": "ExactCount", "count": request.count}
        asked.append({"name": request.name, "exactly": exactly})
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": meta,
        "spec": {"spec": {"devices": {"requests": asked}}},
    }
