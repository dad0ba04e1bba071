"""A node agent's ``/faults`` that only records the requested faults."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from dra_node_agent.faults.routes import FaultRoutes
from dra_shared.clock import SystemClock
from dra_shared.faults.board import FaultBoard
from dra_shared.faults.nodes import NodeFault
from dra_shared.service import HealthServer


class Strikes:
    """Faults of a node agent that are only recorded."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.ended: list[Any] = []

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        board = FaultBoard(SystemClock(), {"driver-slow": self._strike})
        async with HealthServer("127.0.0.1", 0, {}, FaultRoutes(board).routes()) as server:
            yield f"http://127.0.0.1:{server.port}"

    @contextlib.asynccontextmanager
    async def _strike(self, fault: NodeFault) -> AsyncIterator[None]:
        self.begun.append(fault)
        yield
        self.ended.append(fault)
