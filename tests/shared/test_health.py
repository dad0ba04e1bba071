import asyncio
import sys

import httpx
from dra_shared.service import HealthServer
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response


async def _ask(url: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dra_shared.health", url, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    return process.returncode, errors.decode().strip()


async def test_the_readiness_of_a_service_is_reported() -> None:
    well = False
    async with HealthServer("127.0.0.1", 0, {"up": lambda: well}) as server:
        url = f"http://127.0.0.1:{server.port}/readyz"
        assert await _ask(url) == (1, "HTTP Error 500: Internal Server Error")
        well = True
        assert await _ask(url) == (0, "")
    assert (await _ask(url))[0] == 1


async def test_web_pages_of_other_origins_reach_only_health() -> None:
    async def secret(_: Request) -> Response:
        return PlainTextResponse("secret")

    async with (
        HealthServer("127.0.0.1", 0, {}, {"/secret": secret, "POST /secret": secret}) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client,
    ):
        assert (await client.get("/secret")).text == "secret"
        for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
            for method in ("GET", "POST"):
                refused = await client.request(method, "/secret", headers=headers)
                assert refused.status_code == 403
                assert refused.text.startswith("forbidden: ")
            assert (await client.get("/readyz", headers=headers)).status_code == 200
