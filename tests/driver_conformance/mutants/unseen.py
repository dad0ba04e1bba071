"""Bugs that show only after an outage or a failed registration, with opposite orders, or with several calls at once."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from dra_driverkit.proto import registration_v1_pb2, rpc
from dra_shared.jsontypes import JsonObject
from grpc import aio

from tests.driver_conformance.mutants.mutant import CPU, KUBERNETES, Mutant
from tests.driver_conformance.servicers import Refused, RegistrationServicer

_LIBRARY = f"{KUBERNETES}/blob/v1.37.0/staging/src/k8s.io/dynamic-resource-allocation"
_SLICES = f"{_LIBRARY}/resourceslice/resourceslicecontroller.go"
_CLAIMS = f"{_LIBRARY}/resourceclaim"
_TYPES = f"{KUBERNETES}/blob/v1.37.0/staging/src/k8s.io/api/resource/v1/types.go"


class KeepsEdits(Mutant):
    """Compares only the names of devices, so that attributes that somebody edits stay."""

    check = "slices.edited"
    source = f"{_SLICES} (slices are compared as a whole)"

    def same(self, spec: JsonObject, content: JsonObject) -> bool:
        published, wanted = ([one["name"] for one in part.get("devices") or ()] for part in (spec, content))
        return published == wanted


class StopsAtFirstError(Mutant):
    """Publishes no more slices after its first failed request."""

    check = "slices.after-outage"
    source = "https://github.com/ROCm/k8s-device-plugin/issues/186 (silent until its restart)"

    async def keep_publishing(self) -> None:
        owner = await self.get(f"/api/v1/nodes/{self.node}")
        with contextlib.suppress(OSError, RuntimeError):
            while True:
                await self.publish(owner["metadata"]["uid"])
                await asyncio.sleep(self.period)


class OutdatedOwner(Mutant):
    """Makes the UID of the slices' owner from the node's name."""

    check = "slices.owner-there"
    source = f"{KUBERNETES}/pull/137199 (an outdated UID of the node)"

    def slice(self, place: int, content: JsonObject, generation: int, count: int, owner: str) -> JsonObject:
        made_up = str(uuid.uuid5(uuid.NAMESPACE_DNS, self.node))
        return super().slice(place, content, generation, count, made_up)


class EndsUnregistered(Mutant):
    """Exits after a failed registration."""

    check = "registration.failed"
    source = f"{KUBERNETES}/pull/138170 (node-driver-registrar ends)"
    ending: asyncio.Task[None] | None = None

    async def handle_notification(self, request: Any) -> None:
        await super().handle_notification(request)
        if not request.plugin_registered:
            self.alive = False
            self.ending = asyncio.create_task(self.crash())


class RegistersEarly(Mutant):
    """Opens its registration socket before the socket that it announces."""

    check = "registration.served-first"
    source = "https://github.com/squat/generic-device-plugin/pull/35 (serve, then register)"
    registrar: aio.Server | None = None
    opening: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        self.registrar = aio.server(options=(("grpc.so_reuseport", 0),))
        rpc.serve(registration_v1_pb2, "Registration", RegistrationServicer(self), self.registrar)
        self.listen(self.registrar, self.registration_socket)
        await self.registrar.start()

    def listen(self, server: aio.Server, socket: Any) -> None:
        # The second server has a registration socket of its own, which is not in the registry.
        own = server is self.registrar or socket == self.socket
        super().listen(server, socket if own else self.plugins / "unused.sock")

    def info(self) -> Any:
        if self.opening is None:
            self.opening = asyncio.create_task(self.open_service())
        return super().info()

    async def open_service(self) -> None:
        await asyncio.sleep(self.period)
        await super().serve()

    async def crash(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
            await asyncio.gather(self.opening, return_exceptions=True)
        if self.registrar is not None:
            await self.registrar.stop(None)
        await super().crash()


class RefusesAlternatives(Mutant):
    """Looks a result's request up by its full name, and refuses alternatives, which have two names."""

    check = "prepare.subrequests"
    source = f"{_CLAIMS} (BaseRequestRef)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        known = {one["name"] for one in claim["spec"]["devices"]["requests"]}
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result["driver"] == self.name and result["request"] not in known:
                raise Refused(f"no request {result['request']}")
        return super().ready(claim)


class RefusesTwoRequests(Mutant):
    """Refuses claims with devices for two requests."""

    check = "prepare.several-devices"
    source = f"{_TYPES} (AllocationResult)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        results = claim["status"]["allocation"]["devices"]["results"]
        own = [one for one in results if one["driver"] == self.name]
        if len(own) > 1 and len({one["request"] for one in own} | {one["device"] for one in own}) == 2 * len(
            own
        ):
            raise Refused("a claim has only one request")
        return super().ready(claim)


class SortsIds(Mutant):
    """Sorts the CDI ids of a claim, and not the requests that they are for."""

    check = "cdi.right-device"
    source = "https://github.com/google/gvisor/issues/9389 (devices in another order)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        found = super().ready(claim)
        for device in found:
            device["own"] = device["cdi_device_ids"]
        for device, ids in zip(found, sorted(one["own"] for one in found), strict=True):
            device["cdi_device_ids"] = ids
        return found

    def cdi_device(self, device: JsonObject) -> JsonObject:
        return super().cdi_device({**device, "cdi_device_ids": device["own"]})


class LosesUpdates(Mutant):
    """Reads its checkpoint, changes it and writes it without a lock."""

    check = "prepare.concurrent-kept"
    source = f"{CPU}/issues/172 (read and write of the allocation are not one step)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        found = await self.read(claim)
        state = self.read_checkpoint()
        self.prepared = state
        devices = state.get(claim.uid)
        if devices is None:
            self.check_free(found)
            devices = self.ready(found)
        await asyncio.sleep(0)
        self.describe(found, devices)
        self.write_cdi(claim.uid, self.spec(claim.uid, devices))
        state[claim.uid] = devices
        self.prepared = state
        self.save()
        return devices

    async def unprepare_one(self, claim: Any) -> str:
        self.prepared = self.read_checkpoint()
        return await super().unprepare_one(claim)

    def read_checkpoint(self) -> dict[str, list[JsonObject]]:
        if not self.checkpoint.exists():
            return {}
        found: dict[str, list[JsonObject]] = json.loads(self.checkpoint.read_text())
        return found


class NotesLate(Mutant):
    """Notes a claim some time after it wrote its CDI file, and forgets the file if the call is cancelled between."""

    check = "unprepare.given-up"
    source = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1162"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        found = await self.read(claim)
        async with self.lock:
            known = self.prepared.get(claim.uid)
            if known is None:
                self.check_free(found)
            devices = known if known is not None else self.ready(found)
            self.describe(found, devices)
            self.write_cdi(claim.uid, self.spec(claim.uid, devices))
            await asyncio.sleep(self.period)
            self.prepared[claim.uid] = devices
            self.save()
            return devices

    async def unprepare_one(self, claim: Any) -> str:
        return await super().unprepare_one(claim) if claim.uid in self.prepared else ""


class FreesWithAdmin(Mutant):
    """Frees a device that another claim has when a claim with admin access to it ends."""

    check = "admin.holder-kept"
    source = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/817 (admin access counts as use)"

    async def unprepare_one(self, claim: Any) -> str:
        ended = {one["device_name"] for one in self.prepared.get(claim.uid, ()) if one["admin"]}
        for devices in self.prepared.values():
            for device in devices:
                device["admin"] = device["admin"] or device["device_name"] in ended
        return await super().unprepare_one(claim)


class ClassWins(Mutant):
    """Lets the class's configuration override the claim's, field by field."""

    check = "config.precedence"
    source = "https://github.com/kubernetes-sigs/dra-example-driver/pull/54"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        own = super().configs_of(configs, request)
        return sorted(own, key=lambda one: one["source"] == "FromClass")


class SameAmounts(Mutant):
    """Gives each share of a device in a claim the amount of the first."""

    check = "shares.amounts"
    source = f"{_TYPES} (DeviceRequestAllocationResult.consumedCapacity)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        first: dict[str, JsonObject] = {}
        found = super().ready(claim)
        for device in found:
            device["consumed"] = first.setdefault(device["device_name"], device["consumed"])
        return found


class WritableForAll(Mutant):
    """Writes CDI files that every user of the node may change."""

    check = "cdi.writable"
    source = "https://github.com/NVIDIA/nvidia-container-toolkit/pull/528 (wrong permissions of CDI files)"

    def write_cdi(self, uid: str, document: JsonObject) -> None:
        super().write_cdi(uid, document)
        self.cdi_path(uid).chmod(0o666)


class NewestStreamOnly(Mutant):
    """Sends reports to the newest health stream only, and leaves older ones open."""

    check = "health.two-streams"
    source = f"{KUBERNETES}/blob/v1.37.0/pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go (a stream for each instance)"
    newest: object = None

    async def reports(self) -> AsyncIterator[list[Any]]:
        own = self.newest = object()
        while True:
            if self.newest is own:
                yield [self.health(device["name"]) for device in self.devices()]
            await asyncio.sleep(self.report_every)


MUTANTS = (
    KeepsEdits,
    StopsAtFirstError,
    OutdatedOwner,
    EndsUnregistered,
    RegistersEarly,
    RefusesAlternatives,
    RefusesTwoRequests,
    SortsIds,
    LosesUpdates,
    NotesLate,
    FreesWithAdmin,
    ClassWins,
    SameAmounts,
    WritableForAll,
    NewestStreamOnly,
)
