"""The fleet of a report: its devices by model and node, their holders before and after an answer, and its cost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dra_shared.api.resource import Device
from dra_shared.api.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES

from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.prices import price_of
from dra_scheduler.plan.weights import Weights, text_attribute

SEVERAL = "several nodes"
"""The place of devices that belong to no node."""


@dataclass(frozen=True)
class Slot:
    """A device, partition or share. ``part`` is the fraction of the whole device. The holders are pods or claims."""

    device: str
    part: float
    before: str = ""
    after: str = ""

    @property
    def kind(self) -> str:
        """The CSS class of the slot."""
        if self.after:
            return "used" if self.before == self.after else "new"
        return "left" if self.before else "free"


@dataclass(frozen=True)
class Unit:
    """A whole device with its slots: itself, or its partitions.

    ``node`` is empty if several nodes can reach the device.
    """

    node: str
    name: str
    model: str
    slots: tuple[Slot, ...]

    def count(self, *kinds: str) -> float:
        """Return the fraction of the whole device that slots of these kinds make up."""
        return min(1.0, sum(slot.part for slot in self.slots if slot.kind in kinds))


class Fleet:
    """The units of a world. ``after`` has the holders of devices according to an answer, by ``driver/pool/device``."""

    def __init__(self, objects: Objects, after: Mapping[str, str]) -> None:
        self._objects = objects
        self._after = after
        self._weights = Weights(objects.of(RESOURCE_SLICES).values())
        self._before = holders(objects)
        self.units = list(self._find_units())

    def models(self) -> dict[str, list[Unit]]:
        """Return the units of each model, the most frequent model first."""
        found: dict[str, list[Unit]] = {}
        for unit in self.units:
            found.setdefault(unit.model, []).append(unit)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def nodes(self) -> dict[str, list[Unit]]:
        """Return the units of each node. Devices that several nodes can reach come last."""
        found: dict[str, list[Unit]] = {name: [] for name in self._objects.of(NODES)}
        for unit in self.units:
            found.setdefault(unit.node or SEVERAL, []).append(unit)
        return found

    def prices(self) -> dict[str, float]:
        """Return the prices of the nodes that have one."""
        found = ((name, price_of(node)) for name, node in self._objects.of(NODES).items())
        return {name: price for name, price in found if price is not None}

    def _find_units(self) -> Iterator[Unit]:
        groups: dict[tuple[str, str, str], list[tuple[str, Device]]] = {}
        nodes: dict[tuple[str, str, str], str] = {}
        for piece in self._objects.of(RESOURCE_SLICES).values():
            driver, pool = piece.spec.driver, piece.spec.pool.name
            for device in piece.spec.devices:
                key = driver, pool, _unit_of(driver, device)
                groups.setdefault(key, []).append((f"{driver}/{pool}/{device.name}", device))
                nodes[key] = piece.spec.node_name or ""
        for key, devices in groups.items():
            driver, pool, name = key
            slots, model = [], driver
            for path, device in devices:
                part, model = self._weights.device(driver, pool, device.name) or (1.0, driver)
                if len(devices) > 1 and not device.consumes_counters:
                    # Static partitions publish no counters of their whole device.
                    part, model = (
                        1 / len(devices),
                        model.removesuffix(f" {text_attribute(driver, device, 'profile')}"),
                    )
                before, after = self._before.get(path, ""), self._after.get(path, "")
                if before or after or len(devices) == 1 or not device.consumes_counters:
                    slots.append(Slot(path, part, before, after))
            yield Unit(nodes[key], name.removesuffix("-counter-set"), model, tuple(slots))


def holders(objects: Objects) -> dict[str, str]:
    """Return the claim that holds each device, by ``driver/pool/device``."""
    return {
        f"{result.driver}/{result.pool}/{result.device}": claim.key
        for claim in objects.of(RESOURCE_CLAIMS).values()
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if not result.admin_access
    }


def _unit_of(driver: str, device: Device) -> str:
    """Return the name of the whole device that the device is, or belongs to."""
    if device.consumes_counters:
        return device.consumes_counters[0].counter_set
    return text_attribute(driver, device, "parentUUID") or device.name
