"""Bugs of registration, health, restarts and the process."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

from dra_driverkit.proto import health_v1_pb2
from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, NVIDIA, Mutant
from tests.driver_conformance.servicers import Refused


class OfAnotherType(Mutant):
    """It registers as a plugin of a type that the kubelet has no handler for."""

    check = "registration.type"
    source = f"{KUBERNETES}/issues/124962"

    def info(self) -> Any:
        found = super().info()
        found.type = "DRA"
        return found


class OldVersions(Mutant):
    """It announces no service that the kubelet of today calls."""

    check = "registration.versions"
    source = f"{KUBERNETES}/pull/129442 (drivers that serve v1alpha4 by hand)"

    def services(self) -> Sequence[str]:
        return ("v1alpha4.Node", "v1.DRAResourceHealth")


class Announces(Mutant):
    """It announces v1beta1 and v1, and serves v1 alone."""

    check = "registration.versions-served"
    source = f"{NVIDIA}/issues/1423 (a service that is announced and answers Unimplemented)"
    serves_beta = False


class RefusesNews(Mutant):
    """It fails when the kubelet says that it is registered."""

    check = "registration.notified"
    source = f"{KUBERNETES}/issues/124962 (handling request failed: RegistrationStatus)"

    async def handle_notification(self, request: Any) -> None:
        raise RuntimeError("what do I do with that?")


class LeavesSockets(Mutant):
    """It ends without taking its sockets away."""

    check = "registration.sockets-removed"
    source = f"{KUBERNETES}/issues/128696; {CPU}/issues/253"

    async def stop(self) -> int | None:
        await self.crash()
        if not self.registration_socket.exists():
            os.mknod(self.registration_socket, 0o140600)
        return 0


class StaleLock(Mutant):
    """It refuses to start where a lock file lies, which a crash leaves."""

    check = "registration.back-after-kill"
    source = f"{NVIDIA}/pull/378 (timeout acquiring lock)"

    async def start(self) -> None:
        lock = self.plugins / "pu.lock"
        if lock.exists():
            raise OSError("another instance runs")
        await super().start()
        lock.touch()

    async def stop(self) -> int | None:
        (self.plugins / "pu.lock").unlink()
        return await super().stop()


class TakesAllSockets(Mutant):
    """At its end it removes the sockets of all instances, its successor's too."""

    check = "registration.rolling-update"
    source = f"{KUBERNETES}/issues/132660"

    async def stop(self) -> int | None:
        await super().stop()
        for socket in [*self.registry.glob(f"{self.name}-*.sock"), *self.plugins.glob("dra-*.sock")]:
            socket.unlink(missing_ok=True)
        return 0


class TakesOlderSockets(Mutant):
    """At its start it removes the sockets of older instances, as if they were left by a crash."""

    check = "registration.rolling-update"
    source = f"{KUBERNETES}/pull/129832 (the kubelet falls back to the old instance)"

    async def start(self) -> None:
        for socket in [*self.registry.glob(f"{self.name}-*.sock"), *self.plugins.glob("dra-*.sock")]:
            socket.unlink()
        await super().start()


class TakesOlderRegistration(Mutant):
    """Once it is registered it removes the registration of older instances."""

    check = "registration.rolling-update"
    source = f"{KUBERNETES}/issues/128964 (two instances that are registered at a time)"

    async def handle_notification(self, request: Any) -> None:
        await super().handle_notification(request)
        for socket in self.registry.glob(f"{self.name}-*.sock"):
            if socket != self.registration_socket:
                socket.unlink()


class IgnoresSignal(Mutant):
    """It does not end when it is asked to."""

    check = "process.ends"
    source = f"{CPU}/issues/253 (SIGTERM is not handled)"

    async def stop(self) -> int | None:
        await super().stop()
        return None


class BadExit(Mutant):
    """It takes its own end for an error."""

    check = "process.exit-code"
    source = f"{EXAMPLE}/pull/68 (unable to cleanly shutdown)"

    async def stop(self) -> int | None:
        await super().stop()
        return 1


class DiesWithoutApi(Mutant):
    """It ends when the API server answers 503."""

    check = "process.outage"
    source = f"{KUBERNETES}/issues/127194 (errors of publishing are not handled)"

    async def own_slices(self) -> list[JsonObject]:
        try:
            return await super().own_slices()
        except RuntimeError:
            self.alive = False
            raise


class RemembersRefusals(Mutant):
    """It rejects a claim for good once it has rejected it, whatever the reason was."""

    check = "prepare.api-error"
    source = f"{KUBERNETES}/pull/124323 (what failed stays in a cache)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        self.refused: dict[str, str] = getattr(self, "refused", {})
        if claim.uid in self.refused:
            raise Refused(self.refused[claim.uid])
        try:
            return await super().prepare_one(claim)
        except Refused as error:
            self.refused[claim.uid] = str(error)
            raise


class SwallowsErrors(Mutant):
    """A claim that it cannot read has no devices, and no error."""

    check = "prepare.api-error"
    source = f"{KUBERNETES}/pull/140527 (pods that run with devices that are not prepared)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        try:
            return await super().prepare_one(claim)
        except Refused as error:
            if "503" in str(error):
                return []
            raise


class LeaksFiles(Mutant):
    """It opens a file for each claim and never closes it."""

    check = "resources.files"
    source = f"{KUBERNETES}/issues/64614 (too many open files)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        self.files.append(os.open(os.devnull, os.O_RDONLY))
        return await super().prepare_one(claim)


class LeaksMemory(Mutant):
    """It remembers each claim, in full."""

    check = "resources.memory"
    source = f"{KUBERNETES}/issues/140471 (a list that grows with each preparation)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        self.memory += 1 << 20
        return await super().prepare_one(claim)


class LogsToken(Mutant):
    """It logs its requests with all headers."""

    check = "logs.no-token"
    source = f"{KUBERNETES}/issues/118419 (CVE-2023-2878: a driver logs service account tokens)"

    async def start(self) -> None:
        self.log.append(str(self.client._headers))
        await super().start()


class Panics(Mutant):
    """It panics while it unprepares, and its library catches that."""

    check = "logs.no-panics"
    source = f"{EXAMPLE}/issues/240"

    async def unprepare_one(self, claim: Any) -> str:
        if claim.uid not in self.prepared:
            self.log.append("panic: runtime error: invalid memory address or nil pointer dereference")
        return await super().unprepare_one(claim)


class NoHealth(Mutant):
    """It announces the health service, and has none."""

    check = "health.first-report"
    source = f"{NVIDIA}/issues/1423; {KUBERNETES}/issues/141855"

    async def reports(self) -> AsyncIterator[list[Any]]:
        if self.alive:
            raise NotImplementedError
        yield []


class OnlyChanges(Mutant):
    """It reports once, and then only when something changes."""

    check = "health.again"
    source = f"{KUBERNETES}/pull/130606 (the cache's timeout)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        yield [self.health_of(device["name"]) for device in self.devices()]
        await asyncio.Event().wait()

    def health_of(self, device: str) -> Any:
        found = self.health(device)
        found.health_check_timeout_seconds = 1
        return found


class OnlyPrepared(Mutant):
    """It reports the health of devices that are prepared, and of no others."""

    check = "health.every-device"
    source = f"{CPU}/pull/249"

    async def reports(self) -> AsyncIterator[list[Any]]:
        while True:
            yield [self.health("dev-0")]
            await asyncio.sleep(self.report_every)


class OtherPool(Mutant):
    """It reports devices by a pool of another name than that of the slices."""

    check = "health.known-devices"
    source = f"{KUBERNETES}/pull/130606 (pool and device are the cache's key)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        while True:
            right = [self.health(device["name"]) for device in self.devices()]
            extra = self.health("dev-0")
            extra.device.CopyFrom(health_v1_pb2.DeviceIdentifier(pool_name="default", device_name="dev-0"))
            yield [*right, extra]
            await asyncio.sleep(self.report_every)


class NoPool(Mutant):
    """It reports its devices without their pool."""

    check = "health.known-devices"
    source = f"{KUBERNETES}/pull/130606 (pool and device are the cache's key)"

    def health(self, device: str) -> Any:
        found = super().health(device)
        found.device.pool_name = ""
        return found


MUTANTS = (
    NoPool,
    OfAnotherType,
    OldVersions,
    Announces,
    RefusesNews,
    LeavesSockets,
    StaleLock,
    TakesAllSockets,
    TakesOlderSockets,
    TakesOlderRegistration,
    IgnoresSignal,
    BadExit,
    DiesWithoutApi,
    RemembersRefusals,
    SwallowsErrors,
    LeaksFiles,
    LeaksMemory,
    LogsToken,
    Panics,
    NoHealth,
    OnlyChanges,
    OnlyPrepared,
    OtherPool,
)
