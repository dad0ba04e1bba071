"""Upstream's test cases of the device taint eviction controller of kube-controller-manager."""

import itertools
from typing import Any

import msgspec
import pytest
from dra_controller.devicetainteviction import DeviceTaintEvictionController
from dra_controller.devicetainteviction.model import (
    Eviction,
    PodRef,
    Reason,
    RuleRef,
    RuleTaint,
    SliceTaint,
    Work,
)
from dra_controller.devicetainteviction.pool import Pool
from dra_controller.devicetainteviction.state import AllocatedClaim
from dra_controller.framework import Context
from dra_shared.api.codec import convert, to_builtins
from dra_shared.api.resources import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from dra_shared.client.errors import ApiError
from dra_shared.client.informer import Informer, InformerFactory
from dra_shared.clock import FakeClock, parse_rfc3339
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36
from prometheus_client import CollectorRegistry

from tests.support.cases import each_case
from tests.support.fakeapi import Call, FakeApi
from tests.support.reference import load_vectors

_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource for resource in (PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_TAINT_RULES)
}
_MOST_ORDERS = 24


class _World:
    def __init__(self, start: str, *, pod_groups: bool) -> None:
        self.api = FakeApi()
        self.client = self.api.client()
        self.clock = FakeClock(parse_rfc3339(start))
        self.informers = InformerFactory(self.client, self.clock)
        gates = FeatureGates(V1_36, DRADeviceTaintRules=True, DRAWorkloadResourceClaims=pod_groups)
        self.controller = DeviceTaintEvictionController(
            Context(self.client, self.informers, self.clock, gates, CollectorRegistry())
        )
        self.state = self.controller.state
        self._versions = itertools.count(1)

    def informer(self, kind: str) -> Informer[Any]:
        return self.informers.informer(_RESOURCES[kind])

    def set_up(self, initial: JsonObject) -> None:
        """Start from a state as after the events that led to it."""
        for obj in initial["pods"]:
            self.informer("Pod").store.put(_decode(obj))
        for obj in initial["rules"]:
            rule = _decode(obj)
            self.informer("DeviceTaintRule").store.put(rule)
            if rule.spec.taint.effect == "NoExecute":
                self.state.rules[rule.metadata.name] = rule
        for obj in initial["slices"]:
            piece = _decode(obj)
            self.informer("ResourceSlice").store.put(piece)
            self.state.pools.setdefault((piece.spec.driver, piece.spec.pool.name), Pool()).add(piece)
        for entry in initial["allocatedClaims"]:
            claim = _decode(entry["claim"])
            self.informer("ResourceClaim").store.put(claim)
            self.state.claims[claim.key] = AllocatedClaim(claim, self._eviction(entry["eviction"]))
        for entry in initial["deletePodAt"]:
            eviction = self._eviction(entry["eviction"])
            assert eviction is not None
            self.state.evictions[_work(entry)] = eviction  # type: ignore[index]  # typed loosely
        for uid, stats in initial["ruleStats"].items():
            self.state.evicted_by_rule[uid] = stats["numEvictedPods"]
        for item in initial["queued"]["ready"]:
            self.controller.queue.add(_work(item))
        for item in initial["queued"]["later"]:
            self.controller.queue.add_after(_work(item["item"]), item["delaySeconds"])

    def _eviction(self, entry: JsonObject | None) -> Eviction | None:
        if entry is None:
            return None
        reasons: list[Reason] = []
        for reason in entry["reasons"]:
            if "deviceTaintRule" in reason:
                reasons.append(RuleTaint(self.state.rules[reason["deviceTaintRule"]["name"]]))
            else:
                piece = self.informer("ResourceSlice").store.get(reason["resourceSlice"])
                assert piece is not None
                device = next(d for d in piece.spec.devices if d.name == reason["device"])
                reasons.append(SliceTaint(piece, device, reason["taintIndex"]))
        return Eviction(parse_rfc3339(entry["when"]), tuple(reasons))

    def event(self, event: JsonObject) -> None:
        informer = self.informer(event["kind"])
        if event["event"] == "delete":
            obj = _decode(event["old"])
            if informer.store.get(obj.key) is None:
                informer.store.put(obj)
            informer._remove(obj.key, obj)
        else:
            meta = {**event["new"]["metadata"], "resourceVersion": str(next(self._versions))}
            informer._apply(_decode({**event["new"], "metadata": meta}))

    async def work(self) -> list[Call]:
        """Process all due work. Return the writes."""
        before = len(self.api.calls)
        queue = self.controller.queue
        while queue._ready:
            work = await queue.get()
            try:
                await self.controller.reconcile(work)
            except ApiError:
                queue.add_rate_limited(work)
            else:
                queue.forget(work)
            finally:
                queue.done(work)
            self.catch_up()
        await self.controller.recorder.flush()
        return self.api.calls[before:]

    def catch_up(self) -> None:
        """Have the informers observe the stored objects."""
        for kind, plural in (("Pod", "pods"), ("DeviceTaintRule", "devicetaintrules")):
            informer = self.informer(kind)
            there = {}
            for obj in self.api.of(plural):
                meta = {**obj["metadata"], "resourceVersion": str(next(self._versions))}
                typed = _decode({**obj, "metadata": meta})
                there[typed.key] = typed
            for key in set(informer.store.keys()) - there.keys():
                informer._remove(key, None)
            for typed in there.values():
                informer._apply(typed)

    def queued_work(self) -> JsonObject:
        queue = self.controller.queue
        now = self.clock.monotonic()
        later = [{"item": _work_json(work), "delaySeconds": due - now} for work, due in queue._due.items()]
        return {
            "ready": sorted((_work_json(work) for work in queue._ready), key=str),
            "later": sorted(later, key=lambda item: str(item["item"])),
        }


def _decode(obj: JsonObject) -> Any:
    typed = convert(_RESOURCES[obj["kind"]], _without_nulls(obj))
    return msgspec.structs.replace(typed, api_version="")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _plain(obj: Any) -> JsonObject:
    """Return an object without fields that differ between reads."""
    typed = obj if not isinstance(obj, dict) else _decode(obj)
    meta = msgspec.structs.replace(typed.metadata, resource_version="")
    result = to_builtins(msgspec.structs.replace(typed, metadata=meta, api_version=""))
    assert isinstance(result, dict)
    return result


def _work(entry: JsonObject) -> Work:
    if "pod" in entry:
        pod = entry["pod"]
        return PodRef(pod["namespace"], pod["name"], pod["uid"])
    return RuleRef(entry["deviceTaintRule"]["name"], entry["deviceTaintRule"]["uid"])


def _work_json(work: Work) -> JsonObject:
    if isinstance(work, PodRef):
        return {"pod": {"name": work.name, "namespace": work.namespace, "uid": work.uid}}
    return {"deviceTaintRule": {"name": work.name, "uid": work.uid}}


def _eviction_json(eviction: Eviction | None) -> JsonObject | None:
    if eviction is None:
        return None
    reasons = [
        {"deviceTaintRule": {"name": reason.rule.metadata.name, "uid": reason.rule.metadata.uid}}
        if isinstance(reason, RuleTaint)
        else {
            "device": reason.device.name,
            "resourceSlice": reason.slice.metadata.name,
            "taintIndex": reason.index,
        }
        for reason in eviction.reasons
    ]
    return {"when": eviction.when.strftime("%Y-%m-%dT%H:%M:%SZ"), "reasons": reasons}


def _state_json(world: _World) -> JsonObject:
    state = world.state
    slices = [_plain(piece) for pool in state.pools.values() for piece in pool.slices()]
    return {
        "allocatedClaims": sorted(
            (
                {"claim": _plain(known.claim), "eviction": _eviction_json(known.eviction)}
                for known in state.claims.values()
            ),
            key=str,
        ),
        "deletePodAt": _evictions_json(world),
        "ruleStats": {uid: {"numEvictedPods": number} for uid, number in state.evicted_by_rule.items()},
        "slices": sorted(slices, key=str),
        "queued": world.queued_work(),
    }


def _evictions_json(world: _World) -> list[JsonObject]:
    entries = [
        {**_work_json(pod), "eviction": _eviction_json(eviction)}
        for pod, eviction in world.state.evictions.items()
    ]
    return sorted(entries, key=str)


def _expected_state(expected: JsonObject) -> JsonObject:
    return {
        "allocatedClaims": sorted(
            ({"claim": _plain(e["claim"]), "eviction": e["eviction"]} for e in expected["allocatedClaims"]),
            key=str,
        ),
        "deletePodAt": sorted(expected["deletePodAt"], key=_by_pod),
        "ruleStats": expected["ruleStats"],
        "slices": sorted((_plain(obj) for obj in expected["slices"]), key=str),
        "queued": _expected_queue(expected["queued"]),
    }


def _by_pod(entry: JsonObject) -> str:
    return str({"pod": entry["pod"]})


def _expected_queue(queued: JsonObject) -> JsonObject:
    return {
        "ready": sorted(queued["ready"], key=str),
        "later": sorted(queued["later"], key=lambda item: str(item["item"])),
    }


def _call(call: Call) -> JsonObject:
    result: JsonObject = {
        "verb": call.verb,
        "resource": call.resource,
        "subresource": call.subresource,
        "namespace": call.namespace,
        "name": call.name,
    }
    if call.verb == "patch":
        result |= {"patch": call.body, "patchType": call.content_type}
    else:
        result["preconditions"] = call.body.get("preconditions")
    return result


def _expected_call(call: JsonObject) -> JsonObject:
    result: JsonObject = {
        "verb": call["verb"],
        "resource": call["resource"],
        "subresource": call.get("subresource", ""),
        "namespace": call["namespace"],
        "name": call["name"],
    }
    if call["verb"] == "patch":
        result |= {"patch": call["patch"], "patchType": call["patchType"]}
    else:
        result["preconditions"] = call["deleteOptions"].get("preconditions")
    return result


def _orders(events: list[Any]) -> list[list[Any]]:
    return [list(order) for order in itertools.islice(itertools.permutations(events), _MOST_ORDERS)]


@each_case(
    "case",
    [
        pytest.param(case, id=case["name"])
        for case in load_vectors("tainteviction.json.gz")
        if case["test"] == "TestController"
    ],
)
async def test_controller_state_agrees_with_upstream_after_events_in_any_order(case: JsonObject) -> None:
    for number, order in enumerate(_orders(case["events"])):
        world = _World(case["startTime"], pod_groups=case["DRAWorkloadResourceClaims"])
        world.set_up(case["initialState"])
        for event in itertools.chain.from_iterable(e if isinstance(e, list) else [e] for e in order):
            world.event(event)
        assert _to_lists(_state_json(world)) == _to_lists(_expected_state(case["expectStateAfterEvents"]))
        for kind in ("Pod", "DeviceTaintRule"):
            for obj in world.informer(kind).store.list():
                world.api.add({**to_builtins(obj), "kind": kind})
        for step in case["expectProcess"]:
            calls = await world.work()
            writes = [_call(call) for call in calls if call.resource != "events"]
            expected = [_expected_call(call) for call in step["actualAPICalls"]]
            if number:
                writes.sort(key=str)
                expected.sort(key=str)
            assert writes == expected
            assert [_plain(obj) for obj in world.api.of("pods")] == [_plain(obj) for obj in step["pods"]]
            rules = [_plain(obj) for obj in world.api.of("devicetaintrules")]
            assert _without_zeros(rules) == _without_zeros([_plain(obj) for obj in step["rules"]])
            assert _evictions_json(world) == sorted(step["deletePodAt"], key=_by_pod)
            stats = {uid: {"numEvictedPods": n} for uid, n in world.state.evicted_by_rule.items()}
            assert stats == step["ruleStats"]
            assert world.queued_work() == _expected_queue(step["queuedProcessed"])
            await world.clock.advance(step["advanceSeconds"])
            assert world.queued_work() == _expected_queue(step["queuedShifted"])
        await world.controller.recorder.flush()
        recorded = [
            {key: call.body[key] for key in ("type", "reason", "message")}
            | {"involvedObject": call.body["involvedObject"]}
            for call in world.api.calls
            if call.resource == "events"
        ]
        wanted = case["expectEvents"] or []
        if number:
            recorded.sort(key=str)
            wanted = sorted(wanted, key=str)
        assert _to_lists(recorded) == _to_lists(wanted)
        world.controller.queue.shut_down()


def _to_lists(value: Any) -> Any:
    """Replace tuples by lists, so that failed comparisons are readable."""
    return msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))


def _without_zeros(rules: list[JsonObject]) -> list[JsonObject]:
    for rule in rules:
        for condition in rule["status"].get("conditions", ()):
            if condition.get("observedGeneration") == 0:
                del condition["observedGeneration"]
    return rules


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["name"])
        for case in load_vectors("tainteviction.json.gz")
        if case["test"] == "TestEviction"
    ],
)
async def test_evictions_agree_with_upstream(case: JsonObject) -> None:
    """Objects are observed as after the test's own writes, in order of creation."""
    world = _World("2000-01-01T00:00:00Z", pod_groups=False)
    known: dict[tuple[str, str], JsonObject] = {}
    for obj in case["initialObjects"]:
        known[obj["kind"], obj["metadata"]["name"]] = obj
        world.api.add(obj)
        world.event({"event": "add", "kind": obj["kind"], "new": obj})
    theirs: list[tuple[str | None, JsonObject]] = []
    ours: list[tuple[str | None, JsonObject]] = []
    for call in case["apiCalls"]:
        kind = {resource.plural: kind for kind, resource in _RESOURCES.items()}.get(call["resource"])
        is_ours = kind is None or (kind == "Pod" and call["verb"] in ("patch", "delete"))
        (ours if is_ours else theirs).append((kind, call))
    for kind, call in theirs:
        assert kind is not None
        if call["verb"] == "delete":
            gone = known.pop((kind, call["name"]))
            world.event({"event": "delete", "kind": kind, "old": gone})
            continue
        obj = call["object"]
        known[kind, obj["metadata"]["name"]] = obj
        world.api.add(obj)
        world.event({"event": "add", "kind": kind, "new": obj})
    calls = await world.work()
    writes = [_call(call) for call in calls if call.resource != "events"]
    assert writes == [_expected_call(call) for kind, call in ours if kind is not None]
    events = [call.body for call in calls if call.resource == "events"]
    wanted = [call["object"] for kind, call in ours if kind is None]
    fields = ("involvedObject", "reason", "message", "type", "count", "firstTimestamp", "lastTimestamp")
    assert [{f: e[f] for f in fields} for e in events] == [{f: e[f] for f in fields} for e in wanted]
    world.controller.queue.shut_down()
