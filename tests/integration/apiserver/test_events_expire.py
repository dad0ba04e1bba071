"""Events expire an hour after their last change, as with upstream's leases."""

from pathlib import Path
from typing import Any

import httpx
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.clock import FakeClock

_EVENTS = "/api/v1/namespaces/default/events"
_HOUR = 3600


def _event(name: str) -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "Tried", "type": "Normal"}


async def _names(client: httpx.AsyncClient) -> list[str]:
    answer = (await client.get(_EVENTS)).json()
    return [item["metadata"]["name"] for item in answer["items"]]


async def test_an_event_expires_an_hour_after_its_last_change(tmp_path: Path) -> None:
    clock = FakeClock()
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with (
        ApiServer(config, clock) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        for name in ("quiet", "repeated"):
            (await client.post(_EVENTS, json=_event(name))).raise_for_status()
        watch = client.build_request(
            "GET", _EVENTS, params={"watch": "1", "fieldSelector": "metadata.name=quiet"}
        )
        stream = await client.send(watch, stream=True)
        lines = stream.aiter_lines()
        assert '"ADDED"' in await anext(lines)

        await clock.advance(_HOUR / 2)
        patch = {"count": 2}
        headers = {"content-type": "application/merge-patch+json"}
        (await client.patch(f"{_EVENTS}/repeated", json=patch, headers=headers)).raise_for_status()
        assert await _names(client) == ["quiet", "repeated"]

        await clock.advance(_HOUR / 2 + 61)
        assert '"DELETED"' in await anext(lines)
        await stream.aclose()
        assert await _names(client) == ["repeated"]
