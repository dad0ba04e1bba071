"""Bugs of ResourceSlices and permissions."""

import contextlib
from collections.abc import Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, NVIDIA, ROCM, Mutant

_API = "/apis/resource.k8s.io/v1"


class PublishesOnce(Mutant):
    """Publishes its slices at its start, and never checks them again."""

    check = "slices.restored"
    source = f"{NVIDIA}/issues/330"

    async def publish(self, owner: str) -> None:
        if not getattr(self, "done", False):
            await super().publish(owner)
            self.done = True


class RepublishesAlways(Mutant):
    """Writes its slices again and again although nothing has changed."""

    check = "slices.quiet"
    source = f"{KUBERNETES}/pull/131581; https://github.com/google/dranet/pull/253"

    async def publish(self, owner: str) -> None:
        await super().publish(owner)
        for one in await self.own_slices():
            await self.send("PUT", f"{_API}/resourceslices/{one['metadata']['name']}", one)


class DeletesAtExit(Mutant):
    """Deletes its slices when it exits."""

    check = "slices.stay-at-exit"
    source = f"{EXAMPLE}/pull/68"

    async def stop(self) -> int | None:
        code = await super().stop()
        for one in await self.own_slices():
            await self.send("DELETE", f"{_API}/resourceslices/{one['metadata']['name']}")
        return code


class AgainAtStart(Mutant):
    """Deletes its slices at each start and creates them again."""

    check = "slices.kept-over-restart"
    source = f"{KUBERNETES}/pull/131581 (delete and recreate)"

    async def start(self) -> None:
        for one in await self.own_slices():
            await self.send("DELETE", f"{_API}/resourceslices/{one['metadata']['name']}")
        await super().start()


class OnePool(Mutant):
    """Uses the same pool name on every node."""

    check = "slices.pool-names"
    source = "https://github.com/cilium/cilium/issues/48923"

    def slice(self, place: int, content: JsonObject, generation: int, count: int, owner: str) -> JsonObject:
        found = super().slice(place, content, generation, count, owner)
        found["spec"]["pool"]["name"] = "pool"
        return found

    def health(self, device: str) -> Any:
        found = super().health(device)
        found.device.pool_name = "pool"
        return found


class NoOwner(Mutant):
    """Creates slices without an owner, because it does not know the node's UID."""

    check = "slices.owner"
    source = (
        "https://github.com/rh-ecosystem-edge/kernel-module-management/pull/1840 (nodes are read for the UID)"
    )

    def slice(self, place: int, content: JsonObject, generation: int, count: int, owner: str) -> JsonObject:
        found = super().slice(place, content, generation, count, owner)
        del found["metadata"]["ownerReferences"]
        return found


class OwnPcieRoot(Mutant):
    """Publishes the PCIe root under a name of its own."""

    check = "slices.standard-names"
    source = "https://github.com/intel/intel-resource-drivers-for-kubernetes/issues/60"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        found[0]["attributes"] = {"pciRoot": {"string": "pci0000:64"}}
        return found


class OddBusId(Mutant):
    """Publishes the PCI address in another form than other drivers."""

    check = "slices.standard-attributes"
    source = f"{KUBERNETES}/issues/134569"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        found[0]["attributes"] = {"resource.kubernetes.io/pciBusID": {"string": "65:00.0"}}
        return found


class KubernetesDomain(Mutant):
    """Publishes its own attributes in Kubernetes' domain."""

    check = "slices.reserved-attributes"
    source = f"{KUBERNETES}/issues/134569 (a name that drivers used before it was a standard)"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        found[0]["attributes"] = {"resource.kubernetes.io/pciAddress": {"string": "0000:65:00.0"}}
        return found


class RepeatsItsDomain(Mutant):
    """Publishes an attribute with the driver's own domain in its name."""

    check = "slices.short-names"
    source = f"{CPU}/issues/327"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        found[0]["attributes"] = {f"{self.name}/model": {"string": "T4"}}
        return found


class SpellsTwice(Mutant):
    """Publishes a capacity with and without the driver's domain, with different values."""

    check = "slices.one-spelling"
    source = f"{KUBERNETES}/pull/142218"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        found[0]["capacity"] = {"memory": {"value": "1"}, f"{self.name}/memory": {"value": "2"}}
        return found


class MisspeltCounter(Mutant):
    """Publishes a device that consumes a counter that the pool does not have."""

    check = "counters.defined"
    source = (
        "https://github.com/kubernetes/enhancements/pull/5515 (references are not validated at admission)"
    )

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        part = next(one for one in found if one["name"] == "part-1")
        part["consumesCounters"] = [{"counterSet": "board", "counters": {"unit": {"value": "2"}}}]
        return found


class TooLarge(Mutant):
    """Publishes a device that consumes more of a counter than exists."""

    check = "counters.fit"
    source = "https://github.com/kubernetes/enhancements/pull/5515"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        part = next(one for one in found if one["name"] == "whole")
        part["consumesCounters"][0]["counters"]["units"]["value"] = "8"
        return found


class BareTaint(Mutant):
    """Publishes a taint whose key has no domain."""

    check = "taints.keys"
    source = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5055-dra-device-taints-and-tolerations"

    def devices(self) -> list[JsonObject]:
        found = super().devices()
        found[-1]["taints"][0]["key"] = "worn"
        return found


class NeedsMore(Mutant):
    """Lists the nodes, which its role does not allow."""

    check = "permissions.granted"
    source = "https://github.com/rh-ecosystem-edge/kernel-module-management/pull/1840"

    async def start(self) -> None:
        with contextlib.suppress(RuntimeError):
            await self.get("/api/v1/nodes")
        await super().start()


class SeesAllSlices(Mutant):
    """Lists the slices of all nodes and drivers."""

    check = "permissions.slices-of-its-node"
    source = f"{KUBERNETES}/pull/125488 (drivers see the slices of their node)"

    async def own_slices(self) -> list[JsonObject]:
        listed = await self.get(f"{_API}/resourceslices")
        return [
            one
            for one in listed["items"]
            if one["spec"]["driver"] == self.name and one["spec"].get("nodeName") == self.node
        ]


class TakesOthers(Mutant):
    """Deletes slices of its driver on other nodes, because it does not know those nodes."""

    check = "slices.others-kept"
    source = f"{KUBERNETES}/pull/125163 (write access to the slices of all nodes)"

    async def own_slices(self) -> list[JsonObject]:
        found = await self.get(f"{_API}/resourceslices?fieldSelector=spec.driver%3D{self.name}")
        return list(found["items"])


class CountsTooFew(Mutant):
    """Writes its slices one by one, and counts in each only those that were written so far."""

    check = "slices.published"
    source = f"{KUBERNETES}/pull/127645 (pools that seem complete)"

    def slice(self, place: int, content: JsonObject, generation: int, count: int, owner: str) -> JsonObject:
        return super().slice(place, content, generation, place + 1, owner)

    def is_current(self, found: JsonObject, contents: Sequence[JsonObject]) -> bool:
        place = self.place(found)
        return 0 <= place < len(contents) and self.same(found["spec"], contents[place])


class CountsOne(CountsTooFew):
    """Writes in each slice that it is the only one of its pool."""

    def slice(self, place: int, content: JsonObject, generation: int, count: int, owner: str) -> JsonObject:
        return Mutant.slice(self, place, content, generation, 1, owner)


class NamesByPlace(Mutant):
    """Names its devices in the order in which it finds them, which differs at each start."""

    check = "slices.same-devices"
    source = f"{ROCM}/issues/83; {NVIDIA}/issues/427"

    def devices(self) -> list[JsonObject]:
        self.start_number: int = getattr(self, "start_number", None) or self.count_start()
        return [
            {
                **one,
                "attributes": {
                    **one.get("attributes", {}),
                    "serial": {"string": f"S{self.start_number + place}"},
                },
            }
            for place, one in enumerate(one for one in super().devices() if "taints" not in one)
        ]

    def count_start(self) -> int:
        """Count the start. A second instance of the driver counts the same."""
        file = self.plugins / "starts"
        known = int(file.read_text()) if file.exists() else 0
        file.write_text(str(known + (self.socket.name == "dra-0.sock")))
        return int(file.read_text())


MUTANTS = (
    PublishesOnce,
    RepublishesAlways,
    DeletesAtExit,
    AgainAtStart,
    OnePool,
    NoOwner,
    OwnPcieRoot,
    OddBusId,
    KubernetesDomain,
    RepeatsItsDomain,
    SpellsTwice,
    MisspeltCounter,
    TooLarge,
    BareTaint,
    NeedsMore,
    SeesAllSlices,
    TakesOthers,
    CountsTooFew,
    CountsOne,
    NamesByPlace,
)
