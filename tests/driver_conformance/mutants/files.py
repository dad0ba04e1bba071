"""Bugs of CDI files and checkpoints."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, NVIDIA, Mutant

_CDI = "https://github.com/cncf-tags/container-device-interface"


class OldCdiVersion(Mutant):
    """Writes files in a version that engines reject."""

    check = "cdi.version-enough"
    source = f"{KUBERNETES}/pull/116279"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        return {**super().spec(uid, devices), "cdiVersion": "0.2.0"}


class NewestCdiVersion(Mutant):
    """Writes files in the newest version, whatever their content needs."""

    check = "cdi.version-lowest"
    source = f"{_CDI}/issues/91; https://github.com/NVIDIA/cloud-native-docs/pull/419"

    def spec(self, uid: str, devices: Sequence[JsonObject]) -> JsonObject:
        return {**super().spec(uid, devices), "cdiVersion": "1.1.0"}


class EmptyEdits(Mutant):
    """Writes devices without edits."""

    check = "cdi.schema"
    source = f"{NVIDIA}/issues/1144"

    def cdi_device(self, device: JsonObject) -> JsonObject:
        return {**super().cdi_device(device), "containerEdits": {}}


class WrongFolder(Mutant):
    """Writes its files next to the directory, because a slash is missing."""

    check = "cdi.defined"
    source = f"{KUBERNETES}/issues/124090"

    def cdi_path(self, uid: str) -> Path:
        return Path(f"{self.cdi}{super().cdi_path(uid).name}")


class InPlace(Mutant):
    """Writes its files in place."""

    check = "cdi.atomic"
    source = f"{CPU}/pull/31"

    def write_cdi(self, uid: str, document: JsonObject) -> None:
        self.cdi_path(uid).write_text(json.dumps(document))


class FileStays(Mutant):
    """Leaves the file of a claim behind when the claim is unprepared."""

    check = "cdi.gone"
    source = f"{CPU}/pull/180"

    def remove_cdi(self, uid: str) -> None:
        pass


class TrustsCheckpoint(Mutant):
    """Answers for a claim in its checkpoint even if the claim's CDI file is lost."""

    check = "cdi.restored"
    source = f"{EXAMPLE}/pull/259; https://github.com/ROCm/k8s-gpu-dra-driver/issues/75"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        known = self.prepared.get(claim.uid)
        return known if known is not None else await super().prepare_one(claim)


class ForgetsClaims(Mutant):
    """Keeps no checkpoint: at its start it removes the files of all claims."""

    check = "cdi.after-restart"
    source = f"{EXAMPLE}/issues/249"

    def save(self) -> None:
        self.write_checkpoint(b"{}")


class NamedByDevice(Mutant):
    """Names a share's CDI device after the device, so that two claims define the same name."""

    check = "shares.own-names"
    source = f"{KUBERNETES}/issues/134519 (duplicate ID)"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        found = super().answer(uid, result, color)
        if result.get("shareID") and result["request"] == "r0":
            found["cdi_device_ids"] = [f"{self.kind}={result['device']}"]
        return found


class OneVariable(Mutant):
    """Sets the same variable for each device, so that only the last one counts."""

    check = "cdi.environment"
    source = f"{EXAMPLE}/issues/249 (what a container sees of its devices)"

    def cdi_device(self, device: JsonObject) -> JsonObject:
        found = super().cdi_device(device)
        found["containerEdits"]["env"] = [f"VISIBLE_DEVICES={device['device_name']}"]
        return found


class NoSuchHook(Mutant):
    """Names a hook by its path in the driver's container, which does not exist on the host."""

    check = "cdi.hooks"
    source = f"{NVIDIA}/issues/1144 (the toolkit on the host was replaced)"

    def cdi_device(self, device: JsonObject) -> JsonObject:
        found = super().cdi_device(device)
        found["containerEdits"]["hooks"][0]["path"] = "/driver-root/usr/bin/nvidia-cdi-hook"
        return found


class Unqualified(Mutant):
    """Answers with plain device names instead of qualified CDI ids."""

    check = "cdi.qualified"
    source = f"{_CDI}/pull/2 (names of kinds)"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        found = super().answer(uid, result, color)
        return {**found, "cdi_device_ids": [one.replace("=", "#") for one in found["cdi_device_ids"]]}

    def cdi_device(self, device: JsonObject) -> JsonObject:
        return super().cdi_device(
            {**device, "cdi_device_ids": [one.replace("#", "=") for one in device["cdi_device_ids"]]}
        )


class CleansUpForAll(Mutant):
    """Empties the CDI directory at its start, including the files of other vendors."""

    check = "cdi.own-files"
    source = f"{_CDI}/pull/217 (the directory is shared)"

    def load(self) -> None:
        super().load()
        for path in self.cdi.glob("*.json"):
            if not path.name.startswith("mutant"):
                path.unlink()


class LosesOthers(Mutant):
    """Removes the CDI files of all other claims when one claim is unprepared."""

    check = "unprepare.others-kept"
    source = f"{KUBERNETES}/pull/140212 (resources in use by another pod)"

    def remove_cdi(self, uid: str) -> None:
        for known in [*self.prepared, uid]:
            super().remove_cdi(known)


class OverwritesItsCheckpoint(Mutant):
    """Overwrites its checkpoint in place, so that a crash leaves half of it."""

    check = "process.checkpoint-atomic"
    source = f"{NVIDIA}/issues/839 (a checkpoint that cannot be read)"

    def save(self) -> None:
        text = json.dumps(self.prepared)
        with self.checkpoint.open("w") as file:
            for start in range(0, len(text), 16):
                file.write(text[start : start + 16])
                file.flush()


MUTANTS = (
    OldCdiVersion,
    NewestCdiVersion,
    EmptyEdits,
    WrongFolder,
    InPlace,
    FileStays,
    TrustsCheckpoint,
    ForgetsClaims,
    NamedByDevice,
    OneVariable,
    NoSuchHook,
    Unqualified,
    CleansUpForAll,
    LosesOthers,
    OverwritesItsCheckpoint,
)
