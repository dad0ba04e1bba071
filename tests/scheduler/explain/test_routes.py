"""The HTTP face of explanations."""

import httpx
import pytest
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.routes import routes
from dra_scheduler.main import main
from dra_scheduler.scheduler import Scheduler
from dra_shared.clock import FakeClock
from starlette.applications import Starlette
from starlette.routing import Route

from tests.fakeapi import FakeApi
from tests.scheduler.objects import claim, node, piece, pod


@pytest.fixture
def client() -> httpx.AsyncClient:
    scheduler = Scheduler(SchedulerConfig(health_port=None), client=FakeApi().client(), clock=FakeClock())
    for name in ("node-1", "node-2"):
        scheduler.cache.set_node(node(name))
        scheduler.manager.slices.set_slice(piece(name, 1))
    scheduler.manager.claims.set_claim(claim("mine"))
    scheduler.explainer._find_pod = {"default/p": pod("p", requests={"cpu": "100"})}.get
    paths = routes(scheduler.explainer, scheduler.manager)
    app = Starlette(routes=[Route(path, endpoint) for path, endpoint in paths.items()])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://scheduler")


async def test_pod_as_json(client: httpx.AsyncClient) -> None:
    answer = await client.get("/explain/pod/default/p?nodes=1")
    assert answer.status_code == 200
    report = answer.json()
    assert report["pod"] == "default/p"
    assert report["nodes"] == [{"node": "node-1", "objections": {"NodeResourcesFit": ["Insufficient cpu"]}}]
    assert report["nodesLeftOut"] == 1


async def test_pod_as_tree(client: httpx.AsyncClient) -> None:
    answer = await client.get("/explain/pod/default/p?format=text&nodes=nonsense")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "  nodes:\n    2 nodes (node-1..2): NodeResourcesFit: Insufficient cpu\n" in answer.text
    assert "node node-1: does not fit (and 1 more alike: node-2)\n    NodeResourcesFit:" in answer.text


async def test_claim(client: httpx.AsyncClient) -> None:
    answer = await client.get("/explain/claim/default/mine")
    assert answer.json() == {"pod": "", "state": "unused", "claims": [{"claim": "default/mine"}]}


@pytest.mark.parametrize("path", ["/explain/pod/default/nope", "/explain/claim/other/mine"])
async def test_what_is_not_there(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 404
    assert "there is no" in answer.text


async def test_free(client: httpx.AsyncClient) -> None:
    report = (await client.get("/free")).json()
    assert [pool["pool"] for pool in report["pools"]] == ["node-1", "node-2"]
    assert report["nodes"]["node-1"] == {"devices": 1, "free": 1}


def test_bad_gates_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--feature-gates", "DRADeviceTaints"])
    assert stop.value.code == 2
    assert "missing bool value for DRADeviceTaints" in capsys.readouterr().err
