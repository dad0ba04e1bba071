"""Pods of plans are admitted as by the cluster's API server, through each interface."""

from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from dra_shared.jsontypes import JsonObject

from tests.integration.plandoors import Doors, Question, doors, template

pytestmark = pytest.mark.system

# The cluster has 16 free CPUs: 6 of n0, 6 of n1, 4 of n2.
_OBJECTS: list[tuple[str, JsonObject]] = [
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "gold"}, "value": 1000}),
    (
        "/apis/node.k8s.io/v1/runtimeclasses",
        {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "1"}}},
    ),
    ("/api/v1/namespaces", {"metadata": {"name": "ranged"}}),
    ("/api/v1/namespaces", {"metadata": {"name": "limited"}}),
    ("/api/v1/namespaces", {"metadata": {"name": "devices"}}),
    (
        "/api/v1/namespaces/ranged/limitranges",
        {
            "metadata": {"name": "limits"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}, "max": {"cpu": "4"}}]},
        },
    ),
    (
        "/api/v1/namespaces/limited/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}},
    ),
    (
        "/api/v1/namespaces/devices/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"gpu.deviceclass.resource.k8s.io/devices": "2"}}},
    ),
]


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(doors(portal, tmp_path_factory.mktemp("doors"))) as found,
    ):
        for path, obj in _OBJECTS:
            found.create(path, obj)
        yield found


def _pod(namespace: str = "default", cpu: str = "", limit: str = "", **spec: Any) -> JsonObject:
    container: JsonObject = {"name": "main", "image": "x", "resources": {}}
    for side, amount in (("requests", cpu), ("limits", limit)):
        if amount:
            container["resources"][side] = {"cpu": amount}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"containers": [container], **spec},
    }


def _with_claim(namespace: str) -> list[JsonObject]:
    made, pod = template("one"), _pod(namespace)
    made["metadata"] = {"name": "one", "namespace": namespace}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return [made, pod]


def _deployment(namespace: str, replicas: int) -> JsonObject:
    labels = {"app": "d"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _pod()["spec"]},
    }
    meta = {"name": "d", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def _fit(name: str, objects: list[JsonObject], answer: JsonObject, *, most: bool = True) -> Question:
    return Question(
        name,
        f"fit FILE {'--max' if most else ''}",
        {"max": most, "more": True},
        lambda world, given, _: world.fit(given, most=most, more=True),
        answer,
        objects,
    )


_QUESTIONS = [
    _fit("no priority", [_pod(cpu="7")], {"fits": 0}, most=False),
    _fit("a priority class", [_pod(cpu="7", priorityClassName="gold")], {"fits": 1}, most=False),
    _fit("default requests", [_pod("ranged")], {"fits": 8}),
    _fit("default requests of a Deployment", [_deployment("ranged", 9)], {"fits": 8}, most=False),
    _fit("the overhead of a runtime", [_pod(cpu="1", runtimeClassName="kata")], {"fits": 8}),
    _fit("a quota of pods", [_pod("limited")], {"fits": 3}),
    _fit("a quota of a Deployment's pods", [_deployment("limited", 5)], {"fits": 3}, most=False),
    _fit("a quota of devices", _with_claim("devices"), {"fits": 2}),
    _fit("more than a limit", [_pod("ranged", limit="5")], {"fits": 0}, most=False),
    _fit("no such priority class", [_pod(priorityClassName="silver")], {"fits": 0}, most=False),
    _fit("no such runtime class", [_pod(runtimeClassName="gvisor")], {"fits": 0}, most=False),
]


@pytest.mark.parametrize("asked", _QUESTIONS, ids=str)
def test_each_interface_admits_pods_as_the_api_server_does(
    four: Doors, asked: Question, capsys: pytest.CaptureFixture[str]
) -> None:
    _, answer = four.command_line(asked, capsys)
    assert {name: answer[name] for name in asked.answer} == asked.answer
    assert four.http(asked) == answer
    assert four.console(asked) == answer
    assert four.world(asked) == answer
