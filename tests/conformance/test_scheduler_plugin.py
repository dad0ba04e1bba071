"""The DynamicResources plugin agrees with the real one at every extension point (scheduler_plugin)."""

import asyncio
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from dra_scheduler.allocator import Features
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.dra.podgroups import PodGroups
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.state import CycleState
from dra_scheduler.framework.status import Status
from dra_scheduler.plugins.dynamicresources.plugin import DynamicResources
from dra_shared.api.codec import to_builtins
from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import (
    DEVICE_CLASSES,
    NODES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dra_shared.client.events import Recorder
from dra_shared.clock import FakeClock, parse_rfc3339
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, release

from tests.conformance.plain import decode
from tests.support.cases import each_case
from tests.support.fakeapi import Call, FakeApi
from tests.support.reference import load_vectors

_CASES = load_vectors("scheduler_plugin.json.gz")
_UNIT = {"ns": 1e-9, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# No pod has these uids, and nothing that is compared depends on the values.
_IGNORED = {"uid", "resourceVersion", "creationTimestamp", "shareID", "allocationTimestamp", "device"}


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    total, number = 0.0, ""
    unit = ""
    for char in text + "0":
        if char.isdigit() or char == ".":
            if unit:
                total += float(number) * _UNIT[unit]
                number, unit = "", ""
            number += char
        else:
            unit += char
    return total


class _TickingClock(FakeClock):
    """A clock that advances by a microsecond at each read."""

    ticks = 0

    def monotonic(self) -> float:
        self.ticks += 1
        return super().monotonic() + self.ticks * 1e-6


class Bench:
    """The cluster and the plugin of one case."""

    def __init__(self, case: JsonObject) -> None:
        self.case = case
        self.gates = FeatureGates(
            V1_36, **(dict.fromkeys(release(V1_36).gates, False) | dict.fromkeys(case["features"], True))
        )
        self.api = FakeApi()
        self.api.refuse = self._refuse
        self.clock = _TickingClock(_start(case))
        self.manager = DRAManager(Features.from_gates(self.gates, V1_36))
        self.groups = PodGroups()
        client = self.api.client()
        self.plugin = DynamicResources(
            self.gates,
            self.manager,
            client,
            pod_groups=self.groups,
            recorder=Recorder(client, "test", clock=self.clock, rng=random.Random(1)),
            clock=self.clock,
            filter_timeout=_seconds(case["args"].get("filterTimeout")),
            binding_timeout=_seconds(case["args"].get("bindingTimeout")) or 600.0,
            new_uid=lambda: "in-memory",
        )
        # The pod's status may have been recorded after the step. The pod among the objects is the one before
        # it.
        name = case["pod"]["metadata"]["name"]
        before = [obj for obj in case["objects"] if obj["kind"] == "Pod" and obj["metadata"]["name"] == name]
        status = before[0]["status"] if before else case["pod"]["status"]
        self.pod = decode(PODS, {**case["pod"], "status": status})
        self._load()

    def _load(self) -> None:
        case = self.case
        for device_class in case["deviceClasses"]:
            self.manager.set_class(decode(DEVICE_CLASSES, device_class))
        self.nodes = {}
        for obj in case["nodes"]:
            info = NodeInfo(obj["metadata"]["name"])
            info.set_node(decode(NODES, obj))
            self.nodes[info.name] = info
        for group in case["podGroups"]:
            self.groups.set_group(decode(POD_GROUPS, group))
        self.api.add(case["pod"])
        for obj in case["objects"]:
            if obj["kind"] == "ResourceSlice":
                self.manager.slices.set_slice(decode(RESOURCE_SLICES, obj))
            elif obj["kind"] == "Pod":
                self.api.add(obj)
                pod = decode(PODS, obj)
                self.groups.set_pod(pod, placed=bool(pod.spec.node_name))
        for obj in case["claimsInCluster"]:
            stored = self.api.add(obj)
            self.manager.claims.set_claim(decode(RESOURCE_CLAIMS, stored))
        for obj in case["inFlightClaims"]:
            self.manager.claims.signal_pending(decode(RESOURCE_CLAIMS, obj))
        self.api.on_write = self._inform

    def _inform(self, event: str, resource: str, obj: JsonObject) -> None:
        # The informer reports new claims. The plugin has to follow later changes of claims itself.
        if resource == "resourceclaims" and event == "ADDED":
            self.manager.claims.set_claim(decode(RESOURCE_CLAIMS, obj))

    def _refuse(self, call: Call) -> tuple[int, str, str] | None:
        if self.case["failPatch"] and call.verb == "patch":
            return 500, "", "patch error"
        if self.case["name"].endswith("claim-creation-failure") and call.verb == "create":
            return 500, "", "claim creation errors"
        return None


def _start(case: JsonObject) -> datetime:
    """Return when the case was recorded: its allocation time, or else a time after all allocations."""
    actual = [step["actual"] for step in case["steps"] if isinstance(step.get("actual"), dict)]
    written = {
        stamp
        for step in actual
        for call in step.get("apiCalls") or ()
        if (stamp := _stamp(call.get("object")))
    }
    known = {stamp for claim in case["claimsInCluster"] if (stamp := _stamp(claim))}
    moments = sorted(written - known) or sorted(known) or ["2026-11-20T15:38:00Z"]
    start = parse_rfc3339(moments[-1])
    return start if written - known or not known else start + _RECORDED_AFTER.get(case["name"], timedelta())


def _stamp(claim: JsonObject | None) -> str | None:
    allocation: JsonObject = ((claim or {}).get("status") or {}).get("allocation") or {}
    return allocation.get("allocationTimestamp")


# The time since the claim of the case was allocated.
_RECORDED_AFTER = {
    "bound-claim-with-timed-out-binding": timedelta(minutes=10, seconds=10),
    "bound-claim-with-mixed-binding-conditions": timedelta(minutes=10, seconds=10),
    "prebind-fail-with-binding-timeout": timedelta(minutes=9, seconds=58),
}


def _comparable(value: Any) -> Any:
    """Drop the fields that upstream's test ignores, and empty ones."""
    if isinstance(value, dict):
        found = {name: _comparable(item) for name, item in value.items() if name not in _IGNORED}
        return {name: item for name, item in found.items() if item not in (None, {}, [], "", ())}
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    return value


def _claims(claims: Iterator[ResourceClaim] | list[ResourceClaim]) -> list[Any]:
    found = [_comparable(to_builtins(claim)) for claim in claims]
    return sorted((_bare(claim) for claim in found), key=str)


def _bare(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


def _expected_claims(claims: list[JsonObject] | None) -> list[Any]:
    return sorted((_bare(_comparable(claim)) for claim in claims or ()), key=str)


def _check_status(status: Status | None, expected: JsonObject) -> None:
    code = status.code.value if status is not None else "Success"
    assert code == expected["code"], status
    if status is not None and expected.get("reasons") is not None:
        assert list(status.reasons) == expected["reasons"]


def _check_calls(calls: list[Call], expected: list[JsonObject] | None) -> None:
    found = [
        {
            "verb": call.verb,
            "resource": call.resource,
            "subresource": call.subresource,
            "name": call.name if call.verb in ("patch", "delete") else "",
            ("patch" if call.verb == "patch" else "object"): {} if call.verb == "delete" else call.body,
        }
        for call in calls
        if call.resource != "events"
    ]
    wanted = [
        {name: value for name, value in call.items() if name not in ("namespace", "patchType")}
        for call in expected or ()
    ]
    assert [_comparable(call) for call in found] == [_comparable(call) for call in wanted]


class Run:
    """The steps of a case, in order."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.state = CycleState()
        self.node = ""
        self.result: Any = None
        self.statuses: dict[str, Status] = {}
        self.scores: dict[str, int] = {}
        self.others: list[Call] = []

    async def step(self, step: JsonObject) -> None:
        """Run one step and compare its result with that of the real plugin."""
        bench, name = self.bench, step["step"]
        bench.api.calls.clear()
        if name == "concurrentUpdateInCluster":
            bench.api.add(step["object"])
            # In the recording, this call belongs to the step that allocates some of the claims next.
            self.others.append(Call("update", "resourceclaims", "", "", "", step["object"]))
            return
        if name == "selectNode":
            self.node = step["node"]
            return
        if name in ("preFilterResult", "scoreResult", "normalizeScoreResult", "postFilterResult"):
            return
        status = await self._take(name)
        expected = step["actual"]
        if name == "preBindPreFlight":
            _check_status(status, expected or {"code": "Success"})
            return
        _check_status(status, expected["status"])
        _check_calls(self.others + bench.api.calls, expected["apiCalls"])
        self.others.clear()
        claims = [decode(RESOURCE_CLAIMS, obj) for obj in bench.api.of("resourceclaims")]
        assert _claims(claims) == _expected_claims(expected["claims"])
        assert _claims(bench.manager.claims.in_flight) == _expected_claims(expected["inFlightClaims"])
        assert _claims(bench.manager.claims.assumed_claims) == _expected_claims(expected["assumedClaims"])
        if "pod" in expected:
            pods = [obj for obj in bench.api.of("pods") if obj["metadata"]["name"] == bench.pod.metadata.name]
            assert _bare(_comparable(pods[0])) == _bare(_comparable(expected["pod"]))

    async def _take(self, name: str) -> Status | None:
        plugin, state, pod = self.bench.plugin, self.state, self.bench.pod
        point, _, node_name = name.partition("/")
        node = self.bench.nodes.get(node_name)
        match point:
            case "PreEnqueue":
                return plugin.pre_enqueue(pod)
            case "prefilter":
                names, status = plugin.pre_filter(state, pod)
                assert names is None
                return status
            case "filter":
                assert node is not None
                if self.bench.case["cancelFilter"]:
                    state.deadline.cancel("test canceling Filter")
                status = plugin.filter(state, pod, node)
                if status is not None:
                    self.statuses[node_name] = status
                return status
            case "score":
                assert node is not None
                self.scores[node_name] = plugin.score(state, pod, node)
                return None
            case "normalizeScore":
                self.scores = plugin.normalize(state, pod, self.scores)
                return None
            case "reserve":
                return plugin.reserve(state, pod, self.node)
            case "preBindPreFlight":
                return plugin.pre_bind_pre_flight(state, pod, self.node)
            case "prebind":
                return await self._pre_bind(pod)
            case "postfilter":
                _, status = await plugin.post_filter(state, pod, self.statuses)
                return status
        assert point.startswith("unreserve")
        await plugin.unreserve(state, pod, self.node)
        return None

    async def _pre_bind(self, pod: Pod) -> Status | None:
        clock = self.bench.clock
        task = asyncio.ensure_future(self.bench.plugin.pre_bind(self.state, pod, self.node))
        for _ in range(200):
            await clock.advance(0)
            if task.done():
                break
            await clock.advance(5)
        return await task


@each_case("case", _CASES, ids=[case["name"] for case in _CASES])
async def test_plugin_agrees_with_upstream_at_each_step(case: JsonObject) -> None:
    run = Run(Bench(case))
    for index, step in enumerate(case["steps"]):
        await run.step(step)
        if step["step"].startswith("score/") and step["step"] != "scoreResult":
            before = case["steps"][index - 1]
            assert run.scores[before["node"]] == before["actual"]
        if step["step"] == "normalizeScore":
            before = case["steps"][index - 1]
            assert run.scores == {entry["Name"]: entry["Score"] for entry in before["actual"]}
