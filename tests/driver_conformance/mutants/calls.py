"""Bugs of preparing and unpreparing claims, and of their configuration."""

import asyncio
from collections.abc import Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import CPU, EXAMPLE, KUBERNETES, NVIDIA, Mutant
from tests.driver_conformance.servicers import Refused


class OncePrepared(Mutant):
    """Returns an error for a claim that is already prepared."""

    check = "prepare.idempotent"
    source = f"{KUBERNETES}/issues/140471; {KUBERNETES}/pull/120550 (kubelets call again after a restart)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        if claim.uid in self.prepared:
            raise Refused("already prepared")
        return await super().prepare_one(claim)


class LeavesOut(Mutant):
    """Answers only for the first of several claims."""

    check = "prepare.several-claims"
    source = f"{KUBERNETES}/pull/124091 (answers that are left out)"

    async def prepare(self, claims: Sequence[Any]) -> dict[str, list[JsonObject] | str]:
        return await super().prepare(claims[:1])


class AllOrNothing(Mutant):
    """Fails the whole call if one of its claims fails."""

    check = "prepare.half-failed-call"
    source = f"{KUBERNETES}/pull/137945 (errors of one claim stop all)"

    async def prepare(self, claims: Sequence[Any]) -> dict[str, list[JsonObject] | str]:
        answers = await super().prepare(claims)
        if problem := next((one for one in answers.values() if isinstance(one, str)), ""):
            raise Refused(problem)
        return answers


class TakesEveryDriver(Mutant):
    """Treats all results of a claim as its own, including those of other drivers."""

    check = "prepare.other-drivers"
    source = f"{NVIDIA}/pull/435"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result["driver"] != self.name and result["pool"] != self.node:
                raise Refused(f"requested device is not allocatable: {result['device']}")
        return super().ready(claim)


class ByNameAlone(Mutant):
    """Looks devices up by name only, and not by driver."""

    check = "prepare.namesakes"
    source = f"{KUBERNETES}/pull/140443 (pools of the same name in two drivers)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        known = {one["name"] for one in self.devices()}
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result["device"] in known:
                result["driver"] = self.name
        return super().ready(claim)


class WholeNames(Mutant):
    """Answers with the whole name of a request, including the alternative."""

    check = "prepare.subrequests"
    source = f"{KUBERNETES}/pull/128586"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        return {**super().answer(uid, result, color), "request_names": [result["request"]]}


class FirstRequest(Mutant):
    """Assigns every device to the first request of the claim."""

    check = "prepare.several-devices"
    source = f"{KUBERNETES}/pull/128586 (devices and their requests)"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        return {**super().answer(uid, result, color), "request_names": ["r0"]}


class AnyDevice(Mutant):
    """Omits unknown devices from the answer, without an error."""

    check = "prepare.unknown-device"
    source = "https://github.com/google/dranet/pull/253 (a requested device is not found)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        known = {one["name"] for one in self.devices()}
        devices = claim["status"]["allocation"]["devices"]
        devices["results"] = [one for one in devices["results"] if one["device"] in known]
        return super().ready(claim)


class FilesBeforeChecks(Mutant):
    """Writes the CDI file of a claim before it knows whether all devices can be prepared, and does not remove
    the file if one cannot.
    """

    check = "prepare.half-failed"
    source = f"{CPU}/issues/169"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        uid = claim["metadata"]["uid"]
        results = claim["status"]["allocation"]["devices"]["results"]
        known = {one["name"] for one in self.devices()}
        good = [one for one in results if one["driver"] == self.name and one["device"] in known]
        if len(good) < len(results) and good and all(one["driver"] == self.name for one in results):
            self.write_cdi(f"{uid}-part", self.spec(uid, [self.answer(uid, good[0], "grey")]))
        return super().ready(claim)


class NotExclusive(Mutant):
    """Gives a device to a second claim while the first one has it."""

    check = "prepare.exclusive"
    source = f"{EXAMPLE}/issues/263; {NVIDIA}/pull/817"

    def check_free(self, claim: JsonObject) -> None:
        pass


class TooExclusive(Mutant):
    """Rejects a device that is in use, even for claims with admin access."""

    check = "admin.prepared"
    source = f"{NVIDIA}/pull/817 (excluding admin access)"

    def check_free(self, claim: JsonObject) -> None:
        for result in claim["status"]["allocation"]["devices"]["results"]:
            result.pop("adminAccess", None)
        super().check_free(claim)


class AdminTakes(Mutant):
    """Releases the device of another claim when a claim with admin access is unprepared."""

    check = "admin.holder-kept"
    source = f"{NVIDIA}/pull/1335"

    async def unprepare_one(self, claim: Any) -> str:
        mine = self.prepared.get(claim.uid, [])
        for uid, devices in list(self.prepared.items()):
            if uid != claim.uid and any(
                one["admin"] and one["device_name"] == other["device_name"]
                for one in mine
                for other in devices
            ):
                self.remove_cdi(uid)
        return await super().unprepare_one(claim)


class OldAllocation(Mutant):
    """Remembers a claim's devices after it was unprepared."""

    check = "prepare.changed-allocation"
    source = f"{NVIDIA}/pull/1205 (stale state of a claim that was unprepared)"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        uid = claim["metadata"]["uid"]
        known: dict[str, list[JsonObject]] = self.__dict__.setdefault("known", {})
        if uid not in known:
            known[uid] = super().ready(claim)
        return known[uid]


class TrustsName(Mutant):
    """Reads the claim by name, and does not compare the UID."""

    check = "prepare.other-uid"
    source = f"{KUBERNETES}/issues/131513 (a claim of the same name that was made again)"

    async def read(self, claim: Any) -> JsonObject:
        found = await self.get(
            f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        )
        if not found.get("status", {}).get("allocation"):
            raise Refused("not allocated")
        found["metadata"]["uid"] = claim.uid
        return found

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        try:
            return await super().prepare_one(claim)
        except RuntimeError as error:
            raise Refused(str(error)) from error


class Unlocked(Mutant):
    """Two concurrent calls read and write the same state, so one change is lost."""

    check = "prepare.concurrent-claims"
    source = f"{CPU}/issues/172"
    busy = False

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        busy, other = self.busy, getattr(self, "last", "")
        self.busy, self.last = True, claim.uid
        try:
            await asyncio.sleep(0.01)
            if busy and other != claim.uid:
                raise Refused("checkpoint was changed by another call")
            return await super().prepare_one(claim)
        finally:
            self.busy = False


class ReadsToUnprepare(Mutant):
    """Reads a claim from the API server before unpreparing it."""

    check = "unprepare.claim-gone"
    source = f"{KUBERNETES}/issues/139772 (a pod that cannot be unprepared is stuck)"

    async def unprepare_one(self, claim: Any) -> str:
        try:
            await self.read(claim)
        except Refused as error:
            return str(error)
        return await super().unprepare_one(claim)


class KnownOnly(Mutant):
    """Fails to unprepare a claim that is not prepared."""

    check = "unprepare.never-prepared"
    source = f"{KUBERNETES}/issues/131957"

    async def unprepare_one(self, claim: Any) -> str:
        if claim.uid not in self.prepared:
            return "claim is not prepared"
        return await super().unprepare_one(claim)


class LeavesOutEmpty(Mutant):
    """Leaves claims out of the answer if there is nothing to report for them."""

    check = "unprepare.succeeds"
    source = f"{KUBERNETES}/issues/124043"

    async def unprepare(self, claims: Sequence[Any]) -> dict[str, str]:
        answers = await super().unprepare(claims)
        return {uid: error for uid, error in answers.items() if error}


class LenientFields(Mutant):
    """Ignores unknown fields."""

    check = "config.unknown-field"
    source = f"{NVIDIA}/pull/598"

    def color(self, configs: Sequence[JsonObject]) -> str:
        for config in configs:
            parameters = config["opaque"]["parameters"]
            if parameters.get("kind") == "Paint":
                for name in parameters.keys() - {"apiVersion", "kind", "color"}:
                    del parameters[name]
        return super().color(configs)


class ExactRequests(Mutant):
    """Ignores the configuration of a request for the alternatives of that request."""

    check = "config.subrequests"
    source = f"{NVIDIA}/pull/1356; {CPU}/pull/278"

    def ready(self, claim: JsonObject) -> list[JsonObject]:
        devices = claim["status"]["allocation"]["devices"]
        names = {result["request"] for result in devices["results"]}
        devices["config"] = [
            one
            for one in devices.get("config") or ()
            if not one.get("requests") or names & set(one["requests"])
        ]
        return super().ready(claim)


class DiesOfConfig(Mutant):
    """Exits if parameters have an unexpected shape."""

    check = "config.odd-values"
    source = f"{NVIDIA}/issues/1185 (nil pointer dereference); {EXAMPLE}/issues/240"

    def color(self, configs: Sequence[JsonObject]) -> str:
        if any(one["opaque"]["parameters"] == {} for one in configs):
            self.alive = False
        return super().color(configs)


class NoShareId(Mutant):
    """Omits the share's ID from its answer."""

    check = "shares.share-id"
    source = f"{KUBERNETES}/issues/134519"

    def answer(self, uid: str, result: JsonObject, color: str) -> JsonObject:
        found = super().answer(uid, result, color)
        return {**found, "share_id": None, "admin": found["admin"] or bool(found["share_id"])}


MUTANTS = (
    OncePrepared,
    LeavesOut,
    AllOrNothing,
    TakesEveryDriver,
    ByNameAlone,
    WholeNames,
    FirstRequest,
    AnyDevice,
    FilesBeforeChecks,
    NotExclusive,
    TooExclusive,
    AdminTakes,
    OldAllocation,
    TrustsName,
    Unlocked,
    ReadsToUnprepare,
    KnownOnly,
    LeavesOutEmpty,
    LenientFields,
    ExactRequests,
    DiesOfConfig,
    NoShareId,
)
