"""Test that a program that runs the server sees its requests and can stop them."""

from pathlib import Path

import pytest
from dra_apiserver.config import Config
from dra_apiserver.errors import StatusError
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_apiserver.traffic import Visit
from dra_shared.client.rest import Client

pytestmark = pytest.mark.system


class _Watcher:
    def __init__(self) -> None:
        self.refuse = ""
        self.seen: list[Visit] = []

    async def arrive(self, visit: Visit) -> None:
        if self.refuse and self.refuse in visit.path:
            raise StatusError(503, "ServiceUnavailable", "not now")

    def depart(self, visit: Visit) -> None:
        self.seen.append(visit)


async def test_traffic_hooks_observe_and_stop_requests(tmp_path: Path) -> None:
    traffic = _Watcher()
    config = Config(port=0, data=tmp_path, database=IN_MEMORY)
    async with (
        ApiServer(config, traffic=traffic) as server,
        Client(server.url, user_agent="me/1.0") as client,
    ):
        assert (await client.raw("GET", "/api/v1/nodes?limit=5")).status_code == 200
        traffic.refuse = "configmaps"
        assert (await client.raw("GET", "/api/v1/configmaps")).status_code == 503
        assert (await client.raw("GET", "/api/v1/nosuchthings")).status_code == 404
    seen = [(one.verb, one.path, one.query, one.code) for one in traffic.seen]
    assert seen == [
        ("list", "/api/v1/nodes", "limit=5", 200),
        ("list", "/api/v1/configmaps", "", 503),
        ("", "/api/v1/nosuchthings", "", 404),
    ]
    assert {(one.user, one.agent, one.method) for one in traffic.seen} == {("system:admin", "me/1.0", "GET")}
