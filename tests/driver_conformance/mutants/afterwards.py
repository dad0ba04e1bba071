"""Bugs that show with several claims over a restart, with a second stream, or with configuration of a class."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject

from tests.driver_conformance.mutants.mutant import KUBERNETES, NVIDIA, Mutant
from tests.driver_conformance.servicers import Refused

_EXAMPLE = "https://github.com/kubernetes-sigs/dra-example-driver/blob/main/cmd/dra-example-kubeletplugin"
_KEP = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4381-dra-structured-parameters"


class ForgetsAllButTheLast(Mutant):
    """After a restart it knows only the claim that was prepared last. The CDI files stay."""

    check = "prepare.exclusive-after-restart"
    source = f"{NVIDIA}/issues/839 (checkpoints)"

    def load(self) -> None:
        super().load()
        self.prepared = dict(list(self.prepared.items())[-1:])


class LosesClaimsWithoutApi(Mutant):
    """At its start it drops the claims that it cannot read, whatever the error is."""

    check = "prepare.started-in-outage"
    source = f"{NVIDIA}/issues/1278 (stale claims are removed by the driver)"

    async def start(self) -> None:
        await super().start()
        for uid in list(self.prepared):
            try:
                await self.get(f"/api/v1/nodes/{self.node}")
            except RuntimeError:
                del self.prepared[uid]
                self.remove_cdi(uid)
        self.save()


class ForgetsSettings(Mutant):
    """Its checkpoint has no settings: after a restart a claim is prepared with the defaults."""

    check = "cdi.same-after-restart"
    source = f"{_EXAMPLE}/checkpoint.go"

    def load(self) -> None:
        super().load()
        for devices in self.prepared.values():
            for device in devices:
                device["color"] = "grey"


class ForgetsShares(Mutant):
    """Its checkpoint has no shares: after a restart they are answered as whole devices."""

    check = "shares.after-restart"
    source = f"{KUBERNETES}/issues/134519"

    def load(self) -> None:
        super().load()
        for devices in self.prepared.values():
            for device in devices:
                device["share_id"] = None


class ReadsOldClaimsToUnprepare(Mutant):
    """Claims of before a restart are read from the API server when they are unprepared."""

    check = "unprepare.gone-after-restart"
    source = f"{NVIDIA}/issues/840"

    old: frozenset[str] = frozenset()

    def load(self) -> None:
        super().load()
        self.old = frozenset(self.prepared)

    async def unprepare_one(self, claim: Any) -> str:
        if claim.uid in self.old:
            try:
                await self.read(claim)
            except Refused as error:
                return str(error)
        return await super().unprepare_one(claim)


class KnowsClaimsByName(Mutant):
    """A claim that has the name of one that is still prepared gets that one's devices."""

    check = "prepare.same-name"
    source = f"{_KEP} (claims are known by UID)"

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        names: dict[tuple[str, str], str] = self.__dict__.setdefault("names", {})
        old = names.setdefault((claim.namespace, claim.name), claim.uid)
        if old != claim.uid and old in self.prepared:
            return self.prepared[old]
        names[claim.namespace, claim.name] = claim.uid
        return await super().prepare_one(claim)


class TwoSharesAtMost(Mutant):
    """A device is shared by two claims, however much capacity is left."""

    check = "shares.three-claims"
    source = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5075-dra-consumable-capacity"

    def check_free(self, claim: JsonObject) -> None:
        super().check_free(claim)
        held = [
            one["device_name"] for devices in self.prepared.values() for one in devices if one["share_id"]
        ]
        for result in claim["status"]["allocation"]["devices"]["results"]:
            if result.get("shareID") and held.count(result["device"]) > 1:
                raise Refused(f"{result['device']} has no more shares")


class OverlooksTheClass(Mutant):
    """Ignores the configuration of the class if the claim has any configuration, even for another driver."""

    check = "config.class-kept"
    source = f"{_EXAMPLE}/state.go (configuration of class and claim)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        own = super().configs_of(configs, request)
        return [one for one in own if one["source"] == "FromClaim"] or own


class TakesTheFirstEntry(Mutant):
    """The first of two entries of a claim for a device counts."""

    check = "config.last-counts"
    source = f"{_EXAMPLE}/state.go (the list is searched from its end)"

    def configs_of(self, configs: Sequence[JsonObject], request: str) -> Sequence[JsonObject]:
        own = super().configs_of(configs, request)
        of_claim = [one for one in own if one["source"] == "FromClaim"]
        return [*(one for one in own if one["source"] != "FromClaim"), *reversed(of_claim)]

    def color(self, configs: Sequence[JsonObject]) -> str:
        own = [one for one in configs if one["opaque"]["driver"] == self.name]
        for one in own:
            super().color([one])
        return super().color(own[-1:])


class IsLenientWithClasses(Mutant):
    """Unknown fields of a class's configuration are ignored."""

    check = "config.unknown-field-of-class"
    source = f"{_EXAMPLE}/state.go (one decoder for both)"

    def color(self, configs: Sequence[JsonObject]) -> str:
        known = ("apiVersion", "kind", "color", "layers")

        def strip(one: JsonObject) -> JsonObject:
            parameters = one["opaque"]["parameters"]
            if one["source"] != "FromClass" or not isinstance(parameters, dict):
                return one
            kept = {key: value for key, value in parameters.items() if key in known}
            return {**one, "opaque": {**one["opaque"], "parameters": kept}}

        return super().color([strip(one) for one in configs])


class OneStreamAtATime(Mutant):
    """A second health stream gets nothing while the first is open."""

    check = "health.two-streams"
    source = f"{KUBERNETES}/pull/139477 (streams of several versions)"

    async def reports(self) -> AsyncIterator[list[Any]]:
        turn: asyncio.Lock = self.__dict__.setdefault("turn", asyncio.Lock())
        async with turn:
            async for report in super().reports():
                yield report


class OldTimes(Mutant):
    """Its reports have the time of its start."""

    check = "health.renewed-times"
    source = f"{KUBERNETES}/blob/v1.37.0/staging/src/k8s.io/kubelet/pkg/apis/dra-health/v1/api.proto"

    report_every = 1.3

    def health(self, device: str) -> Any:
        found = super().health(device)
        found.last_updated_time = self.__dict__.setdefault("began", int(time.time()))
        return found


class MountsItsDirectory(Mutant):
    """Each container gets the plugin's directory, with its socket and all claims' files."""

    check = "cdi.own-directories"
    source = "https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md (mounts)"

    def metadata_mounts(self, device: JsonObject) -> list[JsonObject]:
        mount = {"hostPath": str(self.plugins), "containerPath": "/driver", "options": ["ro"]}
        return [*super().metadata_mounts(device), mount]


MUTANTS: Sequence[type[Mutant]] = [
    ForgetsAllButTheLast,
    LosesClaimsWithoutApi,
    ForgetsSettings,
    ForgetsShares,
    ReadsOldClaimsToUnprepare,
    KnowsClaimsByName,
    TwoSharesAtMost,
    OverlooksTheClass,
    TakesTheFirstEntry,
    IsLenientWithClasses,
    OneStreamAtATime,
    OldTimes,
    MountsItsDirectory,
]
