import asyncio
import sys

from dra_shared.service import HealthServer


async def _ask(url: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dra_shared.health", url, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    return process.returncode, said.decode().strip()


async def test_tells_whether_a_service_is_ready() -> None:
    well = False
    async with HealthServer("127.0.0.1", 0, {"up": lambda: well}) as server:
        url = f"http://127.0.0.1:{server.port}/readyz"
        assert await _ask(url) == (1, "HTTP Error 500: Internal Server Error")
        well = True
        assert await _ask(url) == (0, "")
    assert (await _ask(url))[0] == 1
