"""Claims that the suite creates and allocates, and their devices."""

import itertools
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dra_driverkit.proto import dra_v1_pb2
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

from dra_conformance.world import NAMESPACE, RESOURCE, World


@dataclass(frozen=True)
class Device:
    """A device in one of the driver's slices."""

    driver: str
    pool: str
    spec: JsonObject

    @property
    def name(self) -> str:
        """The device's name, unique in its pool."""
        return str(self.spec["name"])

    @property
    def key(self) -> tuple[str, str]:
        """The device's pool and name."""
        return self.pool, self.name

    @property
    def is_shared(self) -> bool:
        """True if several claims may have the device at a time."""
        return bool(self.spec.get("allowMultipleAllocations"))


@dataclass(frozen=True)
class Result:
    """An allocation result: a device for a request of a claim."""

    device: Device
    request: str = "r0"
    admin: bool = False
    amounts: Mapping[str, str] = field(default_factory=dict)
    """The share's consumption of capacities, if it is not the default."""

    def to_json(self) -> JsonObject:
        """Return the result as in ``status.allocation.devices.results``."""
        spec = self.device.spec
        found: JsonObject = {
            "request": self.request,
            "driver": self.device.driver,
            "pool": self.device.pool,
            "device": self.device.name,
        }
        if self.admin:
            found["adminAccess"] = True
        elif self.device.is_shared:
            found["shareID"] = str(uuid.uuid4())
            consumed = {
                name: self.amounts.get(name) or default_consumption(capacity)
                for name, capacity in spec.get("capacity", {}).items()
            }
            if consumed:
                found["consumedCapacity"] = consumed
        for conditions in ("bindingConditions", "bindingFailureConditions"):
            if spec.get(conditions):
                found[conditions] = spec[conditions]
        return found


@dataclass(frozen=True)
class Claim:
    """A claim in the API server."""

    name: str
    uid: str
    results: tuple[JsonObject, ...] = ()
    namespace: str = NAMESPACE

    @property
    def message(self) -> Any:
        """The claim in the kubelet's calls to drivers."""
        return dra_v1_pb2.Claim(namespace=self.namespace, uid=self.uid, name=self.name)

    def of(self, driver: str) -> list[JsonObject]:
        """Return the results that belong to the driver."""
        return [one for one in self.results if one["driver"] == driver]


class Claims:
    """Creates, allocates and deletes claims."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)

    async def make(
        self,
        results: Sequence[Result],
        config: Sequence[JsonObject] = (),
        *,
        name: str = "",
        allocate: bool = True,
        annotations: Mapping[str, str] | None = None,
        namespace: str = NAMESPACE,
    ) -> Claim:
        """Create a claim. With ``allocate``, also allocate the devices and reserve the claim for a pod."""
        name = name or f"claim-{next(self._numbers)}"
        body = {
            "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
            "spec": {"devices": {"requests": _requests(results, config)}},
        }
        made = await self._world.write("POST", _path(namespace), body)
        claim = Claim(name, made["metadata"]["uid"], namespace=namespace)
        return await self.allocate(claim, results, config) if allocate else claim

    async def allocate(
        self, claim: Claim, results: Sequence[Result], config: Sequence[JsonObject] = ()
    ) -> Claim:
        """Allocate the devices to the claim and reserve it for a pod. An existing allocation is replaced."""
        current = await self._world.read(_path(claim.namespace, claim.name))
        if current.get("status", {}).get("allocation"):
            current["status"] = {}
            current = await self._world.write("PUT", _path(claim.namespace, claim.name, "status"), current)
        devices: JsonObject = {"results": [result.to_json() for result in results]}
        if config:
            devices["config"] = list(config)
        pod = {"resource": "pods", "name": f"pod-of-{claim.name}"[:253], "uid": str(uuid.uuid4())}
        # The node selector tells the API server the node whose driver may write status.devices.
        here = {"key": "metadata.name", "operator": "In", "values": [self._world.node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [here]}]}
        allocation = {"devices": devices, "nodeSelector": selector}
        current["status"] = {"allocation": allocation, "reservedFor": [pod]}
        await self._world.write("PUT", _path(claim.namespace, claim.name, "status"), current)
        return replace(claim, results=tuple(devices["results"]))

    async def delete(self, claim: Claim) -> None:
        """Deallocate and delete the claim, as the claim controller does after its pod has ended."""
        current = await self._world.read(_path(claim.namespace, claim.name))
        if current.get("status"):
            current["status"] = {}
            current = await self._world.write("PUT", _path(claim.namespace, claim.name, "status"), current)
        await self._world.write("DELETE", _path(claim.namespace, claim.name))


def config(
    driver: str, parameters: Any, requests: Sequence[str] = (), source: str = "FromClaim"
) -> JsonObject:
    """Return a configuration entry of an allocation."""
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": driver, "parameters": parameters},
    }


def devices_of(slices: Iterable[JsonObject]) -> list[Device]:
    """Return the devices in the newest generation of each pool, in the order of their slices."""
    newest: dict[str, int] = {}
    known = sorted(slices, key=lambda one: str(one["metadata"]["name"]))
    for one in known:
        pool = one["spec"]["pool"]
        newest[pool["name"]] = max(newest.get(pool["name"], 0), pool.get("generation", 0))
    return [
        Device(one["spec"]["driver"], one["spec"]["pool"]["name"], device)
        for one in known
        if one["spec"]["pool"].get("generation", 0) == newest[one["spec"]["pool"]["name"]]
        for device in one["spec"].get("devices") or ()
    ]


def allocatable_together(
    devices: Sequence[Device], counters: Mapping[tuple[str, str, str], Quantity]
) -> list[Device]:
    """Return devices that can be allocated at the same time; earlier devices take precedence.

    ``counters`` has the capacity of each counter, by pool, counter set and name.
    """
    left = dict(counters)
    found = []
    for device in devices:
        wanted = [
            ((device.pool, part["counterSet"], name), Quantity.parse(counter["value"]))
            for part in device.spec.get("consumesCounters") or ()
            for name, counter in part["counters"].items()
        ]
        if all(key in left and not left[key] < value for key, value in wanted):
            for key, value in wanted:
                left[key] = left[key].sub(value)
            found.append(device)
    return found


def _requests(results: Sequence[Result], configs: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the requests of a claim with these results.

    A result for ``r0/large`` makes a request with alternatives: ``large``, and those that the configs name.
    """
    found: dict[str, JsonObject] = {}
    named = [name for one in configs for name in one["requests"]]
    counts = Counter(result.request for result in results)
    for result in results:
        main, slash, sub = result.request.partition("/")
        exactly: JsonObject = {"deviceClassName": NAMESPACE, "count": counts[result.request]}
        if result.admin:
            exactly["adminAccess"] = True
        if slash:
            others = [name.removeprefix(f"{main}/") for name in named if name.startswith(f"{main}/")]
            found[main] = {
                "name": main,
                "firstAvailable": [
                    {"name": name, "deviceClassName": NAMESPACE} for name in dict.fromkeys([sub, *others])
                ],
            }
        else:
            found[main] = {"name": main, "exactly": exactly}
    return list(found.values())


def default_consumption(capacity: JsonObject) -> str:
    """Return the amount that a share consumes if its request does not specify an amount."""
    policy = capacity.get("requestPolicy") or {}
    return str(policy.get("default") or capacity["value"])


def _path(namespace: str, name: str = "", subresource: str = "") -> str:
    parts = [RESOURCE, "namespaces", namespace, "resourceclaims", name, subresource]
    return "/".join(part for part in parts if part)
