"""Bugs that show only with foreign slices, a second instance, alternatives, two devices, or a slow API server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import KUBERNETES, Mutant
from tests.driver_conformance.servicers import Refused

_API = "/apis/resource.k8s.io/v1"
_LIBRARY = f"{KUBERNETES}/blob/v1.36.2/staging/src/k8s.io/dynamic-resource-allocation"
_SLICES = f"{_LIBRARY}/resourceslice/resourceslicecontroller.go"
_PLUGIN = f"{_LIBRARY}/kubeletplugin/draplugin.go"
_CLAIMS = f"{_LIBRARY}/resourceclaim"


class CleansUpOtherNodes(Mutant):
    """Deletes the slices of its name on other nodes when it starts."""

    check = "slices.others-kept-at-start"
    source = f"{_SLICES} (field selector spec.nodeName)"

    async def start(self) -> None:
        selector = f"fieldSelector=spec.driver%3D{self.name}"
        for one in (await self.get(f"{_API}/resourceslices?{selector}"))["items"]:
            if one["spec"].get("nodeName") != self.node:
                await self.send("DELETE", f"{_API}/resourceslices/{one['metadata']['name']}")
        await super().start()


class CleansUpOtherDrivers(Mutant):
    """Deletes the slices of other drivers on its node when it starts."""

    check = "slices.others-kept-at-start"
    source = f"{_SLICES} (field selector spec.driver)"

    async def start(self) -> None:
        selector = f"fieldSelector=spec.nodeName%3D{self.node}"
        for one in (await self.get(f"{_API}/resourceslices?{selector}"))["items"]:
            if one["spec"]["driver"] != self.name:
                await self.send("DELETE", f"{_API}/resourceslices/{one['metadata']['name']}")
        await super().start()


class ChecksPointsAlone(Mutant):
    """Keeps a checkpoint for each instance, and deletes the CDI files of claims that its own checkpoint lacks."""

    check = "registration.rolling-update-claims"
    source = f"{_PLUGIN} (RollingUpdate: instances share the plugin's data directory)"

    @property
    def checkpoint(self) -> Path:
        return self.plugins / f"checkpoint-{self.socket.stem}.json"


class OverlooksTheRequest(Mutant):
    """Validates the configuration of a request for its alternatives, but does not apply it to them."""

    check = "config.request-of-alternatives"
    source = f"{_CLAIMS} (ConfigForResult)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        own = super().configs_of(configs, request)
        self.color(own)
        return [one for one in own if not one.get("requests") or request in one["requests"]]


class RepeatsTheFirstDevice(Mutant):
    """Answers with the CDI id of the first device for all devices of a claim.

    Its devices differ only in their environment.
    """

    check = "cdi.right-device"
    source = f"{_PLUGIN} (Device.CDIDeviceIDs)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        answers = super().ready(claim)
        for answer in answers:
            answer["cdi_device_ids"] = answers[0]["cdi_device_ids"]
        return answers

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        return super().spec(uid, devices[:1])

    def cdi_device(self, device: JsonObject) -> JsonObject:
        made = super().cdi_device(device)
        del made["containerEdits"]["deviceNodes"]
        return made


class ReadsUnderItsLock(Mutant):
    """Reads a claim from the API server while holding the lock that every call needs."""

    check = "prepare.slow-read"
    source = f"{_PLUGIN} (claims are read before the calls are serialized)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        async with self.lock:
            await self.read(claim)
        return await super().prepare_one(claim)


class NeedsAClaimToUnprepare(Mutant):
    """Fails if a call unprepares nothing."""

    check = "unprepare.empty-call"
    source = f"{KUBERNETES}/blob/v1.36.2/staging/src/k8s.io/kubelet/pkg/apis/dra/v1/api.proto"

    async def unprepare(self, claims: Sequence[Any]) -> dict[str, str]:
        if not claims:
            raise Refused("no claims")
        return await super().unprepare(claims)


class IsStrictOnTopAlone(Mutant):
    """Ignores unknown fields of nested objects."""

    check = "config.unknown-nested-field"
    source = "https://github.com/kubernetes-sigs/dra-example-driver/tree/main/api (strict decoding)"

    layer_fields: ClassVar[frozenset[str]] = frozenset(("gloss", "conformanceUnknownField"))


MUTANTS: Sequence[type[Mutant]] = [
    CleansUpOtherNodes,
    CleansUpOtherDrivers,
    ChecksPointsAlone,
    OverlooksTheRequest,
    RepeatsTheFirstDevice,
    ReadsUnderItsLock,
    NeedsAClaimToUnprepare,
    IsStrictOnTopAlone,
]
