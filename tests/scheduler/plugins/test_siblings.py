"""Pods of one Service or controller are spread, and nodes with their images are preferred."""

from typing import Any

import pytest
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import node_json, pod_json
from tests.scheduler.running import node_of, run_scheduler
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

WEB = {"app": "web"}


def _controller(kind: str) -> JsonObject:
    selector: JsonObject = WEB if kind == "ReplicationController" else {"matchLabels": WEB}
    return {
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
        "spec": {"selector": selector},
    }


def _service() -> JsonObject:
    return {"kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": WEB}}


def _pod(name: str, owner: str = "", **more: Any) -> JsonObject:
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


def _nodes(*names: str, **zones: str) -> list[JsonObject]:
    """Return two nodes. The first is so large that pods without siblings are all scheduled to it."""
    nodes = []
    for name in names:
        labels = {"topology.kubernetes.io/zone": zones[name]} if name in zones else {}
        node = node_json(name, labels=labels)
        if name == names[0]:
            node["status"]["allocatable"] = {"cpu": "400", "memory": "800Gi", "pods": "100"}
        nodes.append(node)
    return nodes


async def _schedule(api: FakeApi, *pods: JsonObject) -> list[str | None]:
    names = [pod["metadata"]["name"] for pod in pods]
    async with run_scheduler(api):
        for pod in pods:
            api.add(pod)
            await until(lambda: all("nodeName" in known["spec"] for known in api.of("pods")))
    return [node_of(api, name) for name in names]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
async def test_pods_of_one_controller_are_spread(kind: str) -> None:
    api = FakeApi(*_nodes("a", "b"), _controller(kind))
    assert await _schedule(api, _pod("p0", kind), _pod("p1", kind)) == ["a", "b"]


async def test_pods_of_one_service_are_spread() -> None:
    assert await _schedule(FakeApi(*_nodes("a", "b"), _service()), _pod("p0"), _pod("p1")) == ["a", "b"]


async def test_pods_without_owner_are_not_spread() -> None:
    assert await _schedule(FakeApi(*_nodes("a", "b")), _pod("p0"), _pod("p1")) == ["a", "a"]


async def test_pods_are_spread_over_zones_and_hosts() -> None:
    api = FakeApi(*_nodes("a", "b", "c", a="x", b="x", c="y"), _service())
    assert await _schedule(api, _pod("p0"), _pod("p1")) == ["a", "c"]


async def test_constraints_of_the_pod_replace_default_spreading() -> None:
    own = {
        "maxSkew": 1,
        "topologyKey": "nowhere",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": WEB},
    }
    api = FakeApi(*_nodes("a", "b"), _service())
    pods = (_pod(f"p{number}", topologySpreadConstraints=[own]) for number in range(2))
    assert await _schedule(api, *pods) == ["a", "a"]


async def test_nodes_that_have_the_image_score_higher() -> None:
    big = {"names": ["registry.example/big:latest"], "sizeBytes": 2_000_000_000}
    api = FakeApi(*_nodes("a", "b"))
    node = api.get("nodes", "", "b")
    api.add({**node, "status": {**node["status"], "images": [big]}})
    wanted = _pod("p0", container={"image": "registry.example/big"})
    assert await _schedule(api, wanted, _pod("p1", container={"image": "other"})) == ["b", "a"]
