"""Claims that are allocated before a pod uses them."""

from typing import Any

from dra_shared.claims import IMMEDIATE_ANNOTATION
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.running import node_of, quiet, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until


def _claim(name: str, mode: str = "Immediate", **more: Any) -> JsonObject:
    claim = claim_json(name, **more)
    claim["metadata"]["annotations"] = {IMMEDIATE_ANNOTATION: mode}
    return claim


def _status(api: FakeApi, name: str) -> JsonObject:
    found: JsonObject = api.get("resourceclaims", "default", name)["status"]
    return found


def _device(api: FakeApi, name: str) -> str:
    (result,) = _status(api, name)["allocation"]["devices"]["results"]
    return f"{result['pool']}/{result['device']}"


async def test_an_immediate_claim_is_allocated_and_pods_are_scheduled_to_its_node() -> None:
    api = FakeApi(node_json("full"), node_json("b"), slice_json("b", 1), class_json(), _claim("now"))
    async with run_scheduler(api):
        await until(lambda: "allocation" in _status(api, "now"))
        assert (_device(api, "now"), _status(api, "now").get("reservedFor")) == ("b/gpu-0", None)
        finalizers = api.get("resourceclaims", "default", "now")["metadata"]["finalizers"]
        assert finalizers == ["resource.kubernetes.io/delete-protection"]
        api.add(pod_json("p", claims={"gpu": "now"}))
        await until(lambda: node_of(api, "p"))
    assert node_of(api, "p") == "b"
    assert [user["name"] for user in _status(api, "now")["reservedFor"]] == ["p"]


async def test_no_device_is_allocated_to_two_immediate_claims() -> None:
    api = FakeApi(node_json("a"), slice_json("a", 2), class_json())
    async with run_scheduler(api) as (_, clock):
        for name in ("one", "two", "three"):
            api.add(_claim(name))
        await until(lambda: sum("allocation" in _status(api, name) for name in ("one", "two", "three")) == 2)
        await quiet(api)
        held = [name for name in ("one", "two", "three") if "allocation" in _status(api, name)]
        assert {_device(api, name) for name in held} == {"a/gpu-0", "a/gpu-1"}
        # The third gets a device as soon as there is one more.
        api.add(slice_json("b", 1))
        api.add(node_json("b"))
        await until(
            lambda: all("allocation" in _status(api, name) for name in ("one", "two", "three")), clock=clock
        )


async def test_other_claims_are_not_allocated_before_a_pod_uses_them() -> None:
    api = FakeApi(
        node_json("a"), slice_json("a", 2), class_json(), claim_json("plain"), _claim("late", "Other")
    )
    async with run_scheduler(api) as (_, clock):
        await quiet(api)
        await clock.advance(10)
        await quiet(api)
    assert not api.writes("resourceclaims")
