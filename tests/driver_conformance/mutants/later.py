"""Bugs of device metadata, damaged checkpoints, and claims of unusual names and shapes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, NVIDIA, Mutant
from tests.driver_conformance.servicers import Refused

_ROCM = "https://github.com/ROCm/k8s-gpu-dra-driver"
_KUBEVIRT = "https://github.com/kubevirt/kubevirt"


class NamedByClaim(Mutant):
    """Writes the metadata of a claim from a template under the claim's own name."""

    check = "metadata.template"
    source = f"{_KUBEVIRT}/pull/17028; {KUBERNETES}/pull/137086"

    def container_path(self, claim: JsonObject, request: str) -> str:
        meta = {**claim["metadata"], "annotations": {}}
        return super().container_path({**claim, "metadata": meta}, request)


class OldMetadataPath(Mutant):
    """Mounts metadata at the path of an older version of the proposal."""

    check = "metadata.mounted"
    source = f"{_KUBEVIRT}/pull/17028 (paths of two versions)"

    def container_path(self, claim: JsonObject, request: str) -> str:
        path = super().container_path(claim, request)
        return path.replace(f"/{self.name}-metadata.json", "/metadata.json")


class MetadataStays(Mutant):
    """Leaves the metadata of a claim behind when the claim is unprepared."""

    check = "metadata.gone"
    source = f"{KUBERNETES}/pull/137086 (cleanup of metadata files)"

    def forget(self, claim: Any) -> None:
        pass


class BareMetadata(Mutant):
    """Writes metadata with names of devices, but without attributes."""

    check = "metadata.attributes"
    source = f"{_ROCM}/issues/47; {CPU}/pull/265"

    def metadata(self, claim: JsonObject, request: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().metadata(claim, request, devices)
        for device in found["requests"][0]["devices"]:
            del device["attributes"]
        return found


class OneMetadata(Mutant):
    """Writes all devices of the claim into the metadata of each request."""

    check = "metadata.devices"
    source = f"{NVIDIA}/issues/916 (a file for each request)"

    def describe(self, claim: JsonObject, devices: Sequence[JsonObject]) -> None:
        names = {one["request_names"][0] for one in devices}
        super().describe(
            claim, [{**one, "request_names": [name]} for name in sorted(names) for one in devices]
        )


class WritableMetadata(Mutant):
    """Mounts metadata so that containers can change it."""

    check = "metadata.read-only"
    source = f"{KUBERNETES}/pull/137086 (the mount's options)"
    mount_options: ClassVar[Sequence[str]] = ("bind",)


class PlainJson(Mutant):
    """Writes metadata as JSON without a version."""

    check = "metadata.stream"
    source = "https://github.com/kubernetes/website/pull/54716 (apiVersion and kind)"

    def metadata(self, claim: JsonObject, request: str, devices: Sequence[JsonObject]) -> JsonObject:
        found = super().metadata(claim, request, devices)
        del found["apiVersion"], found["kind"]
        return found


class StartsAfresh(Mutant):
    """Treats a checkpoint that it cannot read as empty, and logs nothing."""

    check = "process.damaged-checkpoint"
    source = f"{EXAMPLE}/pull/253; {_ROCM}/issues/86 (fail-loud reconcile)"

    def load(self) -> None:
        try:
            super().load()
        except ValueError:
            self.prepared = {}


class StaysBroken(Mutant):
    """Runs with a checkpoint that it cannot read, and rejects every claim."""

    check = "process.damaged-checkpoint"
    source = f"{NVIDIA}/issues/1100; {NVIDIA}/issues/839"

    def load(self) -> None:
        try:
            super().load()
        except ValueError as error:
            self.log.append(f"checkpoint: {error}")
            self.broken = True

    async def prepare(self, claims: Sequence[Any]) -> dict[str, list[JsonObject] | str]:
        if getattr(self, "broken", False):
            return {claim.uid: "unable to get checkpoint" for claim in claims}
        return await super().prepare(claims)


class KeyedByName(Mutant):
    """Identifies claims by their name, regardless of the namespace."""

    check = "prepare.namespaces"
    source = f"{KUBERNETES}/pull/124323 (a cache of claims keyed by namespace and name)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        names: dict[str, list[JsonObject]] = self.__dict__.setdefault("by_name", {})
        if claim.name in names and claim.namespace.endswith("-2"):
            return names[claim.name]
        names[claim.name] = await super().prepare_one(claim)
        return names[claim.name]

    async def unprepare_one(self, claim: Any) -> str:
        self.__dict__.setdefault("by_name", {}).pop(claim.name, None)
        return await super().unprepare_one(claim)


class KeyedByRequest(Mutant):
    """Keeps only one device for each request."""

    check = "prepare.count"
    source = f"{CPU}/issues/80; {CPU}/pull/229 (requests for several devices)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        found = super().ready(claim)
        by_request = {(one["request_names"][0], one["share_id"]): one for one in found}
        return list(by_request.values())


class NamedAfterClaim(Mutant):
    """Uses the claim's namespace and name in the names of its files."""

    check = "prepare.long-names"
    source = f"{KUBERNETES}/issues/91410; {KUBERNETES}/issues/123889"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        meta = claim["metadata"]
        path = self.plugins / f"{meta['namespace']}_{meta['name']}"
        try:
            path.touch()
            path.unlink()
        except OSError as error:
            raise Refused(str(error)) from error
        return super().ready(claim)


class BetaLosesIds(Mutant):
    """Omits the CDI ids in the answers of the older service."""

    check = "prepare.same-answer"
    source = f"{KUBERNETES}/pull/129442 (conversions between versions of the service)"

    def message(self, messages: Any, device: JsonObject) -> JsonObject:
        return {**device, "cdi_device_ids": []} if "v1beta1" in messages.__name__ else device


MUTANTS = (
    NamedByClaim,
    OldMetadataPath,
    MetadataStays,
    BareMetadata,
    OneMetadata,
    WritableMetadata,
    PlainJson,
    StartsAfresh,
    StaysBroken,
    KeyedByName,
    KeyedByRequest,
    NamedAfterClaim,
    BetaLosesIds,
)
