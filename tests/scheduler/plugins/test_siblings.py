"""Pods of one service or controller are spread, and go where their images are."""

from typing import Any

import pytest

from tests.scheduler.objects import node_json, pod_json
from tests.scheduler.running import node_of, running
from tests.support.fakeapi import FakeApi, Json
from tests.support.waiting import until

WEB = {"app": "web"}


def _controller(kind: str) -> Json:
    selector: Json = WEB if kind == "ReplicationController" else {"matchLabels": WEB}
    return {
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
        "spec": {"selector": selector},
    }


def _service() -> Json:
    return {"kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": WEB}}


def _pod(name: str, owner: str = "", **more: Any) -> Json:
    pod = pod_json(name, requests={"cpu": "100m"}, labels=WEB, **more)
    if owner:
        version = "v1" if owner == "ReplicationController" else "apps/v1"
        reference = {
            "apiVersion": version,
            "kind": owner,
            "name": "web",
            "uid": "uid-web",
            "controller": True,
        }
        pod["metadata"]["ownerReferences"] = [reference]
    return pod


def _nodes(*names: str, **zones: str) -> list[Json]:
    """The first one is so large that pods without siblings all go there."""
    nodes = []
    for name in names:
        labels = {"topology.kubernetes.io/zone": zones[name]} if name in zones else {}
        node = node_json(name, labels=labels)
        if name == names[0]:
            node["status"]["allocatable"] = {"cpu": "400", "memory": "800Gi", "pods": "100"}
        nodes.append(node)
    return nodes


async def _placed(api: FakeApi, *pods: Json) -> list[str | None]:
    names = [pod["metadata"]["name"] for pod in pods]
    async with running(api):
        for pod in pods:
            api.add(pod)
            await until(lambda: all("nodeName" in known["spec"] for known in api.of("pods")))
    return [node_of(api, name) for name in names]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
async def test_pods_of_one_controller_are_spread(kind: str) -> None:
    api = FakeApi(*_nodes("a", "b"), _controller(kind))
    assert await _placed(api, _pod("p0", kind), _pod("p1", kind)) == ["a", "b"]


async def test_pods_of_one_service_are_spread() -> None:
    assert await _placed(FakeApi(*_nodes("a", "b"), _service()), _pod("p0"), _pod("p1")) == ["a", "b"]


async def test_pods_of_their_own_are_not() -> None:
    assert await _placed(FakeApi(*_nodes("a", "b")), _pod("p0"), _pod("p1")) == ["a", "a"]


async def test_zones_count_next_to_hosts() -> None:
    api = FakeApi(*_nodes("a", "b", "c", a="x", b="x", c="y"), _service())
    assert await _placed(api, _pod("p0"), _pod("p1")) == ["a", "c"]


async def test_constraints_of_the_pod_itself_take_their_place() -> None:
    own = {
        "maxSkew": 1,
        "topologyKey": "nowhere",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": WEB},
    }
    api = FakeApi(*_nodes("a", "b"), _service())
    pods = (_pod(f"p{number}", topologySpreadConstraints=[own]) for number in range(2))
    assert await _placed(api, *pods) == ["a", "a"]


async def test_images_that_are_there_count() -> None:
    big = {"names": ["registry.example/big:latest"], "sizeBytes": 2_000_000_000}
    api = FakeApi(*_nodes("a", "b"))
    node = api.get("nodes", "", "b")
    api.add({**node, "status": {**node["status"], "images": [big]}})
    wanted = _pod("p0", container={"image": "registry.example/big"})
    assert await _placed(api, wanted, _pod("p1", container={"image": "other"})) == ["b", "a"]
