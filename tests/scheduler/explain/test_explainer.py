"""Explanations of pods and claims describe the true reasons and helpful changes."""

import itertools
import random
import textwrap
from types import SimpleNamespace
from typing import Any

import msgspec
from dra_scheduler.allocator import Features, Trace
from dra_scheduler.allocator.reasons import DeadEnd, InUse, SelectorRejected, Tainted
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.hint import summarize
from dra_scheduler.explain.report import PodReport
from dra_scheduler.explain.text import render
from dra_scheduler.explain.whatif import WhatIf
from dra_scheduler.plugins.profiles import load
from dra_scheduler.scheduler import Scheduler
from dra_scheduler.wiring import new_scheduler
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES
from dra_shared.clock import FakeClock
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from tests.scheduler.explain.worlds import explain, simulation, text_of
from tests.scheduler.objects import (
    DRIVER,
    allocated_claim,
    claim,
    claim_json,
    class_json,
    node,
    node_json,
    piece,
    pod,
    pod_json,
)
from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi
from tests.support.sampling import sample


def _scheduler() -> Scheduler:
    return new_scheduler(SchedulerConfig(health_port=None), client=FakeApi().client(), clock=FakeClock())


def _world(
    scheduler: Scheduler, *, request: JsonObject | None = None, devices: int = 2, **device: Any
) -> None:
    scheduler.cache.set_node(node("node-1"))
    scheduler.manager.set_class(convert(DEVICE_CLASSES, class_json()))
    scheduler.manager.slices.set_slice(piece("node-1", devices, **device))
    scheduler.manager.claims.set_claim(claim("mine", request=request))


def _explain(scheduler: Scheduler) -> PodReport:
    waiting = pod("p", claims={"gpu": "mine"})
    scheduler.explainer._find_pod = {"default/p": waiting}.get
    scheduler.queue.add(waiting)
    report = scheduler.explainer.pod("default", "p")
    assert report is not None
    return report


async def test_the_last_message_about_a_pod_is_kept_after_its_claim_was_deleted() -> None:
    scheduler = _scheduler()
    _world(scheduler, devices=0)
    _explain(scheduler)
    entry = scheduler.queue.try_pop()
    assert entry is not None
    scheduler.queue.reject(entry, {"DynamicResources"}, "0/1 nodes are available")
    scheduler.manager.claims.delete_claim(claim("mine"))
    report = scheduler.explainer.pod("default", "p")
    assert report is not None
    assert report.message == "0/1 nodes are available"
    assert report.change is not None
    assert report.change.text == "until ResourceClaim default/mine exists"


async def test_a_device_in_use_names_the_claim_that_holds_it() -> None:
    scheduler = _scheduler()
    _world(scheduler, devices=1)
    other = allocated_claim("theirs", "gpu-0")
    reserved = {"reservedFor": [{"resource": "pods", "name": "their-pod", "uid": "u"}]}
    status = msgspec.convert({**msgspec.to_builtins(other.status), **reserved}, type(other.status))
    scheduler.manager.claims.set_claim(msgspec.structs.replace(other, status=status))
    report = _explain(scheduler)
    [request] = report.nodes[0].requests
    assert request.devices[0].device == f"{DRIVER}/node-1/gpu-0"
    assert request.devices[0].reasons == ("in use by claim default/theirs (their-pod)",)
    assert report.change is not None
    assert report.change.text == "if claim default/theirs gave its devices back"
    assert report.change.claims == ("default/theirs",)
    assert "their-pod" in render(report)


async def test_a_tainted_device_names_the_taint_and_the_toleration_that_helps() -> None:
    scheduler = _scheduler()
    _world(scheduler, taints=[{"key": "broken", "value": "yes", "effect": "NoSchedule"}])
    report = _explain(scheduler)
    assert report.change is not None
    assert report.change.kind == "tolerate"
    assert report.change.text == "if request gpu of claim default/mine tolerated taint broken=yes:NoSchedule"


async def test_a_failed_selector_shows_the_values_that_it_compared() -> None:
    scheduler = _scheduler()
    expression = f'device.attributes["{DRIVER}"].index > 5'
    _world(scheduler, request={"selectors": [{"cel": {"expression": expression}}]})
    report = _explain(scheduler)
    reasons = [device.reasons[0] for device in report.nodes[0].requests[0].devices]
    assert len(reasons) == 2
    assert all(expression in reason for reason in reasons)
    assert "0" in reasons[0]
    assert report.change is not None
    assert report.change.kind == "selector"


async def test_too_few_devices_are_reported_with_their_number() -> None:
    scheduler = _scheduler()
    _world(scheduler, request={"count": 3})
    report = _explain(scheduler)
    assert not report.nodes[0].fits
    assert (report.nodes[0].requests[0].count, report.nodes[0].requests[0].suitable) == (3, 2)
    assert report.change is not None
    assert report.change.text == "if request gpu of claim default/mine asked for 2 instead of 3"


async def test_no_change_is_proposed_if_no_single_change_makes_the_pod_fit() -> None:
    scheduler = _scheduler()
    selectors = [{"cel": {"expression": "false"}}] * 2
    _world(scheduler, request={"selectors": selectors})
    scheduler.cache.set_node(node("node-1", unschedulable=True))
    report = _explain(scheduler)
    assert report.change is None
    assert "no single change" in render(report)


async def test_rejections_by_other_plugins_are_included() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    scheduler.cache.set_node(node("node-1", unschedulable=True))
    report = _explain(scheduler)
    assert report.nodes[0].objections == {"NodeUnschedulable": ("node(s) were unschedulable",)}
    assert report.change is not None
    assert report.change.text == "if it were uncordoned: kubectl uncordon node-1"


async def test_an_incomplete_pool_names_its_generation() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    part = piece("node-1", 2)
    pool = msgspec.structs.replace(part.spec.pool, resource_slice_count=2, generation=3)
    spec = msgspec.structs.replace(part.spec, pool=pool)
    scheduler.manager.slices.set_slice(msgspec.structs.replace(part, spec=spec))
    report = _explain(scheduler)
    assert report.nodes[0].pools[0].problem == "incomplete: 1 of 2 slices of generation 3"
    assert report.change is not None
    assert report.change.text == f"if pool {DRIVER}/node-1 did not wait for 1 of 2 slices of generation 3"


async def test_a_node_with_devices_of_the_class_is_the_closest_node() -> None:
    scheduler = _scheduler()
    _world(scheduler, devices=1, taints=[{"key": "broken", "effect": "NoSchedule"}])
    scheduler.cache.set_node(node("node-0"))
    scheduler.cache.set_node(node("node-2"))
    other = piece("node-0", 3)
    spec = msgspec.structs.replace(other.spec, driver="other.example.com")
    scheduler.manager.slices.set_slice(msgspec.structs.replace(other, spec=spec))
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    scheduler.manager.set_class(convert(DEVICE_CLASSES, class_json(selectors=selectors)))
    report = _explain(scheduler)
    assert report.closest == "node-1"
    assert [part.count for part in report.summary] == [3]
    assert summarize(report.nodes[0]) == "[node-1: 1 device taint broken:NoSchedule is not tolerated]"


async def test_a_node_that_needs_one_change_is_the_closest_node() -> None:
    scheduler = _scheduler()
    _world(scheduler, devices=1, request={"selectors": [{"cel": {"expression": "false"}}]})
    scheduler.cache.set_node(node("node-0"))
    scheduler.manager.slices.set_slice(piece("node-0", 1))
    scheduler.manager.claims.set_claim(allocated_claim("theirs", "gpu-0", pool="node-0"))
    report = _explain(scheduler)
    assert [part.node for part in report.nodes] == ["node-1", "node-0"]
    assert report.change is not None
    assert (report.closest, report.change.node) == ("node-1", "node-1")


async def test_changing_the_class_is_proposed_only_if_no_device_matches_it() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    index = f'device.attributes["{DRIVER}"].index'
    for expression, change in ((f"{index} == 0", "free"), ("false", "classSelector")):
        selectors = [{"cel": {"expression": expression}}]
        scheduler.manager.set_class(convert(DEVICE_CLASSES, class_json(selectors=selectors)))
        request: JsonObject = {"selectors": [{"cel": {"expression": f"{index} < 2"}}], "count": 1}
        scheduler.manager.claims.set_claim(claim("mine", request=request))
        scheduler.manager.claims.set_claim(allocated_claim("theirs", "gpu-0"))
        report = _explain(scheduler)
        assert report.change is not None
        assert report.change.kind == change


async def test_a_missing_class_and_a_missing_claim_are_named() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    scheduler.manager.delete_class("gpu")
    report = _explain(scheduler)
    assert report.change is not None
    assert (report.change.node, report.change.text) == ("", "until device class gpu exists")
    waiting = pod("p", claims={"gpu": "nope"})
    scheduler.explainer._find_pod = {"default/p": waiting}.get
    report_or_none = scheduler.explainer.pod("default", "p")
    assert report_or_none is not None
    assert report_or_none.change is not None
    assert report_or_none.change.text == "until ResourceClaim default/nope exists"


async def test_a_claim_in_two_entries_of_a_pod_is_named() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    waiting = pod("p", claims={"one": "mine", "two": "mine"})
    scheduler.explainer._find_pod = {"default/p": waiting}.get
    scheduler.queue.add(waiting)
    report = scheduler.explainer.pod("default", "p")
    assert report is not None
    assert report.change is not None
    assert report.change.text == (
        "until it is created with ResourceClaim default/mine in one entry of spec.resourceClaims alone: "
        "a claim is reserved for a pod only once"
    )


async def test_a_driver_that_has_published_nothing_is_named() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    expression = "device.driver == 'nic.example.com' && true"
    selectors = [{"cel": {"expression": expression}}]
    scheduler.manager.set_class(convert(DEVICE_CLASSES, class_json(selectors=selectors)))
    change = _explain(scheduler).change
    assert change is not None
    assert (change.node, change.kind) == ("", "driver")
    assert change.text == "until driver nic.example.com, which device class gpu is for, publishes devices"


async def test_the_event_describes_the_closest_node() -> None:
    scheduler = _scheduler()
    scheduler.manager.set_class(convert(DEVICE_CLASSES, class_json()))
    for number in range(20):
        name = f"node-{number:02}"
        scheduler.cache.set_node(node(name))
        # All devices are in use except one of node 13, which is tainted.
        tainted = number == 13
        taints = {"taints": [{"key": "broken", "effect": "NoSchedule"}]} if tainted else {}
        scheduler.manager.slices.set_slice(piece(name, 2, **taints))
        for device in range(1 if tainted else 2):
            scheduler.manager.claims.set_claim(
                allocated_claim(f"c-{number}-{device}", f"gpu-{device}", pool=name)
            )
    scheduler.manager.claims.set_claim(claim("mine"))
    waiting = pod("p", claims={"gpu": "mine"})
    for info in scheduler.cache.nodes():
        assert info.node is not None
        scheduler.manager.snapshot.pools(info.node)
    hint = scheduler.explainer.hint(waiting, (info.name for info in scheduler.cache.nodes()))
    assert hint == (
        "[node-13: 1 device in use (by claim default/c-13-0); "
        "1 device taint broken:NoSchedule is not tolerated]"
    )


async def test_a_capacity_shortage_names_the_claims_that_hold_the_rest() -> None:
    scheduler = _scheduler()
    request = {"capacity": {"requests": {"memory": "6Gi"}}}
    capacity = {"memory": {"value": "8Gi"}}
    _world(scheduler, devices=1, request=request, allowMultipleAllocations=True, capacity=capacity)
    share: JsonObject = {"shareID": "s", "consumedCapacity": {"memory": "4Gi"}}
    scheduler.manager.claims.set_claim(allocated_claim("shared", "gpu-0", **share))
    report = _explain(scheduler)
    [detail] = report.nodes[0].requests[0].devices[0].details
    assert msgspec.to_builtins(detail) == {
        "kind": "capacityShort",
        "gist": "capacity memory",
        "values": "needs 6Gi, lacks 2Gi, claim default/shared has some",
        "capacity": "memory",
        "needed": "6Gi",
        "left": "4Gi",
        "missing": "2Gi",
        "claims": ("default/shared",),
    }


async def test_the_explanation_of_a_scheduled_pod_shows_its_node_and_devices() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    scheduler.manager.claims.set_claim(allocated_claim("mine", "gpu-1", version="2"))
    scheduler.manager.claims.set_claim(allocated_claim("theirs", "gpu-0"))
    placed = pod("p", claims={"gpu": "mine"}, nodeName="node-1")
    scheduler.explainer._find_pod = {"default/p": placed}.get
    report = scheduler.explainer.pod("default", "p")
    assert report is not None
    assert (report.state, report.node) == ("placed", "node-1")
    assert report.nodes[0].allocated == (f"{DRIVER}/node-1/gpu-1",)
    assert report.nodes[0].requests[0].devices[0].reasons == ("in use by claim default/theirs",)


async def test_a_claim_is_explained_by_the_pod_that_uses_it() -> None:
    scheduler = _scheduler()
    _world(scheduler)
    assert scheduler.explainer.claim("default", "nope") is None
    unused = scheduler.explainer.claim("default", "mine")
    assert unused is not None
    assert unused.state == "unused"
    waiting = pod("p", claims={"gpu": "mine"})
    scheduler.explainer._find_pod = {"default/p": waiting}.get
    scheduler.queue.add(waiting)
    entry = scheduler.queue.try_pop()
    assert entry is not None
    scheduler.queue.reject(entry, {"DynamicResources"}, "cannot allocate all claims")
    report = scheduler.explainer.claim("default", "mine")
    assert report is not None
    assert (report.pod, report.message) == ("default/p", "cannot allocate all claims")


def test_a_claim_is_explained_by_a_pod_that_waits_in_the_active_queue() -> None:
    claimed = pod_json("p", claims={"gpu": "mine"})
    world = simulation(node_json("n"), class_json(), claim_json("mine"), claimed)
    report = world.scheduler.explainer.claim("default", "mine")
    assert report is not None
    assert (report.pod, report.state) == ("default/p", "pending: active")
    world.close()


@each_case("seed", sample(range(60), 25))
def test_each_reason_is_true_and_its_removal_changes_the_verdict(seed: int) -> None:
    """In a random world, the device is no longer rejected for a reason after its cause was removed."""
    rng = random.Random(seed)
    manager = DRAManager(Features.from_gates(FeatureGates()))
    manager.set_class(convert(DEVICE_CLASSES, class_json()))
    devices = []
    for i in range(rng.randint(2, 6)):
        taints = [{"key": f"k{rng.randint(0, 1)}", "value": "v", "effect": "NoSchedule"}] * rng.randint(0, 1)
        devices.append(
            {"name": f"gpu-{i}", "attributes": {"index": {"int": i}, "big": {"bool": rng.random() < 0.5}}}
            | ({"taints": taints} if taints else {})
        )
    whole = piece("node-1", 1)
    spec = msgspec.convert({**msgspec.to_builtins(whole.spec), "devices": devices}, type(whole.spec))
    manager.slices.set_slice(msgspec.structs.replace(whole, spec=spec))
    for i in range(len(devices)):
        if rng.random() < 0.4:
            manager.claims.set_claim(allocated_claim(f"holder-{i}", f"gpu-{i}"))
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].big'}}] * rng.randint(0, 1)
    mine = claim("mine", request={"selectors": selectors, "count": len(devices) + 1})
    trace = Trace()
    assert manager.allocator.allocate(node("node-1"), [mine], trace=trace) is None
    what_if = WhatIf(manager, lambda: None)
    checked = 0
    for device, reasons in trace.requests[0].devices.items():
        for reason in reasons:
            if not isinstance(reason, InUse | SelectorRejected | Tainted):
                continue
            _is_true(manager, device, reason, devices)
            changed = what_if.without_reason([mine], trace.requests[0], reason)
            again = Trace()
            changed.allocator(manager).allocate(node("node-1"), changed.claims, trace=again)
            assert reason not in again.requests[0].devices.get(device, [])
            checked += 1
    others = [reason for reasons in trace.requests[0].devices.values() for reason in reasons]
    assert checked or all(isinstance(reason, DeadEnd) for reason in others)


def test_nodes_that_were_not_examined_in_time_are_counted() -> None:
    world = simulation(*(node_json(f"n{number}", unschedulable=True) for number in range(8)), pod_json("p"))
    explainer = world.scheduler.explainer
    times = itertools.count()
    explainer._clock = SimpleNamespace(monotonic=lambda: next(times) * 0.5)
    report = explainer.pod("default", "p", most_nodes=2)
    assert report is not None
    assert (report.not_examined, report.nodes_left_out, report.summary[0].count) == (3, 6, 5)
    line = "stopped for lack of time: 3 of 8 nodes were not examined, and a closer one may be among them"
    assert line in text_of(report)
    world.close()


def test_a_node_whose_free_resources_are_reserved_for_a_nominated_pod_does_not_fit() -> None:
    first = pod_json("first", requests={"cpu": "3"}, priority=10)
    second = pod_json("second", requests={"cpu": "3"})
    world = simulation(node_json("n"), first, second)
    cache = world.scheduler.cache
    nominated = world.pod("default/first")
    assert nominated is not None
    cache.nominations.set(nominated, "n")
    report = world.scheduler.explainer.pod("default", "second")
    assert report is not None
    [node] = report.nodes
    assert not node.fits
    assert node.objections == {"NodeResourcesFit": ("Insufficient cpu",)}
    assert node.saw == {
        "NodeResourcesFit": ("room is kept for pods that are nominated for the node: default/first",)
    }
    assert report.change is not None
    assert report.change.text == "if pods that are nominated for the node did not need it: default/first"
    of_first = world.scheduler.explainer.pod("default", "first")
    assert of_first is not None
    assert of_first.nodes[0].fits
    world.close()


def test_a_pod_that_fits_now_is_explained_as_waiting_for_its_next_attempt() -> None:
    world = simulation(node_json("n", unschedulable=True), pod_json("p"), settle=True)
    scheduler = world.scheduler
    # The scheduling queue is not notified, as if the event had been missed.
    scheduler.cache.set_node(node("n"))
    report = scheduler.explainer.pod("default", "p")
    assert report is not None
    assert report.nodes[0].fits
    assert report.change is not None
    assert report.change.kind == "retry"
    assert report.change.text == (
        "until something changes that may help it, or 300 s: a node can take it now"
    )
    world.close()


def test_a_pod_in_a_cluster_without_nodes_waits_for_a_node() -> None:
    report = explain("p", pod_json("p"))
    assert "it has to wait until there is a node" in text_of(report)


def test_extenders_that_might_reject_nodes_are_named() -> None:
    configuration = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        extenders:
        - {urlPrefix: "http://all.example", filterVerb: filter}
        - {urlPrefix: "http://scores.example", prioritizeVerb: score, weight: 1}
        - {urlPrefix: "http://other.example", filterVerb: filter, managedResources: [{name: example.com/other}]}
    """
    gates = FeatureGates()
    config = SchedulerConfig(gates=gates, loaded=load(textwrap.dedent(configuration), gates))
    report = explain("p", node_json("n"), pod_json("p"), config=config)
    assert report.not_asked == ("http://all.example",)
    assert "not asked: extender http://all.example, which might reject nodes" in text_of(report)


def _is_true(manager: DRAManager, device: Any, reason: Any, devices: list[JsonObject]) -> None:
    spec = next(entry for entry in devices if entry["name"] == device.device)
    if isinstance(reason, InUse):
        assert manager.claims.state.owner(device) == reason.claims
    elif isinstance(reason, Tainted):
        assert msgspec.to_builtins(reason.taint) in spec["taints"]
    else:
        assert spec["attributes"]["big"] == {"bool": False}
