"""Several schedulers that decide at the same moment, on different pods or on the same ones."""

import copy
from collections.abc import Callable

import httpx
from dra_shared.clock import settle
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import condition, events, node_of, quiet, run_scheduler
from tests.support.fakeapi import Call, FakeApi
from tests.support.waiting import until

_SHARED: JsonObject = {"allowMultipleAllocations": True}


class _RespellingApi(FakeApi):
    """Stores quantities in canonical form, as kube-apiserver does. Watches report a write before its response."""

    def __init__(self, *objects: JsonObject) -> None:
        super().__init__(*objects)
        self.admit = _respell

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        await settle(20)
        return response


def _respell(body: JsonObject) -> JsonObject:
    """Return the body of a write with the quantities of a claim in canonical form."""
    results = _results(body) if body.get("kind") == "ResourceClaim" else []
    for result in results:
        for name, text in result.get("consumedCapacity", {}).items():
            result["consumedCapacity"][name] = {"1074000000": "1074M"}.get(text, text)
    return body


def _results(claim: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = claim["status"].get("allocation", {}).get("devices", {}).get("results", [])
    return found


def _devices(api: FakeApi, name: str) -> list[str]:
    return [result["device"] for result in _results(api.get("resourceclaims", "default", name))]


def _foreign_claim(name: str, device: str, *, pod: str = "", **result: object) -> JsonObject:
    """Return a claim to which another scheduler has allocated the device of node a, for the pod."""
    claim = claim_json(name)
    claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": device, **result}]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
    claim["status"] = {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}
    if pod:
        claim["status"]["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]
    return claim


def _on_call(api: FakeApi, matches: Callable[[Call], bool], then: Callable[[], None]) -> None:
    """Run a callback just before the first request that matches."""
    pending = [then]

    def refuse(call: Call) -> None:
        if pending and matches(call):
            pending.pop()()

    api.refuse = refuse


def _stores(name: str) -> Callable[[Call], bool]:
    return lambda call: (
        call.resource == "resourceclaims" and call.subresource == "status" and call.name == name
    )


async def test_reformatted_quantities_of_a_schedulers_own_allocation_are_not_a_conflict() -> None:
    """A share of 1074000000, computed from the range's steps, is stored as 1074M."""
    policy = {"default": "1M", "validRange": {"min": "1M", "step": "1M"}}
    capacity = {"bandwidth": {"value": "10G", "requestPolicy": policy}}
    wanted = {"capacity": {"requests": {"bandwidth": "1073741824"}}}
    pods = range(8)
    api = _RespellingApi(
        node_json("a", labels={}),
        class_json(),
        slice_json("a", 1, capacity=capacity, **_SHARED),
        *(claim_json(f"c{i}", request=wanted) for i in pods),
    )
    async with run_scheduler(api):
        for i in pods:
            api.add(pod_json(f"p{i}", claims={"gpu": f"c{i}"}))
        await until(lambda: all(node_of(api, f"p{i}") for i in pods))
        await quiet(api)
    assert [
        result["consumedCapacity"]["bandwidth"] for c in api.of("resourceclaims") for result in _results(c)
    ] == ["1074M"] * len(pods)
    assert not [text for i in pods for text in events(api, f"p{i}") if "FailedScheduling" in text]


async def test_the_scheduler_that_writes_later_allocates_another_device() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 2), claim_json("c"), claim_json("other"))
    _on_call(api, _stores("c"), lambda: _add(api, _foreign_claim("other", "gpu-0", pod="x")))
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        assert condition(api, "p")["message"] == (
            'running PreBind plugin "DynamicResourcesRivals": '
            "devices of claim default/c were allocated for claim default/other in the meantime"
        )
        assert not _devices(api, "c")
        await clock.advance(10)
        await until(lambda: node_of(api, "p"))
    assert _devices(api, "c") == ["gpu-1"]


async def test_the_scheduler_that_writes_later_keeps_its_share_if_capacity_is_left() -> None:
    slices = slice_json("a", 1, capacity={"memory": {"value": "3"}}, **_SHARED)
    wanted = {"capacity": {"requests": {"memory": "1"}}}
    share = {"shareID": "s", "consumedCapacity": {"memory": "2"}}
    api = FakeApi(node_json("a"), class_json(), slices, claim_json("c", request=wanted), claim_json("other"))
    _on_call(api, _stores("c"), lambda: _add(api, _foreign_claim("other", "gpu-0", pod="x", **share)))
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: node_of(api, "p"))
    assert not [text for text in events(api, "p") if "FailedScheduling" in text]


async def test_a_pod_is_not_bound_with_an_allocation_that_another_scheduler_will_remove() -> None:
    """The other scheduler allocated the device later. It detects the conflict and removes its allocation."""
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 2), claim_json("first"), claim_json("c"))
    api.add(_foreign_claim("first", "gpu-0", pod="x"))
    api.add(_foreign_claim("c", "gpu-0", pod="p"))
    async with run_scheduler(api) as (_, clock):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: condition(api, "p"))
        assert node_of(api, "p") is None
        await clock.advance(10)
        await until(lambda: node_of(api, "p"))
    assert _devices(api, "c") == ["gpu-1"]
    assert _devices(api, "first") == ["gpu-0"]


async def test_claims_of_a_pod_that_another_scheduler_bound_are_not_deallocated() -> None:
    """This scheduler is too late for both: another claim got the device, and the pod has been bound."""
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 2), claim_json("c"), claim_json("other"))
    seen = api.version

    def meanwhile() -> None:
        _add(api, _foreign_claim("other", "gpu-0", pod="x"))
        _bind(api, "p", quietly=True)

    _on_call(api, _stores("c"), meanwhile)
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: api.version > seen and _devices(api, "c"))
        await quiet(api)
    assert _devices(api, "c") == ["gpu-0"]
    assert node_of(api, "p") == "a"


async def test_reservations_of_a_pod_that_another_scheduler_bound_are_kept() -> None:
    api = FakeApi(node_json("a"), class_json(), slice_json("a", 1), claim_json("c"))

    def refuse(call: Call) -> tuple[int, str, str] | None:
        if call.subresource != "binding":
            return None
        _bind(api, "p", quietly=True)
        return 409, "Conflict", 'pod p is already assigned to node "a"'

    api.refuse = refuse
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: events(api, "p"))
        await quiet(api)
    assert api.get("resourceclaims", "default", "c")["status"]["reservedFor"]


async def test_postfilter_does_not_deallocate_claims_of_a_pod_that_another_scheduler_bound() -> None:
    """This scheduler may not use the node that the claim is allocated on."""
    api = FakeApi(node_json("a"), node_json("b"), class_json(), slice_json("a", 1))
    api.add(_foreign_claim("c", "gpu-0", pod="p"))
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}, nodeSelector={"kubernetes.io/hostname": "b"}))
        _bind(api, "p", quietly=True)
        await until(lambda: condition(api, "p"))
        await quiet(api)
    assert _devices(api, "c") == ["gpu-0"]


async def test_a_claim_that_is_deallocated_while_its_pod_is_bound_is_allocated_again() -> None:
    """The pod is bound to another node between the last check and the write."""
    api = FakeApi(node_json("a"), node_json("b"), class_json(), slice_json("a", 1), claim_json("c"))
    api.add(_foreign_claim("c", "gpu-0", pod="p"))
    _on_call(api, _stores("c"), lambda: _bind(api, "p"))
    async with run_scheduler(api):
        api.add(pod_json("p", claims={"gpu": "c"}, nodeSelector={"kubernetes.io/hostname": "b"}))
        await until(lambda: node_of(api, "p"))
        await quiet(api)
        await until(lambda: _devices(api, "c"))
    claim = api.get("resourceclaims", "default", "c")
    assert _devices(api, "c") == ["gpu-0"]
    assert [consumer["name"] for consumer in claim["status"]["reservedFor"]] == ["p"]


def _add(api: FakeApi, obj: JsonObject) -> None:
    api.add(obj)


def _bind(api: FakeApi, name: str, *, quietly: bool = False) -> None:
    """Bind the pod as another scheduler would. With ``quietly`` no watch event is sent yet."""
    pod = copy.deepcopy(api.get("pods", "default", name))
    pod["spec"]["nodeName"] = "a"
    api.add(pod, quietly=quietly)
