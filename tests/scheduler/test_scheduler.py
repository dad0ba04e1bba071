"""The whole scheduler with a fake API server."""

import asyncio

import httpx
from dra_shared.features import FeatureGates
from dra_shared.version import V1_34

from tests.scheduler.objects import DRIVER, claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, node_of, quiet, run_scheduler
from tests.support.fakeapi import Call, FakeApi
from tests.support.waiting import until


def _devices(api: FakeApi) -> list[str]:
    return [
        f"{result['pool']}/{result['device']}"
        for claim in api.of("resourceclaims")
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", ())
    ]


async def test_a_plain_pod_is_bound() -> None:
    api = FakeApi(node_json("a"))
    async with run_scheduler(api):
        api.add(pod_json("p", requests={"cpu": "1"}))
        await until(lambda: node_of(api, "p") == "a")
        await until(lambda: events(api, "p") == ["Scheduled: Successfully assigned default/p to a"])


async def test_a_pod_is_unschedulable_without_nodes() -> None:
    api = FakeApi()
    async with run_scheduler(api):
        api.add(pod_json("p"))
        await until(lambda: condition(api, "p"))
        assert condition(api, "p")["message"] == "no nodes available to schedule pods"
        api.add(node_json("a"))
        await until(lambda: node_of(api, "p"))


async def test_claim_is_stored_in_the_order_of_the_real_scheduler() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"))
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p"))
    writes = [(c.verb, c.resource, c.subresource) for c in api.calls if c.resource != "events"]
    assert writes == [
        ("patch", "pods", "status"),
        ("update", "resourceclaims", ""),
        ("update", "resourceclaims", "status"),
        ("create", "pods", "binding"),
    ]
    stored = api.get("resourceclaims", "default", "c")
    assert stored["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert stored["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    assert stored["status"]["allocation"]["devices"]["results"] == [
        {"request": "gpu", "driver": DRIVER, "pool": "a", "device": "gpu-0"}
    ]
    assert stored["status"]["allocation"]["allocationTimestamp"] == "2026-01-01T00:00:00Z"


async def test_pod_without_a_node_reports_why_and_is_tried_again_when_that_changes() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 0), claim_json("c"))
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        message = (
            "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        reported = condition(api, "p")
        assert (reported["status"], reported["reason"], reported["message"]) == (
            "False",
            "Unschedulable",
            message,
        )
        await until(lambda: events(api, "p"))
        assert events(api, "p")[0].startswith(f"FailedScheduling: {message}")
        api.add(slice_json("a", 1))
        await until(lambda: node_of(api, "p"))


async def test_pod_waits_for_its_claim_from_a_template() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1))
    pod = pod_json("p", claims={})
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    async with run_scheduler(api) as (scheduler, _):
        api.add(pod)
        await quiet(api)
        assert scheduler.queue.count_by_place()["gated"] == 1
        claim = claim_json("p-gpu")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
        claim["metadata"]["ownerReferences"] = [owner]
        api.add(claim)
        pod["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "p-gpu"}]
        api.add(pod)
        await until(lambda: node_of(api, "p"))


async def test_a_missing_device_class_is_named_in_the_condition() -> None:
    api = FakeApi(node_json("a"), slice_json("a", 1), claim_json("c"))
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        assert condition(api, "p")["message"] == (
            "0/1 nodes are available: request gpu: device class gpu does not exist. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        api.add(class_json())
        await until(lambda: node_of(api, "p"))


async def test_a_selector_that_fails_makes_the_attempt_an_error() -> None:
    broken = {"selectors": [{"cel": {"expression": 'device.attributes["missing"].thing'}}]}
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c", request=broken))
    async with run_scheduler(api) as (scheduler, _):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        reported = condition(api, "p")
        assert reported["reason"] == "SchedulerError"
        assert reported["message"] == (
            'running "DynamicResources" filter plugin: claim default/c: selector #0 on device gpu.example.com/a/gpu-0: '
            "CEL runtime error: no such key: thing. consider using CEL optional chaining (.? followed by orValue()) "
            "or guarding the check with has() for optional fields"
        )
        assert scheduler.queue.count_by_place()["backoff"] == 1


async def test_every_device_is_allocated_to_only_one_claim() -> None:
    api = FakeApi(
        class_json(),
        *(obj for name in ("a", "b", "c") for obj in (node_json(name), slice_json(name, 3))),
        *(claim_json(f"c{i}") for i in range(12)),
    )
    async with run_scheduler(api) as (scheduler, _):
        for i in range(12):
            api.add(pod_json(f"p{i}", claims={"gpu": f"c{i}"}))
        await until(lambda: len(_devices(api)) == 9)
        await quiet(api)
        assert len(set(_devices(api))) == 9
        assert sum(node_of(api, f"p{i}") is not None for i in range(12)) == 9
        assert scheduler.queue.count_by_place()["unschedulable"] == 3
        assert not scheduler.manager.claims.in_flight


async def test_two_schedulers_never_allocate_one_claim_twice() -> None:
    """Both decide on claims that their pods share. The later one gets a conflict and starts over."""
    api = FakeApi(class_json(), node_json("a"), slice_json("a", 4), *(claim_json(f"c{i}") for i in range(4)))
    async with (
        run_scheduler(api, scheduler_name="one") as (_, clock),
        run_scheduler(api, clock, scheduler_name="two"),
    ):
        for i in range(4):
            for name in ("one", "two"):
                api.add(pod_json(f"{name}-{i}", claims={"gpu": f"c{i}"}, schedulerName=name))
        for _ in range(30):
            await quiet(api)
            await clock.advance(5)
        for claim in api.of("resourceclaims"):
            assert len(claim["status"]["allocation"]["devices"]["results"]) == 1
            assert len(claim["status"]["reservedFor"]) == 2
        assert all(node_of(api, f"{name}-{i}") for i in range(4) for name in ("one", "two"))


async def test_two_schedulers_never_allocate_one_device_twice() -> None:
    """Both allocate different claims at the same moment, and score the same devices highest."""
    api = FakeApi(class_json(), node_json("a"), slice_json("a", 4))
    async with (
        run_scheduler(api, scheduler_name="one") as (_, clock),
        run_scheduler(api, clock, scheduler_name="two"),
    ):
        for i in range(4):
            for name in ("one", "two"):
                api.add(claim_json(f"{name}-{i}"))
                api.add(pod_json(f"{name}-{i}", claims={"gpu": f"{name}-{i}"}, schedulerName=name))
        for _ in range(20):
            await quiet(api)
            bound = [p["metadata"]["name"] for p in api.of("pods") if p["spec"].get("nodeName")]
            held = [
                result["device"]
                for name in bound
                for result in api.get("resourceclaims", "default", name)["status"]["allocation"]["devices"][
                    "results"
                ]
            ]
            assert len(set(held)) == len(held)
            await clock.advance(5)
        assert len(bound) == 4
        assert sorted(_devices(api)) == [f"a/gpu-{i}" for i in range(4)]


async def test_a_failed_binding_is_rolled_back_and_retried() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"))
    refusals = [(500, "InternalError", "out of order")]
    api.refuse = lambda call: refusals.pop() if call.subresource == "binding" and refusals else None
    async with run_scheduler(api) as (scheduler, clock):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        await quiet(api)
        assert condition(api, "p")["message"] == 'running Bind plugin "DefaultBinder": out of order'
        assert "reservedFor" not in api.get("resourceclaims", "default", "c")["status"]
        assert not scheduler.manager.claims.in_flight
        assert scheduler.cache.place_of("uid-p") is None
        await clock.advance(2)
        await until(lambda: node_of(api, "p") == "a")
    assert len(_devices(api)) == 1


async def test_a_pod_with_a_claim_in_two_entries_stays_pending() -> None:
    """Upstream's PreBind binds the claim for each entry: the second time it is allocated, later reserved."""
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 2), claim_json("c"))

    def refuse(call: Call) -> tuple[int, str, str] | None:
        if call.resource != "resourceclaims" or call.subresource != "status" or call.verb != "update":
            return None
        reserved = call.body["status"]["reservedFor"]
        return (422, "Invalid", "Duplicate value") if len(reserved) > 1 else None

    api.refuse = refuse
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("p", claims={"one": "c", "two": "c"}))
        for problem in (
            "claim default/c got allocated elsewhere in the meantime",
            "add reservation to claim default/c: Duplicate value",
        ):
            for _ in range(2):  # The end of the back-off, and the delay after the conflict.
                await quiet(api)
                await clock.advance(1)
            await quiet(api)
            text = f'running PreBind plugin "DynamicResources": {problem}'
            assert condition(api, "p")["message"] == text
    assert node_of(api, "p") is None
    assert len(_devices(api)) == 1


async def test_failed_allocation_frees_the_device() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"), claim_json("d"))

    def refuse(call: Call) -> tuple[int, str, str] | None:
        broken = call.resource == "resourceclaims" and call.name == "c" and call.subresource == "status"
        return (422, "Invalid", "never") if broken and call.verb == "update" else None

    api.refuse = refuse
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        text = "add allocation and reservation to claim default/c: never"
        assert condition(api, "p")["message"] == f'running PreBind plugin "DynamicResources": {text}'
        api.add(pod_json("q", claims={"gpu": "d"}))
        await until(lambda: node_of(api, "q"))


async def test_pods_of_other_schedulers_are_ignored() -> None:
    api = FakeApi(node_json("a"))
    async with run_scheduler(api) as (scheduler, _):
        api.add(pod_json("theirs", schedulerName="other"))
        api.add(pod_json("by-hand", nodeName="a", requests={"cpu": "4"}))
        done = pod_json("done")
        done["status"]["phase"] = "Succeeded"
        api.add(done)
        api.add(pod_json("gated", schedulingGates=[{"name": "wait"}]))
        api.add(pod_json("ours", requests={"cpu": "1"}))
        await until(lambda: condition(api, "ours"))
        await quiet(api)
        assert "Insufficient cpu" in condition(api, "ours")["message"]
        assert [node_of(api, name) for name in ("theirs", "done", "gated")] == [None, None, None]
        assert len(scheduler.queue) == 2
        api.remove("pods", "default", "by-hand")
        await until(lambda: node_of(api, "ours") == "a")


async def test_a_pod_shares_an_allocated_claim_with_another_pod() -> None:
    api = FakeApi(node_json("a"), node_json("b"), class_json(), slice_json("b", 1), claim_json("c"))
    async with run_scheduler(api):
        for name in ("p", "q"):
            api.add(pod_json(name, claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p") and node_of(api, "q"))
    assert node_of(api, "p") == node_of(api, "q") == "b"
    reserved = api.get("resourceclaims", "default", "c")["status"]["reservedFor"]
    assert sorted(entry["name"] for entry in reserved) == ["p", "q"]


async def test_extended_resource_gets_a_claim() -> None:
    api = FakeApi(node_json("a"), class_json(extendedResourceName="example.com/gpu"), slice_json("a", 2))
    async with run_scheduler(api):
        api.add(pod_json("p", requests={"example.com/gpu": "2"}))
        api.add(pod_json("q", requests={"deviceclass.resource.kubernetes.io/gpu": "1"}))
        await until(lambda: node_of(api, "p"))
        await until(lambda: condition(api, "q"))
        [claim] = api.of("resourceclaims")
        assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert sorted(_devices(api)) == ["a/gpu-0", "a/gpu-1"]
        status = api.get("pods", "default", "p")["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == claim["metadata"]["name"]
        assert node_of(api, "q") is None


async def test_devices_tainted_by_a_rule_are_not_allocated() -> None:
    rule = {
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "a"},
            "taint": {"key": "broken", "value": "yes", "effect": "NoSchedule"},
        },
    }
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"), rule)
    async with run_scheduler(api, gates=FeatureGates(DRADeviceTaintRules=True)):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: events(api, "p"))
        assert "broken" in events(api, "p")[0]
        api.remove("devicetaintrules", "", "broken")
        await until(lambda: node_of(api, "p"))


async def test_a_device_taint_rule_of_1_34_taints_the_devices_of_its_class() -> None:
    rule = {
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"deviceClassName": "second"},
            "taint": {"key": "broken", "effect": "NoSchedule"},
        },
    }
    second = class_json(
        "second", selectors=[{"cel": {"expression": "device.attributes[device.driver].index == 1"}}]
    )
    api = FakeApi(
        node_json("a"), class_json(), second, slice_json("a", 2), claim_json("c"), claim_json("d"), rule
    )
    async with run_scheduler(api, gates=FeatureGates(V1_34, DRADeviceTaints=True)):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p"))
        api.add(pod_json("q", claims={"gpu": "d"}))
        await until(lambda: condition(api, "q"))
        assert not node_of(api, "q")
        assert len(_devices(api)) == 1
        # With another class, the result may differ.
        api.add({**second, "spec": {"selectors": [{"cel": {"expression": "false"}}]}})
        await until(lambda: node_of(api, "q"))


async def test_gang_is_placed_whole_or_not_at_all() -> None:
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    api = FakeApi(
        node_json("a"), class_json(), slice_json("a", 2), *(claim_json(f"c{i}") for i in range(3)), group
    )
    gates = FeatureGates(GenericWorkload=True, DRAWorkloadResourceClaims=True)
    async with run_scheduler(api, gates=gates) as (scheduler, clock):
        for i in range(3):
            assert not _devices(api)
            api.add(pod_json(f"p{i}", claims={"gpu": f"c{i}"}, schedulingGroup={"podGroupName": "g"}))
            await quiet(api)
        assert not _devices(api)
        assert not scheduler.manager.claims.in_flight
        assert all(condition(api, f"p{i}")["reason"] == "Unschedulable" for i in range(3))
        (reported,) = api.get("podgroups", "default", "g")["status"]["conditions"]
        assert (reported["type"], reported["status"], reported["reason"], reported["message"]) == (
            "PodGroupInitiallyScheduled",
            "False",
            "Unschedulable",
            "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, "
            "pod group preemption: No preemption victims found for incoming preemptor",
        )
        api.add(slice_json("a", 3))
        for _ in range(10):
            await quiet(api)
            await clock.advance(2)
        assert all(node_of(api, f"p{i}") == "a" for i in range(3))
        assert len(set(_devices(api))) == 3
        (reported,) = api.get("podgroups", "default", "g")["status"]["conditions"]
        assert (reported["status"], reported["reason"]) == ("True", "Scheduled")
        assert "message" not in reported


async def test_a_pod_of_lower_priority_is_preempted() -> None:
    api = FakeApi(node_json("a"))
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("low", requests={"cpu": "3"}, priority=0))
        await until(lambda: node_of(api, "low"))
        api.add(pod_json("never", requests={"cpu": "3"}, priority=5, preemptionPolicy="Never"))
        await until(lambda: condition(api, "never"))
        assert condition(api, "never")["message"].endswith("not eligible due to preemptionPolicy=Never.")
        api.add(pod_json("high", requests={"cpu": "3"}, priority=10))
        await quiet(api)
        await clock.advance(10)
        await until(lambda: node_of(api, "high") == "a")
    assert not api.has("pods", "default", "low")


async def test_preempting_pod_is_nominated_until_it_is_placed() -> None:
    api = FakeApi(node_json("a"), node_json("b", unschedulable=True))
    async with run_scheduler(api) as (scheduler, clock):
        api.add(pod_json("low", requests={"cpu": "3"}, priority=0))
        await until(lambda: node_of(api, "low"))
        api.add(pod_json("high", requests={"cpu": "3"}, priority=10))
        await until(lambda: api.get("pods", "default", "high")["status"].get("nominatedNodeName") == "a")
        await clock.advance(10)
        await until(lambda: node_of(api, "high") == "a")
        await quiet(api)
        assert not len(scheduler.cache.nominations)


async def test_nominations_are_read_from_the_api_server_at_start() -> None:
    """Resources are reserved for a pod that others were preempted for, even while it has a scheduling gate."""
    waiting = pod_json("high", requests={"cpu": "3"}, priority=10, schedulingGates=[{"name": "later"}])
    waiting["status"] = {"nominatedNodeName": "a"}
    api = FakeApi(node_json("a"), waiting)
    async with run_scheduler(api) as (scheduler, _):
        api.add(pod_json("low", requests={"cpu": "3"}, priority=0))
        await until(lambda: condition(api, "low"))
        assert "Insufficient cpu" in condition(api, "low")["message"]
        api.add(pod_json("higher", requests={"cpu": "3"}, priority=11))
        await until(lambda: node_of(api, "higher") == "a")
        api.remove("pods", "default", "high")
        await quiet(api)
        assert not len(scheduler.cache.nominations)


async def test_the_report_of_an_attempt_is_not_overtaken_by_the_next_one() -> None:
    """Once, the condition of a failed attempt was written after the pod had been bound."""
    held = asyncio.Event()

    class Slow(FakeApi):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/pods/p/status"):
                await held.wait()
            return await super().handle_async_request(request)

    api = Slow(node_json("a", unschedulable=True), pod_json("p"))
    async with run_scheduler(api):
        await until(lambda: api.writes("events"))
        api.add(node_json("b"))
        await quiet(api)
        assert not node_of(api, "p")
        held.set()
        await until(lambda: node_of(api, "p") == "b")
    assert [call.subresource for call in api.writes("pods")] == ["status", "binding"]


async def test_preemption_is_not_tried_if_an_earlier_prefilter_plugin_rejected_the_pod() -> None:
    names = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]
    required = {"nodeSelectorTerms": [{"matchFields": names}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    api = FakeApi(node_json("a"), pod_json("p", affinity=affinity))
    async with run_scheduler(api):
        await until(lambda: condition(api, "p"))
    assert condition(api, "p")["message"] == (
        "0/1 nodes are available: pod affinity terms conflict. not found"
    )


async def test_changed_taints_requeue_every_pod_that_waits_for_a_new_node() -> None:
    """Follows upstream (kubernetes/kubernetes#109437), so that the condition names the new taint."""
    api = FakeApi(node_json("a"), node_json("b"))
    async with run_scheduler(api):
        api.add(pod_json("p", requests={"cpu": "5"}))
        await until(lambda: condition(api, "p"))
        await quiet(api)
        assert condition(api, "p")["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        api.add(node_json("a", taints=[{"key": "t", "effect": "NoSchedule"}]))
        await quiet(api)
        assert condition(api, "p")["message"].startswith(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
        )
