"""Bugs of scope: configuration, edits, reports and state that reach more or less than they are for."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, NVIDIA, Mutant

_GRPC = "https://github.com/grpc/grpc"
_CDI = "https://github.com/cncf-tags/container-device-interface"
_UNHEALTHY = 2


class PrefixOfRequests(Mutant):
    """Configuration for r1 counts for r10, too: names are compared by their beginning."""

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
    """Configuration for one alternative of a request counts for all of them."""

    check = "config.alternatives"
    source = f"{EXAMPLE}/pull/257 (not for a sibling request)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        wide = [
            {**one, "requests": [name.partition("/")[0] for name in one.get("requests") or ()]}
            for one in configs
        ]
        return super().configs_of(wide, request)


class WholeRequestsAlone(Mutant):
    """Configuration for an alternative counts for none: only whole requests are looked for."""

    check = "config.alternatives"
    source = f"{CPU}/pull/278 (configs for selected subrequests)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        return super().configs_of(configs, request.partition("/")[0])


class NodesOfTheFile(Mutant):
    """The device nodes of all devices are edits of the whole CDI file, which each device comes with."""

    check = "cdi.by-request"
    source = f"{_CDI}/blob/main/SPEC.md (edits of the file)"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().spec(uid, devices)
        nodes = [one for device in found["devices"] for one in device["containerEdits"].pop("deviceNodes")]
        return {**found, "containerEdits": {"deviceNodes": nodes}}


class EnvironmentOfTheFile(Mutant):
    """The variables of all devices are edits of the whole CDI file: each container of the claim gets them."""

    check = "cdi.by-request"
    source = f"{_CDI}/pull/21 (what is made where any device of the file is asked for)"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().spec(uid, devices)
        env = [text for device in found["devices"] for text in device["containerEdits"].pop("env")]
        return {**found, "containerEdits": {"env": env}}


class EnvironmentOfTheFirst(Mutant):
    """The variables of the first request are edits of the whole CDI file."""

    check = "cdi.by-request"
    source = f"{_CDI}/issues/41 (variables of several devices)"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().spec(uid, devices)
        return {**found, "containerEdits": {"env": found["devices"][0]["containerEdits"].pop("env")}}


class LaterReportsAreShort(Mutant):
    """Its first report has every device, the ones to come have the first device alone."""

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
    """A device that a claim has is not in its health reports."""

    check = "health.in-use"
    source = f"{KUBERNETES}/pull/130606 (the health of devices that pods have)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        async for found in super().reports():
            yield [one for one in found if not self.is_held(one.device.device_name)]

    def is_held(self, name: str) -> bool:
        return any(name == one["device_name"] for devices in self.prepared.values() for one in devices)


class BusyIsUnhealthy(OnlyFree):
    """A device that a claim has is reported as unhealthy, so that it is not given to others."""

    source = f"{CPU}/pull/249 (what makes a device unhealthy)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        async for found in Mutant.reports(self):
            for one in found:
                if self.is_held(one.device.device_name):
                    one.health = _UNHEALTHY
            yield found


class OneWorker(Mutant):
    """Its server has one thread, which an open health stream keeps."""

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
    """It writes its checkpoint when a claim is prepared, and not when one is unprepared."""

    check = "unprepare.remembered"
    source = f"{NVIDIA}/issues/840 (entries of the checkpoint that stay)"

    async def unprepare_one(self, claim: Any) -> str:
        before = self.checkpoint.read_bytes() if self.checkpoint.exists() else None
        found = await super().unprepare_one(claim)
        if before is not None:
            self.checkpoint.write_bytes(before)
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
