"""Classic objects as the controller reads them, and the references between them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from dra_shared.api.meta import Object
from dra_shared.api.resources import CONFIG_MAPS, Resource
from dra_shared.client.informer import InformerFactory
from dra_shared.client.store import Store
from dra_shared.jsontypes import JsonObject
from msgspec import field


class ClassicObject(Object):
    """Any classic object, with the fields of all kinds as they are in JSON."""

    spec: JsonObject = field(default_factory=dict)
    status: JsonObject = field(default_factory=dict)
    driver_name: str = ""
    parameters_ref: JsonObject | None = None
    suitable_nodes: JsonObject | None = None
    structured_parameters: bool | None = None
    default_claim_parameters_ref: JsonObject | None = None
    generated_from: JsonObject | None = None
    shareable: bool | None = None
    driver_requests: list[JsonObject] = field(default_factory=list)
    vendor_parameters: list[JsonObject] = field(default_factory=list)
    filters: list[JsonObject] = field(default_factory=list)


Kind = Resource[ClassicObject]
_GROUP, _VERSION = "resource.k8s.io", "v1alpha3"

CLASSES: Kind = Resource(
    _GROUP, _VERSION, "resourceclasses", "ResourceClass", ClassicObject, namespaced=False
)
CLAIMS: Kind = Resource(_GROUP, _VERSION, "resourceclaims", "ResourceClaim", ClassicObject)
TEMPLATES: Kind = Resource(_GROUP, _VERSION, "resourceclaimtemplates", "ResourceClaimTemplate", ClassicObject)
CONTEXTS: Kind = Resource(_GROUP, _VERSION, "podschedulingcontexts", "PodSchedulingContext", ClassicObject)
_IN_TREE: tuple[Kind, ...] = (
    Resource(_GROUP, _VERSION, "resourceclaimparameters", "ResourceClaimParameters", ClassicObject),
    Resource(_GROUP, _VERSION, "resourceclassparameters", "ResourceClassParameters", ClassicObject),
)
_DRIVERS = (
    ("gpu.nvidia.com", "v1"),
    ("gpu.resource.nvidia.com", "v1alpha1"),
    ("gpu.resource.example.com", "v1alpha1"),
)
_OF_CLAIMS = ("ComputeInstanceClaimParameters", "GpuClaimParameters", "MigDeviceClaimParameters")
_OF_CLASSES = ("DeviceClassParameters", "GpuClassParameters")

PARAMETERS: tuple[Kind, ...] = (
    *_IN_TREE,
    *(Resource(g, v, kind.lower(), kind, ClassicObject) for g, v in _DRIVERS for kind in _OF_CLAIMS),
    *(
        Resource(g, v, kind.lower(), kind, ClassicObject, namespaced=False)
        for g, v in _DRIVERS
        for kind in _OF_CLASSES
    ),
)
VENDOR_CLASSES: tuple[Kind, ...] = tuple(
    Resource(g, v, "deviceclasses", "DeviceClass", ClassicObject, namespaced=False) for g, v in _DRIVERS
)


def as_json(kind: Resource[Any], obj: Object) -> JsonObject:
    """Return an object in its JSON form."""
    found: JsonObject = msgspec.to_builtins(obj)
    return {**found, "apiVersion": kind.api_version, "kind": kind.kind}


class Finder:
    """Finds referenced objects in the stores of informers."""

    def __init__(self, informers: InformerFactory) -> None:
        every: tuple[Resource[Any], ...] = (CLASSES, *PARAMETERS, *VENDOR_CLASSES, CONFIG_MAPS)
        self._stores: Mapping[tuple[str, str], tuple[Resource[Any], Store[Any]]] = {
            (kind.group, kind.kind): (kind, informers.informer(kind).store) for kind in every
        }
        self._in_tree = [(kind, informers.informer(kind).store) for kind in _IN_TREE]

    def find(self, group: str, kind: str, namespace: str, name: str) -> JsonObject | None:
        """Return the object of a group, kind, namespace and name; None if there is none."""
        resource, store = self._stores.get((group, kind), (None, None))
        if resource is None or store is None:
            return None
        obj = store.get(f"{namespace}/{name}" if resource.namespaced else name)
        return None if obj is None else as_json(resource, obj)

    def find_generated(self, group: str, kind: str, namespace: str, name: str) -> JsonObject | None:
        """Return the in-tree parameters that were generated from those of a driver; None if there are none."""
        wanted = (group, kind, name)
        for resource, store in self._in_tree:
            for obj in store.list():
                origin = obj.generated_from or {}
                found = tuple(origin.get(field, "") for field in ("apiGroup", "kind", "name"))
                if found == wanted and obj.metadata.namespace == (namespace or obj.metadata.namespace):
                    return as_json(resource, obj)
        return None
