"""The node agent's ``/faults`` over HTTP."""

from types import SimpleNamespace
from typing import Any, cast

import httpx
from dra_node_agent.faults.routes import FaultRoutes
from dra_shared.service import HealthServer

from tests.support.cases import each_case


@each_case("number", ["9" * 5000, "%C2%B2", "%D9%A3", "x", "-1", "1_0"])
@each_case("method", ["GET", "DELETE"])
async def test_a_fault_with_an_invalid_number_returns_404(method: str, number: str) -> None:
    board = SimpleNamespace(get=lambda number: None, end=_ignore)
    async with (
        HealthServer("127.0.0.1", 0, {}, FaultRoutes(cast(Any, board)).routes()) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=30) as client,
    ):
        answer = await client.request(method, f"/faults/{number}")
    assert answer.status_code == 404
    assert answer.json()["message"].startswith("there is no fault ")


async def _ignore(number: int) -> None:
    pass
