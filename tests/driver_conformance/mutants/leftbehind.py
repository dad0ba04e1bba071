"""Bugs that leave something behind: after claims that failed or were given up, or whose files and devices are lost."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import NVIDIA, Mutant
from tests.driver_conformance.servicers import Refused

_API = "/apis/resource.k8s.io/v1"
_DRANET = "https://github.com/google/dranet"
_HAMI = "https://github.com/Project-HAMi"
_ROCM = "https://github.com/ROCm/k8s-gpu-dra-driver"
_SWARMKIT = "https://github.com/moby/swarmkit"
_UPSTREAM = "https://github.com/kubernetes/kubernetes"


class ReservesBeforeItReads(Mutant):
    """Reserves the devices of a claim before it reads the configuration, and keeps them reserved if the
    configuration is rejected.
    """

    check = "prepare.half-failed"
    source = f"{NVIDIA}/issues/840 (a preparation that fails midway stays in the checkpoint)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        uid = claim["metadata"]["uid"]
        configs, claim["status"]["allocation"]["devices"]["config"] = (
            claim["status"]["allocation"]["devices"].get("config") or (),
            (),
        )
        ready = super().ready(claim)
        self.prepared[f"started-{uid}"] = ready
        self.color(configs)
        del self.prepared[f"started-{uid}"]
        claim["status"]["allocation"]["devices"]["config"] = configs
        return super().ready(claim)


class StartsAgain(Mutant):
    """Resets a claim to its first state when it is prepared again, so that it cannot be unprepared."""

    check = "unprepare.prepared-twice"
    source = f"{NVIDIA}/pull/754"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        self.again: set[str] = getattr(self, "again", set())
        if claim.uid in self.prepared:
            self.again.add(claim.uid)
        return await super().prepare_one(claim)

    async def unprepare_one(self, claim: Any) -> str:
        if claim.uid in getattr(self, "again", ()):
            return "the claim is in state PrepareStarted"
        return await super().unprepare_one(claim)


class NeedsItsFile(Mutant):
    """Fails to unprepare a claim whose CDI file is missing."""

    check = "unprepare.files-gone"
    source = f"{_UPSTREAM}/issues/141433 (CDI files are lost with a reboot, the checkpoint is not)"

    async def unprepare_one(self, claim: Any) -> str:
        if self.prepared.get(claim.uid) and not self.cdi_path(claim.uid).exists():
            return f"remove {self.cdi_path(claim.uid)}: no such file or directory"
        return await super().unprepare_one(claim)


class FinishesLate(Mutant):
    """Continues a preparation that the kubelet has given up, even after the claim was unprepared."""

    check = "unprepare.given-up"
    source = f"{NVIDIA}/issues/1162"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        self.late: list[asyncio.Task[list[JsonObject]]] = getattr(self, "late", [])
        task = asyncio.create_task(super().prepare_one(claim))
        self.late.append(task)
        return await asyncio.shield(task)


class HidesWhatIsInUse(Mutant):
    """Does not publish devices of prepared claims after a restart."""

    check = "slices.in-use"
    source = f"{_DRANET}/issues/97"

    def contents(self) -> list[JsonObject]:
        # Not as soon as a claim is prepared: otherwise it might be killed after deleting a slice and before
        # creating the next one.
        used = {device["device_name"] for devices in self.prepared.values() for device in devices}
        self.found: set[str] = getattr(self, "found", used)
        hidden = self.found & used
        return [
            {**one, "devices": [device for device in one["devices"] if device["name"] not in hidden]}
            if "devices" in one
            else one
            for one in super().contents()
        ]


class PublishesItsTemperature(Mutant):
    """Publishes a measurement as an attribute."""

    check = "slices.steady"
    source = f"{_DRANET}/pull/113 (attributes such as the state of an interface)"
    period = 0.02

    async def publish(self, owner: str) -> None:
        await super().publish(owner)
        heat = {"heat": {"int": int(time.monotonic() * 10)}}
        for one in await self.own_slices():
            device: JsonObject = next(iter(one["spec"].get("devices") or ()), {})
            if device.get("name") == "dev-0" and not heat.items() <= device["attributes"].items():
                device["attributes"] |= heat
                await self.send("PUT", f"{_API}/resourceslices/{one['metadata']['name']}", one)


class SameGeneration(Mutant):
    """Writes changed slices without a new generation."""

    check = "thousands.generation"
    source = f"{_UPSTREAM}/pull/127645"

    def slice(self, place: int, content: JsonObject, generation: int, count: int, owner: str) -> JsonObject:
        return super().slice(place, content, 1, count, owner)


class KeepsWhatIsMore(Mutant):
    """Does not delete slices that it no longer needs."""

    check = "thousands.shrunk"
    source = f"{_UPSTREAM}/pull/131581 (obsolete slices)"

    async def own_slices(self) -> list[JsonObject]:
        count = len(self.contents())
        return [one for one in await super().own_slices() if self.place(one) < count]


class MissesItsDevice(Mutant):
    """Does not start if its checkpoint names a device that no longer exists."""

    check = "thousands.lost"
    source = f"{_ROCM}/pull/78"

    def load(self) -> None:
        super().load()
        known = {device["name"] for device in self.devices()}
        for devices in self.prepared.values():
            if lost := [one["device_name"] for one in devices if one["device_name"] not in known]:
                raise ValueError(f"the checkpoint has {lost[0]}, which is not there")


class LooksItsDeviceUp(Mutant):
    """Looks the device of a claim up in order to unprepare it, and fails if the device no longer exists."""

    check = "thousands.lost"
    source = f"{_ROCM}/pull/78 (its review: the pod could not be deleted)"

    async def unprepare_one(self, claim: Any) -> str:
        known = {device["name"] for device in self.devices()}
        for device in self.prepared.get(claim.uid, ()):
            if device["device_name"] not in known:
                return f"device {device['device_name']} not found"
        return await super().unprepare_one(claim)


class WaitsForItsStreams(Mutant):
    """Exits only after all calls have ended, which a health stream never does."""

    check = "process.ends"
    source = f"{_SWARMKIT}/issues/2307 (GracefulStop waits for a stream)"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.open = 0

    async def reports(self) -> AsyncIterator[list[Any]]:
        self.open += 1
        try:
            async for report in super().reports():
                yield report
        finally:
            self.open -= 1

    async def stop(self) -> int | None:
        return None if self.open else await super().stop()


class StreamsStay(Mutant):
    """Keeps the thread of a health stream that the kubelet has closed."""

    check = "health.closed"
    source = f"{_HAMI}/ascend-device-plugin/issues/125"

    async def reports(self) -> AsyncIterator[list[Any]]:
        self.threads += 1
        async for report in super().reports():
            yield report


class OneBadClaim(Mutant):
    """Prepares no claims with configuration after one that it cannot read, and later no claims at all."""

    check = "process.stuck"
    source = f"{NVIDIA}/issues/1278 (a device stays with a claim that is gone)"
    broken = False

    def color(self, configs: Sequence[JsonObject]) -> str:
        if self.broken:
            raise Refused("the decoder is broken")
        for config in configs:
            self.broken = isinstance(config["opaque"]["parameters"].get("color", ""), (int, list, dict))
        return super().color(configs)


class NeverReleases(Mutant):
    """Keeps the devices of unprepared claims in its checkpoint."""

    check = "prepare.released"
    source = f"{NVIDIA}/issues/1162 (a device is already allocated to a claim that is gone)"

    async def unprepare_one(self, claim: Any) -> str:
        async with self.lock:
            self.remove_cdi(claim.uid)
            self.forget(claim)
        return ""


MUTANTS: Sequence[type[Mutant]] = [
    NeverReleases,
    ReservesBeforeItReads,
    StartsAgain,
    NeedsItsFile,
    FinishesLate,
    HidesWhatIsInUse,
    PublishesItsTemperature,
    SameGeneration,
    KeepsWhatIsMore,
    MissesItsDevice,
    LooksItsDeviceUp,
    WaitsForItsStreams,
    StreamsStay,
    OneBadClaim,
]
