"""Test requests that are sent again because the server says when (client-go's rest/with_retry.go)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from dra_shared.api.core import ConfigMap
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import CONFIG_MAPS
from dra_shared.client import rest
from dra_shared.client.errors import TooManyRequests
from dra_shared.client.rest import Client
from dra_shared.client.retry import MAX_RETRIES, retry_after

from tests.shared.client.fake_server import reply, serve
from tests.support.cases import each_case

_LATER = reply(
    b'{"kind":"Status","status":"Failure","code":429}', "429 Too Many Requests", "Retry-After: 3\r\n"
)
_OBJECT = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"b"}}'


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record waits instead of waiting."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(rest, "_sleep", sleep)
    return waits


class _Server:
    """Refuses the first requests, and records all of them."""

    def __init__(self, refusals: int) -> None:
        self.requests: list[bytes] = []
        self._refusals = refusals

    async def handle(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        writer.write(_LATER if len(self.requests) <= self._refusals else reply(_OBJECT))


async def _stream(client: Client) -> None:
    response = await client.stream("GET", "/x", params={"watch": "true"})
    assert response.status_code == 200
    await response.aclose()


_MADE = ConfigMap(metadata=ObjectMeta(name="a", namespace="b"))
_REQUESTS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "get": lambda client: client.get(CONFIG_MAPS, "a", "b"),
    "create": lambda client: client.create(CONFIG_MAPS, _MADE),
    "update": lambda client: client.update(CONFIG_MAPS, _MADE),
    "delete": lambda client: client.delete(CONFIG_MAPS, "a", "b"),
    "raw": lambda client: client.raw("PATCH", "/x", content=b"{}"),
    "stream": _stream,
}


@pytest.mark.parametrize("verb", _REQUESTS)
async def test_a_refused_request_is_sent_again_unchanged(verb: str, sleeps: list[float]) -> None:
    server = _Server(2)
    async with serve(server.handle) as url, Client(url, retries=MAX_RETRIES) as client:
        await _REQUESTS[verb](client)
    assert sleeps == [3, 3]
    assert len(server.requests) == 3
    assert len(set(server.requests)) == 1


async def test_a_request_is_sent_again_ten_times(sleeps: list[float]) -> None:
    server = _Server(100)
    async with serve(server.handle) as url, Client(url, retries=MAX_RETRIES) as client:
        with pytest.raises(TooManyRequests):
            await client.get(CONFIG_MAPS, "a", "b")
    assert len(server.requests) == 11
    assert len(sleeps) == 10


async def test_clients_of_services_do_not_retry_refused_requests(sleeps: list[float]) -> None:
    server = _Server(1)
    async with serve(server.handle) as url, Client(url) as client:
        with pytest.raises(TooManyRequests):
            await client.get(CONFIG_MAPS, "a", "b")
    assert not sleeps


@each_case(
    ("status", "field", "seconds"),
    [
        (429, "1", 1),
        (429, "0", 0),
        (429, None, None),
        (429, "Fri, 31 Dec 1999 23:59:59 GMT", None),
        (429, "-1", 0),
        (500, "2", 2),
        (504, "1", 1),
        (503, None, None),
        (409, "1", None),
        (200, "1", None),
    ],
)
def test_the_delay_of_a_retry_depends_on_status_and_header(
    status: int, field: str | None, seconds: int | None
) -> None:
    assert retry_after(status, field) == seconds
