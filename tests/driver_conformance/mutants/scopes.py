"""Bugs of scope: configuration, edits, reports or state apply to more or fewer devices than they should."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, NVIDIA, Mutant

_GRPC = "https://github.com/grpc/grpc"
_CDI = "https://github.com/cncf-tags/container-device-interface"
_UNHEALTHY = 2


class PrefixOfRequests(Mutant):
    """Applies the configuration of r1 to r10 too, because it compares only the beginning of names."""

    check = "config.requests"
    source = f"{KUBERNETES}/pull/135098 (configuration of the wrong request)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        wide = [
            {**one, "requests": [request] if any(map(request.startswith, one["requests"])) else ["none"]}
            if one.get("requests")
            else one
            for one in configs
        ]
        return super().configs_of(wide, request)


class AnyAlternative(Mutant):
    """Applies the configuration of one alternative to all alternatives of the request."""

    check = "config.alternatives"
    source = f"{EXAMPLE}/pull/257 (not for a sibling request)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        wide = [
            {**one, "requests": [name.partition("/")[0] for name in one.get("requests") or ()]}
            for one in configs
        ]
        return super().configs_of(wide, request)


class WholeRequestsAlone(Mutant):
    """Ignores the configuration of an alternative, because it only looks for whole requests."""

    check = "config.alternatives"
    source = f"{CPU}/pull/278 (configs for selected subrequests)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        return super().configs_of(configs, request.partition("/")[0])


class NodesOfTheFile(Mutant):
    """Adds the device nodes of all devices to the edits of the whole CDI file, so that each device brings all of
    them.
    """

    check = "cdi.by-request"
    source = f"{_CDI}/blob/main/SPEC.md (edits of the file)"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().spec(uid, devices)
        nodes = [one for device in found["devices"] for one in device["containerEdits"].pop("deviceNodes")]
        return {**found, "containerEdits": {"deviceNodes": nodes}}


class EnvironmentOfTheFile(Mutant):
    """Adds the variables of all devices to the edits of the whole CDI file, so that each container of the claim
    gets them.
    """

    check = "cdi.by-request"
    source = f"{_CDI}/pull/21 (what is made where any device of the file is asked for)"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().spec(uid, devices)
        env = [text for device in found["devices"] for text in device["containerEdits"].pop("env")]
        return {**found, "containerEdits": {"env": env}}


class EnvironmentOfTheFirst(Mutant):
    """Adds the variables of the first request to the edits of the whole CDI file."""

    check = "cdi.by-request"
    source = f"{_CDI}/issues/41 (variables of several devices)"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().spec(uid, devices)
        return {**found, "containerEdits": {"env": found["devices"][0]["containerEdits"].pop("env")}}


class LaterReportsAreShort(Mutant):
    """Reports every device first, and only the first device in later reports."""

    check = "health.again"
    source = f"{KUBERNETES}/pull/130606 (each device has a timeout of its own)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        shown = len(self.devices())
        async for found in super().reports():
            yield found[:shown]
            shown = 1

    def health(self, device: str) -> Any:
        found = super().health(device)
        found.health_check_timeout_seconds = 1
        return found


class OnlyFree(Mutant):
    """Omits devices of prepared claims from its health reports."""

    check = "health.in-use"
    source = f"{KUBERNETES}/pull/130606 (the health of devices that pods have)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        async for found in super().reports():
            yield [one for one in found if not self.is_held(one.device.device_name)]

    def is_held(self, name: str) -> bool:
        return any(name == one["device_name"] for devices in self.prepared.values() for one in devices)


class BusyIsUnhealthy(OnlyFree):
    """Reports devices of prepared claims as unhealthy, so that no other claim gets them."""

    source = f"{CPU}/pull/249 (what makes a device unhealthy)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        async for found in Mutant.reports(self):
            for one in found:
                if self.is_held(one.device.device_name):
                    one.health = _UNHEALTHY
            yield found


class OneWorker(Mutant):
    """Serves with one thread, which an open health stream occupies."""

    check = "health.meanwhile"
    source = f"{_GRPC}/issues/8616 (pools of threads that are full)"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.streams = 0
        self.idle = asyncio.Event()
        self.idle.set()

    async def reports(self) -> AsyncIterator[list[Any]]:
        self.streams += 1
        self.idle.clear()
        try:
            async for found in super().reports():
                yield found
        finally:
            self.streams -= 1
            if not self.streams:
                self.idle.set()

    async def prepare(self, claims: Sequence[Any]) -> dict[str, list[JsonObject] | str]:
        await self.idle.wait()
        return await super().prepare(claims)


class SavesWhatItPrepares(Mutant):
    """Writes its checkpoint when a claim is prepared, but not when it is unprepared."""

    check = "unprepare.remembered"
    source = f"{NVIDIA}/issues/840 (entries of the checkpoint that stay)"

    async def unprepare_one(self, claim: Any) -> str:
        before = self.checkpoint.read_bytes() if self.checkpoint.exists() else None
        found = await super().unprepare_one(claim)
        if before is not None:
            self.write_checkpoint(before)
        return found


MUTANTS = (
    PrefixOfRequests,
    AnyAlternative,
    WholeRequestsAlone,
    NodesOfTheFile,
    EnvironmentOfTheFile,
    EnvironmentOfTheFirst,
    LaterReportsAreShort,
    OnlyFree,
    BusyIsUnhealthy,
    OneWorker,
    SavesWhatItPrepares,
)
