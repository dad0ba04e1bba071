"""``POST /plan/fit`` on the scheduler's health port."""

import json
from typing import Any

import httpx
import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.metrics import ATTEMPTS
from dra_scheduler.plan.routes import plan_routes
from dra_scheduler.wiring import new_scheduler
from dra_shared.clock import FakeClock
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import class_json, node_json, pod_json, slice_json
from tests.scheduler.plan.worlds import template_json
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until

pytestmark = pytest.mark.system


def _body(**more: Any) -> JsonObject:
    pod = {"apiVersion": "v1", **pod_json("p")}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return {"objects": [{"apiVersion": "resource.k8s.io/v1", **template_json("gpu")}, pod], **more}


async def test_plan_requests_are_answered_with_the_current_objects_of_the_cluster() -> None:
    nodes = [obj for i in range(2) for obj in (node_json(f"n{i}"), slice_json(f"n{i}", 2))]
    api = FakeApi(class_json(), *nodes)
    config = SchedulerConfig()
    cluster = api.client()
    scheduler = new_scheduler(config, client=cluster, clock=FakeClock())
    scheduler.add_routes(plan_routes(scheduler.informers, config, cluster))
    async with scheduler, httpx.AsyncClient(base_url=f"http://127.0.0.1:{scheduler.health_port}") as client:
        await until(lambda: scheduler.ready)
        before = _attempts()
        answer = (await client.post("/plan/fit", json=_body(count=5))).json()
        assert (answer["fits"], answer["wanted"], answer["copies"]) == (4, 5, 4)
        answer = (await client.post("/plan/fit", json=_body(max=True, without=["n0"]))).json()
        assert {pod["node"] for pod in answer["pods"]} == {"n1"}
        assert answer["fits"] == 2
        refused = await client.post("/plan/fit", content=json.dumps({"objects": []}))
        assert (refused.status_code, refused.text) == (400, "no pods, and nothing that makes pods\n")
        assert await _others(client) == {
            "drain": {"moved": 0},
            "remove": {"moved": 0},
            "upgrade": {"order": ["n0", "n1"]},
            "taint": {"stuck": 0},
            "change": {"pods": 0},
            "nodes": {"cost": 3.0, "optimal": True},
            "pack": {"waiting": False},
            "replay": {"complete": True},
        }
        assert (api.calls, _attempts()) == ([], before)


async def _others(client: httpx.AsyncClient) -> JsonObject:
    """Return the other questions, each with some fields of its answer."""
    node = [
        {"apiVersion": "v1", **node_json("x")},
        {"apiVersion": "resource.k8s.io/v1", **slice_json("x", 2)},
    ]
    template, pod = _body()["objects"]
    bodies: dict[str, tuple[JsonObject, list[str]]] = {
        "drain": ({"nodes": ["n0"]}, ["moved"]),
        "remove": ({"nodes": ["n0"]}, ["moved"]),
        "upgrade": ({}, ["order"]),
        "taint": ({"key": "k", "effect": "NoExecute", "node": "n0"}, ["stuck"]),
        "change": ({"objects": [{"apiVersion": "resource.k8s.io/v1", **class_json()}]}, ["pods"]),
        "nodes": (
            {"types": [{"name": "x", "price": 3, "objects": node}], "count": 6, **_body()},
            ["cost", "optimal"],
        ),
        "pack": ({}, ["waiting"]),
        "replay": ({"arrivals": [{"at": 0, "lasts": 5, "object": pod}], "objects": [template]}, ["complete"]),
    }
    found = {}
    for question, (body, wanted) in bodies.items():
        answer = await client.post(f"/plan/{question}", json=body)
        assert answer.status_code == 200, answer.text
        found[question] = {name: answer.json()[name] for name in wanted}
    for question, body, message in (
        ("drain", {"nodes": ["none"]}, 'there is no node "none"\n'),
        (
            "taint",
            {"key": "k", "effect": "Never"},
            "effect must be NoSchedule, PreferNoSchedule or NoExecute\n",
        ),
        ("nodes", {"types": []}, "no node types are given: name at least one in types\n"),
        ("change", {"remove": ["none"]}, 'there is no node "none"\n'),
        ("change", {"featureGates": "Nothing=true"}, "unrecognized feature gate: Nothing\n"),
        ("pack", {**_body(), "seconds": 0}, "seconds must be above 0 and at most 3600\n"),
    ):
        refused = await client.post(f"/plan/{question}", json=body)
        assert (refused.status_code, refused.text) == (400, message)
    return found


def _attempts() -> float:
    return sum(sample.value for metric in ATTEMPTS.collect() for sample in metric.samples)
