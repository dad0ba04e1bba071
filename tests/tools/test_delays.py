"""``--delays SEED`` delays the requests and watches of our client."""

import asyncio
from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.api.core import ConfigMap
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import CONFIG_MAPS
from dra_shared.client.rest import Client

from tests.support.delays import Delays, delay_clients


def test_random_delays_are_the_same_for_the_same_seed() -> None:
    first, second, other = Delays(3), Delays(3), Delays(4)
    drawn = [first.draw() for _ in range(100)]
    assert drawn == [second.draw() for _ in range(100)]
    assert drawn != [other.draw() for _ in range(100)]
    assert 0.0 in drawn
    assert max(drawn) <= 0.3


async def test_requests_and_watch_events_of_a_client_are_delayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed: list[str] = []

    async def wait(self: Delays) -> None:
        delayed.append("call")
        await asyncio.sleep(0)

    monkeypatch.setattr(Delays, "wait", wait)
    delay_clients(monkeypatch, 1)
    async with (
        ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server,
        Client(server.url) as client,
    ):
        await client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="one", namespace="default")))
        assert len(delayed) == 2
        async for event in client.watch(CONFIG_MAPS, "default", resource_version="0"):
            assert event.object.metadata.name
            break
        assert len(delayed) >= 4
