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
    """Registers with a plugin type that the kubelet does not handle."""

    check = "registration.type"
    source = f"{KUBERNETES}/issues/124962"

    def info(self) -> Any:
        found = super().info()
        found.type = "DRA"
        return found


class OldVersions(Mutant):
    """Announces no service that a current kubelet calls."""

    check = "registration.versions"
    source = f"{KUBERNETES}/pull/129442 (drivers that serve v1alpha4 by hand)"

    def services(self) -> Sequence[str]:
        return ("v1alpha4.Node", "v1.DRAResourceHealth")


class Announces(Mutant):
    """Announces v1beta1 and v1, and only serves v1."""

    check = "registration.versions-served"
    source = f"{NVIDIA}/issues/1423 (a service that is announced and answers Unimplemented)"
    serves_beta = False


class RefusesNews(Mutant):
    """Fails when the kubelet reports that the driver is registered."""

    check = "registration.notified"
    source = f"{KUBERNETES}/issues/124962 (handling request failed: RegistrationStatus)"

    async def handle_notification(self, request: Any) -> None:
        raise RuntimeError("what do I do with that?")


class LeavesSockets(Mutant):
    """Exits without removing its sockets."""

    check = "registration.sockets-removed"
    source = f"{KUBERNETES}/issues/128696; {CPU}/issues/253"

    async def stop(self) -> int | None:
        await self.crash()
        if not self.registration_socket.exists():
            os.mknod(self.registration_socket, 0o140600)
        return 0


class StaleLock(Mutant):
    """Does not start if its lock file exists, which a crash leaves behind."""

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
    """Removes the sockets of all instances when it exits, including those of its successor."""

    check = "registration.rolling-update"
    source = f"{KUBERNETES}/issues/132660"

    async def stop(self) -> int | None:
        await super().stop()
        for socket in [*self.registry.glob(f"{self.name}-*.sock"), *self.plugins.glob("dra-*.sock")]:
            socket.unlink(missing_ok=True)
        return 0


class TakesOlderSockets(Mutant):
    """Removes the sockets of older instances when it starts, as if a crash had left them."""

    check = "registration.rolling-update"
    source = f"{KUBERNETES}/pull/129832 (the kubelet falls back to the old instance)"

    async def start(self) -> None:
        for socket in [*self.registry.glob(f"{self.name}-*.sock"), *self.plugins.glob("dra-*.sock")]:
            socket.unlink()
        await super().start()


class TakesOlderRegistration(Mutant):
    """Removes the registration socket of older instances once it is registered."""

    check = "registration.rolling-update"
    source = f"{KUBERNETES}/issues/128964 (two instances that are registered at a time)"

    async def handle_notification(self, request: Any) -> None:
        await super().handle_notification(request)
        for socket in self.registry.glob(f"{self.name}-*.sock"):
            if socket != self.registration_socket:
                socket.unlink()


class IgnoresSignal(Mutant):
    """Does not exit on SIGTERM."""

    check = "process.ends"
    source = f"{CPU}/issues/253 (SIGTERM is not handled)"

    async def stop(self) -> int | None:
        await super().stop()
        return None


class BadExit(Mutant):
    """Exits with an error code after a normal shutdown."""

    check = "process.exit-code"
    source = f"{EXAMPLE}/pull/68 (unable to cleanly shutdown)"

    async def stop(self) -> int | None:
        await super().stop()
        return 1


class DiesWithoutApi(Mutant):
    """Exits if the API server answers 503."""

    check = "process.outage"
    source = f"{KUBERNETES}/issues/127194 (errors of publishing are not handled)"

    async def own_slices(self) -> list[JsonObject]:
        try:
            return await super().own_slices()
        except RuntimeError:
            self.alive = False
            raise


class RemembersRefusals(Mutant):
    """Rejects a claim forever once it has rejected it, whatever the reason was."""

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
    """Returns no devices and no error for a claim that it cannot read."""

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
    """Opens a file for each claim and never closes it."""

    check = "resources.files"
    source = f"{KUBERNETES}/issues/64614 (too many open files)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        self.files.append(os.open(os.devnull, os.O_RDONLY))
        return await super().prepare_one(claim)


class LeaksMemory(Mutant):
    """Keeps each claim in memory forever."""

    check = "resources.memory"
    source = f"{KUBERNETES}/issues/140471 (a list that grows with each preparation)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        self.memory += 1 << 20
        return await super().prepare_one(claim)


class LogsToken(Mutant):
    """Logs its requests with all headers."""

    check = "logs.no-token"
    source = f"{KUBERNETES}/issues/118419 (CVE-2023-2878: a driver logs service account tokens)"

    async def start(self) -> None:
        self.log.append(str(self.client._headers))
        await super().start()


class Panics(Mutant):
    """Panics when it unprepares a claim, and its library recovers from the panic."""

    check = "logs.no-panics"
    source = f"{EXAMPLE}/issues/240"

    async def unprepare_one(self, claim: Any) -> str:
        if claim.uid not in self.prepared:
            self.log.append("panic: runtime error: invalid memory address or nil pointer dereference")
        return await super().unprepare_one(claim)


class NoHealth(Mutant):
    """Announces the health service, and does not serve it."""

    check = "health.first-report"
    source = f"{NVIDIA}/issues/1423; {KUBERNETES}/issues/141855"

    async def reports(self) -> AsyncIterator[list[Any]]:
        if self.alive:
            raise NotImplementedError
        yield []


class OnlyChanges(Mutant):
    """Reports health once, and then only after changes."""

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
    """Reports the health of prepared devices only."""

    check = "health.every-device"
    source = f"{CPU}/pull/249"

    async def reports(self) -> AsyncIterator[list[Any]]:
        while True:
            yield [self.health("dev-0")]
            await asyncio.sleep(self.report_every)


class OtherPool(Mutant):
    """Reports devices with another pool name than that of its slices."""

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
    """Reports its devices without their pool."""

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
