"""Test requests of an API server to its scheduler."""

import asyncio

import pytest
from dra_apiserver.config import Config
from dra_apiserver.front.scheduler import scheduler
from fastapi import HTTPException

from tests.shared.client.fake_server import reply, serve


async def test_names_cannot_lead_to_another_path_of_the_scheduler() -> None:
    seen: list[bytes] = []

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(request.split(b" ")[1])
        writer.write(reply(b"{}"))

    async with serve(handle) as url:
        ask = scheduler(Config(port=0, scheduler_url=url))
        assert await ask("/explain/pod/default/a?b#c d", {"nodes": 2}) == {}
        for name in ("..", "."):
            with pytest.raises(HTTPException, match="404"):
                await ask(f"/explain/class/{name}", {})
    assert seen == [b"/explain/pod/default/a%3Fb%23c%20d?nodes=2"]
