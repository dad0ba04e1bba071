"""Bugs that confuse devices, requests, configurations, claims with admin access, or drivers."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import EXAMPLE, KUBERNETES, NVIDIA, Mutant
from tests.driver_conformance.servicers import Refused

_API = "/apis/resource.k8s.io/v1"
_CPU = "https://github.com/kubernetes-sigs/dra-driver-cpu"
_GVISOR = "https://github.com/google/gvisor"
_NOW = "2026-01-01T00:00:00Z"


class AdministratorHolds(Mutant):
    """Reserves the device of a claim with admin access, so that other claims cannot have it."""

    check = "admin.no-holder"
    source = f"{NVIDIA}/pull/817 (admin access has to be left out of the check for overlaps)"

    def check_free(self, claim: JsonObject) -> None:
        super().check_free(claim)
        looked_at = {
            device["device_name"]
            for devices in self.prepared.values()
            for device in devices
            if device["admin"]
        }
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result["device"] in looked_at and not result.get("adminAccess"):
                raise Refused(f"{result['device']} is in use")


class NamesAfterDevices(Mutant):
    """Uses only the device in CDI names, so that a claim with admin access defines the same name again."""

    check = "admin.own-names"
    source = f"{_CPU}/issues/319 (claims with admin access are prepared as any other)"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        found = super().answer(uid, result, color)
        if not found["share_id"]:
            found["cdi_device_ids"] = [f"{self.kind}={result['device']}"]
        return found


class SharesOfOneName(Mutant):
    """Gives two shares of a device in one claim the same CDI name, which the claim's file defines twice."""

    check = "shares.same-claim"
    source = f"{KUBERNETES}/issues/133705 (CDI names without the share's ID)"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        found = super().answer(uid, result, color)
        found["cdi_device_ids"] = [f"{self.kind}={uid}-{result['device']}"]
        return found


class NodesByPlace(Mutant):
    """Chooses a device's node by the device's position in the claim."""

    check = "cdi.right-device"
    source = f"{_GVISOR}/issues/9389 (an index is no minor number)"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().spec(uid, devices)
        for place, device in enumerate(found["devices"] if len(devices) > 1 else ()):
            device["containerEdits"]["deviceNodes"][0]["path"] = f"/dev/dev-{place + 1}"
        return found


class AllForEachRequest(Mutant):
    """Answers with the CDI ids of the whole claim for each device."""

    check = "cdi.by-request"
    source = f"{KUBERNETES}/pull/125488 (CDI ids by request, not by claim)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        found = super().ready(claim)
        for device in found:
            device["own_id"] = device["cdi_device_ids"][0]
        for device in found:
            device["cdi_device_ids"] = sorted({one["own_id"] for one in found})
        return found

    def cdi_device(self, device: JsonObject) -> JsonObject:
        return super().cdi_device({**device, "cdi_device_ids": [device["own_id"]]})


class ConfiguresAll(Mutant):
    """Applies the configuration of one request to all requests of the claim."""

    check = "config.requests"
    source = f"{KUBERNETES}/pull/135098 (configurations that say no request)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        return super().configs_of([{**one, "requests": []} for one in configs], request)


class ClassCountsMore(Mutant):
    """Lets the configuration of the class override that of the claim."""

    check = "config.precedence"
    source = f"{EXAMPLE}/pull/54 (the order of precedence)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        return list(reversed(super().configs_of(configs, request)))

    def color(self, configs: Sequence[JsonObject]) -> str:
        filled = [
            {
                **one,
                "opaque": {**one["opaque"], "parameters": {"color": "grey", **one["opaque"]["parameters"]}},
            }
            if one["opaque"]["parameters"].get("kind") == "Paint"
            else one
            for one in configs
        ]
        return super().color(filled)


class StatusOfItsOwn(Mutant):
    """Writes status.devices as if there were no other drivers."""

    check = "status.others-kept"
    source = f"{EXAMPLE}/issues/101 (server-side apply, so that entries of others stay)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        devices = await super().prepare_one(claim)
        path = f"{_API}/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        found = await self.get(path)
        found["status"]["devices"] = [
            {
                "driver": self.name,
                "pool": one["pool_name"],
                "device": one["device_name"],
                **({"shareID": one["share_id"]} if one["share_id"] else {}),
            }
            for one in devices
        ]
        # Another call may have written at the same time.
        with contextlib.suppress(RuntimeError):
            await self.send("PUT", f"{path}/status", found)
        return devices


class PathOfTheAlternative(Mutant):
    """Stores the metadata of an alternative under its own name, not under that of its request."""

    check = "metadata.subrequests"
    source = "https://github.com/kubernetes/website/pull/54716 (the top-level request's name alone)"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        return {**super().answer(uid, result, color), "whole": result["request"].replace("/", "-")}

    def metadata_mounts(self, device: JsonObject) -> list[JsonObject]:
        request = device["request_names"][0]
        shown = device.get("shown", "").replace(f"/{request}/", f"/{device['whole']}/")
        return super().metadata_mounts({**device, "shown": shown} if "shown" in device else device)


class MetadataForRoot(Mutant):
    """Lets only root read the metadata."""

    check = "metadata.readable"
    source = "https://github.com/kubernetes/enhancements/pull/5606 (workloads read the files)"

    def describe(self, claim: JsonObject, devices: Sequence[JsonObject]) -> None:
        super().describe(claim, devices)
        for device in devices:
            Path(device["described"]).chmod(0o600)


class OpensAndForgets(Mutant):
    """Leaves a file open that it opens for a claim, if the claim is rejected."""

    check = "resources.refused"
    source = f"{NVIDIA}/issues/840"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        self.files.append(os.open("/dev/null", os.O_RDONLY))
        found = super().ready(claim)
        os.close(self.files.pop())
        return found


class RemembersFailures(Mutant):
    """Leaves a claim in its checkpoint if its preparation fails."""

    check = "resources.forgotten"
    source = f"{NVIDIA}/issues/840"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        started = self.plugins / "started.txt"
        before = started.read_text() if started.exists() else ""
        self.write_whole(started, f"{before}{claim['metadata']['uid']}\n".encode())
        found = super().ready(claim)
        self.write_whole(started, before.encode())
        return found


class LockForEachClaim(Mutant):
    """Leaves the lock file of a claim on the node."""

    check = "resources.directories"
    source = f"{NVIDIA}/issues/839 (locks around the checkpoint)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        (self.plugins / f"{claim.uid}.lock").touch()
        return await super().prepare_one(claim)


class BindsHalf(Mutant):
    """Sets only the first of two binding conditions."""

    check = "binding.set"
    source = f"{KUBERNETES}/pull/130160 (all binding conditions have to be true)"
    conditions: ClassVar[Sequence[str]] = ("Attached",)

    def devices(self) -> list[JsonObject]:
        fabric = {
            "name": "fabric-0",
            "bindsToNode": True,
            "bindingConditions": [f"{self.name}/Attached", f"{self.name}/Ready"],
            "bindingFailureConditions": [f"{self.name}/Failed"],
        }
        return [*super().devices(), fabric]

    async def publish(self, owner: str) -> None:
        await super().publish(owner)
        for claim in (await self.get(f"{_API}/resourceclaims?fieldSelector=metadata.namespace!%3Dnone"))[
            "items"
        ]:
            await self.bind(claim)

    async def bind(self, claim: JsonObject) -> None:
        status = claim.get("status", {})
        results = status.get("allocation", {}).get("devices", {}).get("results", ())
        if status.get("devices") or not any(one["device"] == "fabric-0" for one in results):
            return
        about = {"status": "True", "reason": "Bound", "message": "", "lastTransitionTime": _NOW}
        conditions = [{"type": f"{self.name}/{name}", **about} for name in self.conditions]
        status["devices"] = [
            {"driver": self.name, "pool": self.node, "device": "fabric-0", "conditions": conditions}
        ]
        meta = claim["metadata"]
        path = f"{_API}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}/status"
        await self.send("PUT", path, claim)


class BindsAndFails(BindsHalf):
    """Sets all binding conditions, including those for failure."""

    source = f"{KUBERNETES}/pull/130160 (any failure condition ends the binding)"
    conditions = ("Attached", "Ready", "Failed")


class KeepsItsSettings(Mutant):
    """Leaves a claim's setting on the node, so that later claims without a setting get it."""

    check = "config.undone"
    source = f"{NVIDIA}/pull/1183 (time slices stay what a claim has set)"

    def color(self, configs: Sequence[JsonObject]) -> str:
        setting = self.plugins / "setting"
        given = super().color(configs)
        if configs:
            setting.write_text(given)
        return setting.read_text() if setting.exists() else given


MUTANTS: Sequence[type[Mutant]] = [
    AdministratorHolds,
    NamesAfterDevices,
    SharesOfOneName,
    NodesByPlace,
    AllForEachRequest,
    ConfiguresAll,
    ClassCountsMore,
    StatusOfItsOwn,
    PathOfTheAlternative,
    MetadataForRoot,
    OpensAndForgets,
    RemembersFailures,
    LockForEachClaim,
    BindsHalf,
    BindsAndFails,
    KeepsItsSettings,
]
