"""The variables of a lesson's goals: the objects and devices of a cluster.

The goals' expressions can use these variables. ``pods``, ``claims``, ``templates``, ``classes`` and ``rules``
(DeviceTaintRules) map names to objects; those of namespaced kinds are in the namespace ``default``.
``granted`` maps each pod to a map from its containers to the ids of their devices. ``devices`` maps these ids
to devices with plain values. ``used`` maps each pod to the list of its claims. ``wants`` maps each pod to what
its claims ask for: the ``exactly`` of each request, or each of its alternatives. ``accepts`` maps each pod to a
list with an entry for each of these: the names of the lesson's samples that it accepts.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_shared.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.jsontypes import JsonObject

from dra_lab.learn.samples import find_accepted, sample_devices

NAMESPACE = "default"
_LISTED: dict[str, Resource[Any]] = {
    "pods": PODS,
    "claims": RESOURCE_CLAIMS,
    "templates": RESOURCE_CLAIM_TEMPLATES,
    "classes": DEVICE_CLASSES,
    "rules": DEVICE_TAINT_RULES,
    "slices": RESOURCE_SLICES,
}
#: The names that expressions can use.
VARIABLES = (
    "pods",
    "claims",
    "templates",
    "classes",
    "rules",
    "granted",
    "used",
    "devices",
    "wants",
    "accepts",
)


@dataclass(frozen=True)
class World:
    """A cluster's objects, as maps by name."""

    objects: Mapping[str, Mapping[str, JsonObject]]
    samples: Mapping[str, JsonObject] = field(default_factory=dict)
    """The changes that make a sample of a device, by the sample's name."""

    @property
    def pods(self) -> Mapping[str, JsonObject]:
        """The pods by name."""
        return self.objects["pods"]

    @property
    def variables(self) -> dict[str, Any]:
        """The values of ``VARIABLES``."""
        used = self._claims_by_pod()
        wants = {pod: list(_list_wanted(claims)) for pod, claims in used.items()}
        derived = {
            "granted": self._devices_by_container(),
            "used": used,
            "devices": self._devices(),
            "wants": wants,
            "accepts": self._accepts(wants),
        }
        return {name: derived[name] if name in derived else self.objects[name] for name in VARIABLES}

    @property
    def version(self) -> frozenset[tuple[str, str]]:
        """A value that changes whenever an object changes."""
        return frozenset(
            (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
            for each in self.objects.values()
            for obj in each.values()
        )

    @property
    def at_rest(self) -> bool:
        """True if every pod runs, has ended, fits nowhere, or waits for a claim or template that does not exist."""
        return all(
            (_at_rest(pod) and not self._awaits_claims(pod)) or self._lacks(pod) for pod in self.pods.values()
        )

    @property
    def pending_pods(self) -> list[str]:
        """The names of pods that do not run."""
        return [name for name, pod in self.pods.items() if not _ran(pod)]

    def _awaits_claims(self, pod: JsonObject) -> bool:
        """True if a claim of a template is not created yet, or is newer than the list of claims."""
        named = {one["name"]: one for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        if any(one.get("resourceClaimName") not in (None, *self.objects["claims"]) for one in named.values()):
            return True
        entries = pod["spec"].get("resourceClaims", ())
        return any("resourceClaimTemplateName" in entry and entry["name"] not in named for entry in entries)

    def _lacks(self, pod: JsonObject) -> bool:
        return any(
            entry.get(field) not in (None, *self.objects[there])
            for entry in pod["spec"].get("resourceClaims", ())
            for field, there in (("resourceClaimName", "claims"), ("resourceClaimTemplateName", "templates"))
        )

    def _devices_by_container(self) -> JsonObject:
        return {
            name: {
                container["name"]: self._devices_of(pod, container)
                for container in pod["spec"].get("containers", ())
            }
            for name, pod in self.pods.items()
        }

    def _devices_of(self, pod: JsonObject, container: JsonObject) -> list[str]:
        """Return the devices of a container, from its claims' requests."""
        found: dict[str, None] = {}
        for wanted in (container.get("resources") or {}).get("claims", ()):
            claim = self.objects["claims"].get(_claim_name(pod, wanted["name"]), {})
            for result in _results(claim):
                if wanted.get("request") in (None, result["request"], result["request"].partition("/")[0]):
                    found[_device_id(result["driver"], result["pool"], result["device"])] = None
        found |= dict.fromkeys(self._extended_devices(pod, container))
        return list(found)

    def _extended_devices(self, pod: JsonObject, container: JsonObject) -> list[str]:
        """Return the devices that a container was given for extended resources in its limits."""
        made = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
        requests = {
            mapping["requestName"]
            for mapping in made.get("requestMappings", ())
            if mapping["containerName"] == container["name"]
        }
        return [
            _device_id(result["driver"], result["pool"], result["device"])
            for result in _results(self.objects["claims"].get(made.get("resourceClaimName", ""), {}))
            if result["request"] in requests
        ]

    def _claims_by_pod(self) -> JsonObject:
        """Return the claims that each pod lists, as far as they exist."""
        claims = self.objects["claims"]
        return {
            pod: [
                claims[name]
                for entry in manifest["spec"].get("resourceClaims", ())
                if (name := _claim_name(manifest, entry["name"])) in claims
            ]
            for pod, manifest in self.pods.items()
        }

    def _accepts(self, wants: Mapping[str, list[JsonObject]]) -> JsonObject:
        samples = sample_devices(self.objects["slices"], self.samples)
        return {pod: find_accepted(wanted, self.objects["classes"], samples) for pod, wanted in wants.items()}

    def _devices(self) -> JsonObject:
        found = {}
        for piece in self.objects["slices"].values():
            spec = piece["spec"]
            driver, pool = spec["driver"], spec["pool"]["name"]
            for device in spec.get("devices", ()):
                attributes = device.get("attributes", {})
                found[_device_id(driver, pool, device["name"])] = {
                    "driver": driver,
                    "pool": pool,
                    "name": device["name"],
                    "attributes": {name: next(iter(value.values())) for name, value in attributes.items()},
                    "capacity": {name: one["value"] for name, one in device.get("capacity", {}).items()},
                }
        return found


async def look(client: Client, samples: Mapping[str, JsonObject] | None = None) -> World:
    """Return the current objects of the cluster, with the samples of the lesson.

    Raises:
        ApiError: the API server rejects a list.
    """
    found = await asyncio.gather(*(_list(client, name) for name in _LISTED))
    return World(dict(zip(_LISTED, found, strict=True)), samples or {})


async def _list(client: Client, name: str) -> dict[str, JsonObject]:
    resource = _LISTED[name]
    response = await client.raw("GET", resource.path(NAMESPACE if resource.namespaced else None))
    if response.status_code != 200:
        raise from_response(response.status_code, response.content)
    items: Iterable[JsonObject] = response.json()["items"]
    return {item["metadata"]["name"]: item for item in items}


def _list_wanted(claims: Iterable[JsonObject]) -> Iterable[JsonObject]:
    """Yield what the claims ask for: of each request ``exactly``, or each of its alternatives."""
    for claim in claims:
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            yield from [request["exactly"]] if "exactly" in request else request.get("firstAvailable", ())


def _claim_name(pod: JsonObject, entry: str) -> str:
    made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    for one in made:
        if one["name"] == entry:
            return str(one.get("resourceClaimName", ""))
    for one in pod["spec"].get("resourceClaims", ()):
        if one["name"] == entry:
            return str(one.get("resourceClaimName", ""))
    return ""


def _results(claim: JsonObject) -> list[JsonObject]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    found: list[JsonObject] = allocation.get("devices", {}).get("results") or []
    return found


def _device_id(driver: str, pool: str, name: str) -> str:
    return f"{driver}/{pool}/{name}"


def _at_rest(pod: JsonObject) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return _ran(pod) or _condition(pod, "PodScheduled") == "False"


def _ran(pod: JsonObject) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed") or _condition(pod, "Ready") == "True"


def _condition(pod: JsonObject, kind: str) -> str:
    for one in pod["status"].get("conditions") or ():
        if one["type"] == kind:
            return str(one["status"])
    return ""
