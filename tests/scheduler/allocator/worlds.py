"""Small random worlds for the allocator in which searches often fail, with selectors that need no CEL."""

import random
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from dra_scheduler.allocator import AllocatedState, Allocator, Features, PoolDevice
from dra_shared.api.codec import convert
from dra_shared.api.node import Node
from dra_shared.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject

DRIVERS = ("a.example.com", "b.example.com")


class Comparison:
    """A selector ``attribute=value``, or ``true``. It fails for a device without the attribute, as CEL does."""

    def __init__(self, text: str) -> None:
        self.attribute, _, self.value = text.partition("=")

    @property
    def attributes_read(self) -> Set[tuple[str | None, str]] | None:
        return frozenset() if self.attribute == "true" else frozenset({(None, self.attribute)})

    @property
    def capacity_read(self) -> Set[tuple[str | None, str]] | None:
        return frozenset()

    def verdict(self, device: PoolDevice) -> bool | str:
        if self.attribute == "true":
            return True
        attribute = device.spec.attributes.get(self.attribute)
        if attribute is None:
            return f"CEL runtime error: no such key: {self.attribute}"
        return attribute.string == self.value


def node(name: str = "n0", **labels: str) -> Node:
    return convert(NODES, {"metadata": {"name": name, "labels": {"name": name, **labels}}})


def device_class(name: str = "any", selector: str = "true") -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": selector}}]}
    return convert(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": spec})


def slice_of(name: str, devices: list[JsonObject], **spec: Any) -> ResourceSlice:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
    if not {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(spec):
        spec["nodeName"] = "n0"
    body = {"driver": DRIVERS[0], "devices": devices, **spec, "pool": pool}
    return convert(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": body})


def claim_of(
    requests: list[JsonObject], name: str = "c0", constraints: list[JsonObject] | None = None, **devices: Any
) -> ResourceClaim:
    spec = {"devices": {"requests": requests, "constraints": constraints or [], **devices}}
    return convert(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def exactly(name: str = "r0", count: int = 1, **fields: Any) -> JsonObject:
    body = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count, **fields}
    if body["allocationMode"] == "All":
        del body["count"]
    return {"name": name, "exactly": body}


def selector(text: str) -> list[JsonObject]:
    return [{"cel": {"expression": text}}]


@dataclass
class World:
    """Input of an allocation."""

    features: Features = field(default_factory=Features.all)
    node: Node = field(default_factory=node)
    classes: dict[str, DeviceClass] = field(default_factory=lambda: {"any": device_class()})
    slices: list[ResourceSlice] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)
    state: AllocatedState = field(default_factory=AllocatedState)

    def allocator(self) -> Allocator:
        return Allocator(self.features, self.state, self.classes, self.slices, compile=Comparison)


def random_world(seed: int) -> World:
    """Return the world with that number. Equal numbers give equal worlds."""
    return _Maker(random.Random(seed)).world()


class _Maker:
    def __init__(self, source: random.Random) -> None:
        self._random = source
        # Some worlds have hardly any errors that stop the search, in some all devices are equal, and some
        # have none of the newer features.
        self.errors = source.random() < 0.2
        self.lists = source.random() < 0.5
        self.counters = source.random() < 0.5
        self.sharing = source.random() < 0.4
        self.values = source.choice((1, 2, 3))

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def world(self) -> World:
        slices: list[ResourceSlice] = []
        for number in range(self._random.randint(1, 2)):
            slices.extend(self.pool(number))
        world = World(slices=slices, claims=[self.claim(i) for i in range(self._random.randint(1, 2))])
        if self.chance(0.15):
            names = ("admin_access", "device_taints", "prioritized_list")
            gates: dict[str, Any] = {name: self.chance(0.5) for name in names}
            world.features = Features(
                consumable_capacity=self.chance(0.5),
                device_binding=self.chance(0.5),
                list_type_attributes=self.lists,
                partitionable_devices=self.chance(0.5),
                **gates,
            )
        used = [device for piece in slices for device in piece.spec.devices if self.chance(0.1)]
        for device in used:
            owner = next(piece for piece in slices if device in piece.spec.devices)
            allocation = {
                "devices": {
                    "results": [
                        {
                            "request": "r",
                            "driver": owner.spec.driver,
                            "pool": owner.spec.pool.name,
                            "device": device.name,
                            **(
                                {"shareID": "s", "consumedCapacity": {"memory": "1"}}
                                if device.allow_multiple_allocations and self.chance(0.7)
                                else {}
                            ),
                        }
                    ]
                }
            }
            holder = {
                "metadata": {"name": f"holder-{device.name}", "namespace": "default"},
                "status": {"allocation": allocation},
            }
            world.state.add(convert(RESOURCE_CLAIMS, holder))
        return world

    def pool(self, number: int) -> list[ResourceSlice]:
        counted = self.counters and self.chance(0.7)
        devices = [self.device(number, i, counted) for i in range(self._random.randint(2, 7))]
        spec: JsonObject = {"driver": DRIVERS[number], "pool": {"name": self._random.choice("pq")}}
        if not counted:
            return [slice_of(f"s{number}", devices, **spec)]
        spec["pool"]["resourceSliceCount"] = 2
        sets = [
            {"name": f"set{i}", "counters": {"units": {"value": str(self._random.randint(1, 4))}}}
            for i in range(2)
        ]
        return [
            slice_of(f"s{number}a", [], sharedCounters=sets, **spec),
            slice_of(f"s{number}b", devices, **spec),
        ]

    def device(self, pool: int, number: int, counted: bool) -> JsonObject:
        value = self._random.choice("xyz"[: self.values])
        attributes: JsonObject = {"kind": {"string": value}, "id": {"string": f"{pool}-{number}"}}
        if self.errors and self.chance(0.2):
            del attributes["kind"]
        shared = self._random.choice("xyz")
        attributes["shared.example.com/tag"] = (
            {"strings": sorted({shared, self._random.choice("xyz")})} if self.lists else {"string": shared}
        )
        found: JsonObject = {"name": f"d{pool}{number}", "attributes": attributes}
        if self.chance(0.2):
            found["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
        if self.chance(0.1):
            found["bindingConditions"] = ["example.com/ready"]
        if counted and self.chance(0.8):
            found["consumesCounters"] = [
                {
                    "counterSet": f"set{self._random.randint(0, 1)}",
                    "counters": {"units": {"value": str(self._random.randint(1, 2))}},
                }
            ]
        if self.sharing and self.chance(0.6):
            found["allowMultipleAllocations"] = True
            if self.chance(0.9):
                found["capacity"] = {"memory": {"value": str(self._random.randint(1, 4))}}
                found["capacity"]["memory"]["requestPolicy"] = {"default": "1"}
        return found

    def claim(self, number: int) -> ResourceClaim:
        requests = [self.request(f"r{i}") for i in range(self._random.choice((1, 1, 2, 2, 3, 4)))]
        constraints: list[JsonObject] = []
        for _ in range(self._random.choice((0, 0, 1, 1, 2))):
            kind = self._random.choice(("matchAttribute", "distinctAttribute"))
            name = self._random.choice(
                ("a.example.com/kind", "shared.example.com/tag", "shared.example.com/tag")
            )
            constraint: JsonObject = {kind: name}
            if self.chance(0.3):
                constraint["requests"] = [item["name"] for item in requests[:2]]
            constraints.append(constraint)
        return claim_of(requests, f"c{number}", constraints)

    def request(self, name: str) -> JsonObject:
        if self.chance(0.25):
            options = [self.body() for _ in range(self._random.randint(1, 3))]
            for index, option in enumerate(options):
                option.pop("adminAccess", None)
                option["name"] = f"o{index}"
            return {"name": name, "firstAvailable": options}
        return {"name": name, "exactly": self.body()}

    def body(self) -> JsonObject:
        found: JsonObject = {"deviceClassName": "any", "allocationMode": "ExactCount"}
        if self.chance(0.12):
            found["allocationMode"] = "All"
        else:
            found["count"] = 20 if self.chance(0.03) else self._random.choice((1, 1, 1, 1, 2, 3))
        if self.chance(0.35):
            found["selectors"] = selector(f"kind={self._random.choice('xyz'[: self.values])}")
        if self.chance(0.3):
            found["tolerations"] = [{"key": "sick", "operator": "Exists"}]
        if self.chance(0.08):
            found["adminAccess"] = True
        if self.sharing and self.chance(0.3):
            found["capacity"] = {"requests": {"memory": str(self._random.randint(1, 3))}}
        return found
