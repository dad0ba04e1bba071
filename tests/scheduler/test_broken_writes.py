"""A pod is retried after any write on its way to its node fails, and nothing stays reserved."""

import itertools

import pytest
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, node_of, quiet, run_scheduler
from tests.support.fakeapi import Call, FakeApi
from tests.support.sampling import sample
from tests.support.waiting import until

_GATES = FeatureGates(GenericWorkload=True, DRAWorkloadResourceClaims=True)
_SPECIAL = "resource.kubernetes.io/extended-resource-claim"
_REFUSALS = {"refused": (500, "InternalError", "out of order"), "conflict": (409, "Conflict", "modified")}
_KINDS = ("extended", "claims", "shared", "template", "gang", "conditions")


def _pod_with_extended_resource(name: str) -> JsonObject:
    return pod_json(name, requests={"example.com/gpu": "1"})


def _cluster(kind: str) -> tuple[FakeApi, list[JsonObject]]:
    """Return a node with two devices, and two pods."""
    claims = [claim_json("c"), claim_json("d")]
    group: JsonObject = {}
    match kind:
        case "extended":
            claims, pods = [], [_pod_with_extended_resource("p"), _pod_with_extended_resource("q")]
        case "shared":
            pods = [pod_json(name, claims={"gpu": "c"}) for name in "pq"]
        case "template":
            pods = []
            for name, claim in zip("pq", claims, strict=True):
                owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}"}
                claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
                template = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
                made = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
                pod = pod_json(name)
                pod["spec"]["resourceClaims"], pod["status"]["resourceClaimStatuses"] = template, made
                pods.append(pod)
        case _:
            if kind == "gang":
                group = {"schedulingGroup": {"podGroupName": "g"}}
            pods = [pod_json("p", claims={"gpu": "c"}, **group), pod_json("q", claims={"gpu": "d"}, **group)]
    ready = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    slices = slice_json("a", 2, **(ready if kind == "conditions" else {}))
    api = FakeApi(node_json("a"), class_json(extendedResourceName="example.com/gpu"), slices, *claims)
    if group:
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        meta = {"name": "g", "namespace": "default", "uid": "uid-g"}
        api.add({"kind": "PodGroup", "metadata": meta, "spec": policy})
    return api, pods


def _devices(claim: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = claim["status"].get("allocation", {}).get("devices", {}).get("results", [])
    return found


def _make_ready(api: FakeApi) -> None:
    for claim in api.of("resourceclaims"):
        for result in _devices(claim)[: not claim["status"].get("devices")]:
            device = {name: result[name] for name in ("driver", "pool", "device")}
            ready = {"type": "ready", "status": "True"}
            status = {**claim["status"], "devices": [{**device, "conditions": [ready]}]}
            api.add({**claim, "status": status})


def _break_writes(api: FakeApi, how: str, first: int, count: int) -> None:
    """Fail ``count`` writes, starting with number ``first``. Events are never failed."""
    numbers = itertools.count()
    lost: list[Call] = []

    def refuse(call: Call) -> tuple[int, str, str] | None:
        if call.resource == "events" or call.verb in ("get", "list", "watch"):
            return None
        if not first <= next(numbers) < first + count:
            return None
        if how == "lost":
            lost.append(call)
        return _REFUSALS.get(how)

    api.refuse, api.lost = refuse, lambda call: any(call is each for each in lost)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "how"),
    sample(
        [
            *itertools.product(
                ("extended", "claims", "shared", "template", "gang", "conditions"),
                ("refused", "conflict", "lost"),
            )
        ],
        6,
    ),
)
async def test_after_a_failed_write_every_pod_is_retried_and_nothing_stays_reserved(
    kind: str, how: str
) -> None:
    for first, count in itertools.product((1, 2, 5, 7), (1, 6)):
        api, pods = _cluster(kind)
        _break_writes(api, how, first, count)
        async with run_scheduler(api, gates=_GATES) as (scheduler, clock):
            for pod in pods:
                api.add(pod)
            for _ in range(26):
                await quiet(api)
                if all(node_of(api, name) for name in "pq"):
                    break
                _make_ready(api)
                await clock.advance(1)
            at = f"{how} from {first} on, {count} of them"
            assert [node_of(api, name) for name in "pq"] == ["a", "a"], at
            used = [result["device"] for claim in api.of("resourceclaims") for result in _devices(claim)]
            assert len(used) == len(set(used)), at
            if kind == "extended":
                assert len(api.of("resourceclaims")) == 2, at
            tracker = scheduler.manager.claims
            assert [tracker.in_flight, tracker.assumed_claims, scheduler.cache.count_assumed] == [
                [],
                [],
                0,
            ], at


async def test_a_pod_is_retried_once_its_leftover_claim_is_deleted() -> None:
    """The claim for its extended resources was created, but the response was lost. The next attempt deletes it."""
    api, [pod, _] = _cluster("extended")
    _break_writes(api, "lost", 1, 1)
    async with run_scheduler(api) as (_, clock):
        api.add(pod)
        await quiet(api)
        [claim] = api.of("resourceclaims")
        assert "allocation" not in claim["status"]
        await clock.advance(2)
        await quiet(api)
        assert condition(api, "p")["message"] == (
            "0/1 nodes are available: 1 cannot schedule extended resource claim. deletion of ResourceClaim "
            "completed, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        await clock.advance(2)
        await until(lambda: node_of(api, "p") == "a")
        [claim] = api.of("resourceclaims")
        assert claim["metadata"]["annotations"] == {_SPECIAL: "true"}


async def test_a_pod_whose_claim_could_not_be_deallocated_is_retried() -> None:
    api, [pod, _] = _cluster("extended")
    # The claim is created. All other requests fail until the next attempt has failed to delete it.
    _break_writes(api, "refused", 2, 5)
    async with run_scheduler(api) as (_, clock):
        api.add(pod)
        await quiet(api)
        await clock.advance(2)
        await quiet(api)
        assert len(api.of("resourceclaims")) == 1
        for _ in range(5):
            await clock.advance(2)
            await quiet(api)
        assert node_of(api, "p") == "a"


async def test_a_claim_that_is_deleted_during_allocation_requeues_no_pod_until_1_36() -> None:
    """The claim's devices are free, but kube-scheduler requeues no pod in this case."""
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"), claim_json("d"))
    async with run_scheduler(api, gates=FeatureGates(V1_36)) as (scheduler, clock):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p"))
        api.add(pod_json("q", claims={"gpu": "d"}))
        await until(lambda: condition(api, "q"))
        api.remove("resourceclaims", "default", "c")
        await quiet(api)
        await clock.advance(200)
        await quiet(api)
        assert node_of(api, "q") is None
        assert scheduler.queue.count_by_place()["unschedulable"] == 1
        await clock.advance(130)
        await until(lambda: node_of(api, "q") == "a")
