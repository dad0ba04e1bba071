"""The objects that admission plugins look up: those of a world, and of the manifests of a question."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import orjson
from dra_scheduler.plan.objects import BY_KIND, Objects
from dra_shared.api.codec import to_builtins
from dra_shared.api.resources import (
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    Resource,
)
from dra_shared.jsontypes import JsonObject

_RESOURCES: Mapping[tuple[str, str], Resource[Any]] = {
    (each.group, each.plural): each
    for each in (LIMIT_RANGES, NAMESPACES, NODES, PRIORITY_CLASSES, RUNTIME_CLASSES, SERVICE_ACCOUNTS)
}
# Priority classes that every cluster has.
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class WorldAround:
    """Looks objects up in the manifests first, and then in the world.

    Objects of a kind that was not read are assumed to exist, and listed in ``assumed``. ``complete`` sets the
    defaults of manifests.
    """

    def __init__(
        self,
        objects: Objects,
        manifests: Iterable[JsonObject],
        namespace: str | None = None,
        complete: Callable[[JsonObject], JsonObject] = lambda value: value,
    ) -> None:
        self._objects = objects
        self._namespace = namespace
        self._complete = complete
        self._given: dict[tuple[Resource[Any], str], JsonObject] = {}
        self._pod: JsonObject = {}
        self.assumed: list[str] = []
        for value in manifests:
            self._note(value)

    def _note(self, value: JsonObject) -> None:
        group = str(value.get("apiVersion", "")).rpartition("/")[0]
        resource = BY_KIND.get((group, str(value.get("kind"))))
        meta = value.get("metadata") or {}
        if resource in _RESOURCES.values() and resource is not None and meta.get("name"):
            space = meta.get("namespace") or "default"
            if space == "default" and self._namespace:
                space = self._namespace
            key = f"{space}/{meta['name']}" if resource.namespaced else meta["name"]
            # Malformed objects are rejected when they are read.
            with suppress(ValueError):
                self._given[resource, key] = self._complete(value)

    def about(self, pod: JsonObject) -> None:
        """Set the object whose pods the next lookups are for."""
        self._pod = pod

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> JsonObject | None:
        """Return the object of that name, or None if it does not exist."""
        resource = _RESOURCES.get((group, plural))
        if resource is None:
            return None
        key = f"{namespace}/{name}" if namespace else name
        if (resource, key) in self._given:
            return self._given[resource, key]
        found = self._objects.of(resource).get(key)
        if found is not None:
            made: JsonObject = to_builtins(found)
            return made
        return self._assumption(resource, name)

    def listing(self, group: str, plural: str, namespace: str) -> list[bytes]:
        """Return the objects of a resource, as JSON."""
        resource = _RESOURCES.get((group, plural))
        if resource is None:
            return []
        given = {key: value for (each, key), value in self._given.items() if each is resource}
        found = {key: obj for key, obj in self._objects.of(resource).items() if key not in given}
        prefix = f"{namespace}/" if resource.namespaced else ""
        return [
            *(orjson.dumps(value) for key, value in given.items() if key.startswith(prefix)),
            *(msgspec.json.encode(obj) for key, obj in found.items() if key.startswith(prefix)),
        ]

    def _assumption(self, resource: Resource[Any], name: str) -> JsonObject | None:
        if resource is PRIORITY_CLASSES and name in _PRIORITIES:
            return {"metadata": {"name": name}, "value": _PRIORITIES[name]}
        if self._objects.knows(resource) or resource in (NODES, NAMESPACES):
            return None
        made: JsonObject = {"metadata": {"name": name}}
        if resource is PRIORITY_CLASSES:
            made["value"] = self._priority(name)
            self._assume(f"PriorityClass {name}", f"its value counts as {made['value']}")
        elif resource is RUNTIME_CLASSES:
            overhead = (self._pod.get("spec") or {}).get("overhead")
            made |= {"overhead": {"podFixed": overhead}} if overhead else {}
            self._assume(f"RuntimeClass {name}", "its overhead, node selector and tolerations are left out")
        return made

    def _priority(self, name: str) -> int:
        """Return the priority of pods of the class."""
        pods = self._objects.of(PODS).values()
        known = (pod.spec.priority for pod in pods if pod.spec.priority_class_name == name)
        own = (self._pod.get("spec") or {}).get("priority") or 0
        return next((value for value in known if value is not None), own)

    def _assume(self, what: str, effect: str) -> None:
        meta = self._pod.get("metadata") or {}
        holder = f"{self._pod.get('kind')} {meta.get('namespace') or 'default'}/{meta.get('name', '')}"
        text = f"{what} is missing, to which {holder} refers; {effect}"
        if text not in self.assumed:
            self.assumed.append(text)
