"""Stopping the IMEX daemon of a simulated machine over HTTP."""

from pathlib import Path

from dra_node_agent.nvml.imex import IMEX_ROUTE, ImexSetter
from dra_node_agent.nvml.node import open_system
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

_GPUS = "1xGB200"


def test_a_stopped_imex_daemon_stays_stopped_when_the_machine_state_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "node-0.json"
    system = open_system(_GPUS, "node-0", path)
    setter = ImexSetter({"node-0": system}.get)
    method, _, route = IMEX_ROUTE.partition(" ")
    client = TestClient(Starlette(routes=[Route(route, setter.set, methods=[method])]))
    assert system.imex_ready
    answer = client.post("/simulated/nodes/node-0/imex", json={"ready": False})
    assert answer.status_code == 204
    assert not open_system(_GPUS, "node-0", path).imex_ready
    assert client.post("/simulated/nodes/node-0/imex", json={"ready": "no"}).status_code == 400
    assert client.post("/simulated/nodes/node-9/imex", json={"ready": True}).status_code == 404
