"""The HTTP routes of explanations."""

import httpx
import msgspec
import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.report import ClassReport, PodReport
from dra_scheduler.explain.routes import routes
from dra_scheduler.explain.text import render, render_class
from dra_scheduler.main import main
from dra_scheduler.wiring import new_scheduler
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES
from dra_shared.clock import FakeClock
from starlette.applications import Starlette
from starlette.routing import Route

from tests.scheduler.objects import claim, class_json, node, piece, pod
from tests.support.fakeapi import FakeApi


@pytest.fixture
def client() -> httpx.AsyncClient:
    scheduler = new_scheduler(SchedulerConfig(health_port=None), client=FakeApi().client(), clock=FakeClock())
    for name in ("node-1", "node-2"):
        scheduler.cache.set_node(node(name))
        scheduler.manager.slices.set_slice(piece(name, 1))
    scheduler.manager.claims.set_claim(claim("mine"))
    scheduler.explainer._find_pod = {"default/p": pod("p", requests={"cpu": "100"})}.get
    scheduler.manager.set_class(convert(DEVICE_CLASSES, class_json()))
    paths = routes(scheduler.explainer, scheduler.manager, scheduler.cache.node_objects)
    app = Starlette(routes=[Route(path, endpoint) for path, endpoint in paths.items()])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://scheduler")


async def test_a_pod_is_explained_as_json(client: httpx.AsyncClient) -> None:
    answer = await client.get("/explain/pod/default/p?nodes=1")
    assert answer.status_code == 200
    report = answer.json()
    assert report["pod"] == "default/p"
    [node_report] = report["nodes"]
    assert (node_report["node"], node_report["objections"]) == (
        "node-1",
        {"NodeResourcesFit": ["Insufficient cpu"]},
    )
    assert node_report["saw"] == {"NodeResourcesFit": ["cpu: the pod asks for 100, 4 of 4 are left"]}
    assert report["nodesLeftOut"] == 1


async def test_a_pod_is_explained_as_a_tree(client: httpx.AsyncClient) -> None:
    answer = await client.get("/explain/pod/default/p?format=text&nodes=nonsense")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "  nodes:\n    2 nodes (node-1..2): NodeResourcesFit: Insufficient cpu\n" in answer.text
    assert "node node-1: does not fit (and 1 more like it: node-2)\n    NodeResourcesFit:" in answer.text


@pytest.mark.parametrize("path", ["/explain/pod/default/p", "/explain/claim/default/mine"])
async def test_the_text_of_an_explanation_equals_the_printed_json_report(
    client: httpx.AsyncClient, path: str
) -> None:
    """``dralab explain`` decodes the report and asks only once."""
    report = msgspec.json.decode((await client.get(path)).content, type=PodReport)
    assert render(report) == (await client.get(f"{path}?format=text")).text


async def test_the_text_about_a_device_class_equals_the_printed_json_report(
    client: httpx.AsyncClient,
) -> None:
    report = msgspec.json.decode((await client.get("/explain/class/gpu")).content, type=ClassReport)
    assert render_class(report) == (await client.get("/explain/class/gpu?format=text")).text


async def test_a_claim_without_pods_is_explained_as_unused(client: httpx.AsyncClient) -> None:
    answer = await client.get("/explain/claim/default/mine")
    assert answer.json() == {"pod": "", "state": "unused", "claims": [{"claim": "default/mine"}]}


@pytest.mark.parametrize("path", ["/explain/pod/default/nope", "/explain/claim/other/mine"])
async def test_explaining_an_unknown_object_returns_404(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 404
    assert "there is no" in answer.text


async def test_free_devices_are_reported_as_json(client: httpx.AsyncClient) -> None:
    report = (await client.get("/free")).json()
    assert report["classes"] == [{"class": "gpu", "shape": "gpu", "devices": 2, "free": 2}]
    usage = [{"class": "gpu", "shape": "gpu", "devices": 1, "free": 1}]
    assert report["nodes"] == [{"node": "node-1", "usage": usage}, {"node": "node-2", "usage": usage}]
    assert [pool["pool"] for pool in report["pools"]] == ["node-1", "node-2"]


async def test_free_devices_are_reported_as_tables(client: httpx.AsyncClient) -> None:
    answer = await client.get("/free?format=text")
    assert answer.text.splitlines()[:5] == [
        "CLASS   SHAPE   FREE   USED   BLOCKED   DEVICES",
        "gpu     gpu     2      0      0         2",
        "",
        "NODE        CLASS   SHAPE   FREE   USED   BLOCKED   DEVICES",
        "node-1..2   gpu     gpu     1      0      0         1",
    ]


def test_unknown_feature_gates_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--feature-gates", "DRADeviceTaints"])
    assert stop.value.code == 2
    assert "missing bool value for DRADeviceTaints" in capsys.readouterr().err
