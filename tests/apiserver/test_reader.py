"""Test that a client sees no difference between a reader and its API server."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import orjson
import pytest
from dra_apiserver import relay
from dra_apiserver.config import Config
from dra_apiserver.relay import Client, RelayedConnection
from dra_apiserver.server import ApiServer
from dra_apiserver.storage import feed, replica
from dra_apiserver.storage.wire import REQUESTS
from dra_apiserver.user import UserInfo
from dra_shared.clientcertificate import ClientCertificate
from dra_shared.servingtls import ServingTLS

from tests.support.certificates import Party
from tests.support.waiting import until

_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(port=0, data=tmp_path, relaxed=True)


@pytest.fixture
async def writer(config: Config) -> AsyncIterator[ApiServer]:
    async with ApiServer(replace(config, serve_readers=True)) as started:
        yield started


@pytest.fixture
async def reader(writer: ApiServer) -> AsyncIterator[ApiServer]:
    async with ApiServer(replace(writer.config, serve_readers=False, reader=True)) as started:
        yield started


@pytest.fixture
async def client(reader: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=reader.url, timeout=30) as made:
        yield made


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


# What each server says for itself, and a length that the time of day changes.
_OWN = {"date", "audit-id", "content-length"}
_REQUESTS = [
    ("GET", "/"),
    ("GET", "/version"),
    ("GET", "/api"),
    ("GET", "/apis/resource.k8s.io/v1"),
    ("GET", "/openapi/v3"),
    ("GET", "/openid/v1/jwks"),
    ("HEAD", "/openapi/v2"),
    ("GET", "/docs"),
    ("GET", f"{_MAPS}/m"),
    ("HEAD", f"{_MAPS}/m"),
    ("OPTIONS", f"{_MAPS}/m"),
    ("GET", f"{_MAPS}?limit=1"),
    ("GET", f"{_MAPS}?resourceVersion=1&resourceVersionMatch=Exact"),
    ("GET", f"{_MAPS}?resourceVersion=1&resourceVersionM%61tch=Exact"),
    ("GET", f"{_MAPS}/m%2f..%2fx?a=%20b"),
    ("GET", f"{_MAPS}/missing"),
    ("GET", f"/history{_MAPS}/m"),
    ("GET", "/apis/none.example.com/v1/things"),
    ("GET", "/apis/resource.k8s.io/v1/none"),
    ("GET", "/api/v1/namespaces/default/pods/none/log"),
    ("GET", "/api/v1/namespaces/default/status"),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ("PATCH", f"{_MAPS}/m"),
    ("TRACE", _MAPS),
]


async def test_a_reader_answers_as_the_api_server(writer: ApiServer, client: httpx.AsyncClient) -> None:
    async with httpx.AsyncClient(base_url=writer.url, timeout=30) as direct:
        assert (await direct.post(_MAPS, json=_map("m"))).status_code == 201
        for method, path in _REQUESTS:
            assert await _shown(client, method, path) == await _shown(direct, method, path), path


async def _shown(client: httpx.AsyncClient, method: str, path: str) -> tuple[int, object, str]:
    headers = {"host": "localhost", "content-type": "application/merge-patch+json"}
    body = b"{}" if method in {"PATCH", "POST"} else None
    answer = await client.request(method, path, content=body, headers=headers)
    fields = [(name, value) for name, value in answer.headers.multi_items() if name not in _OWN]
    return answer.status_code, sorted(fields), answer.text


async def test_a_reader_tells_of_itself(reader: ApiServer, client: httpx.AsyncClient) -> None:
    await client.get(_MAPS)
    metrics = (await client.get("/metrics")).text
    assert 'resource="configmaps"' in metrics
    assert (await client.get("/readyz")).status_code == 200


async def test_writes_of_all_sizes_pass(client: httpx.AsyncClient) -> None:
    for size in (10, 100_000, 900_000):
        made = await client.post(_MAPS, json=_map(f"m{size}", text="x" * size))
        assert made.status_code == 201
        assert (await client.get(f"{_MAPS}/m{size}")).json() == made.json()

    async def parts() -> AsyncIterator[bytes]:
        text = orjson.dumps(_map("in-parts", text="x" * 200_000))
        for start in range(0, len(text), 50_000):
            yield text[start : start + 50_000]

    made = await client.post(_MAPS, content=parts(), headers={"content-type": "application/json"})
    assert made.status_code == 201, made.text
    too_large = await client.post(_MAPS, json=_map("m", text="x" * (5 << 20)))
    assert too_large.status_code == 413


async def test_a_request_that_a_silent_api_server_has_ends(
    reader: ApiServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_POLL", 0.01)
    monkeypatch.setattr(replica, "_SILENCE", 0.05)
    monkeypatch.setattr(relay, "_REQUEST_TIMEOUT", 0.1)
    with monkeypatch.context() as silent:
        # As one that is stopped: it takes requests, and does nothing with them.
        silent.setattr(feed._Reader, "answer", lambda *_: None)
        silent.setattr(RelayedConnection, "data_received", lambda *_: None)
        answer = await client.delete(f"{_MAPS}/x")
        assert answer.status_code == 504
        assert answer.json()["reason"] == "Timeout"
    await until(lambda: reader.store.failure is None)
    assert (await client.delete(f"{_MAPS}/x")).status_code == 404


async def test_a_watch_goes_on_while_the_api_server_starts_again(config: Config, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        await first.enter_async_context(ApiServer(replace(config, serve_readers=True)))
        reader = await stack.enter_async_context(ApiServer(replace(config, reader=True)))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=reader.url, timeout=30))
        events: list[dict[str, Any]] = []

        def names() -> list[str]:
            return [event["object"]["metadata"]["name"] for event in events]

        async def watch() -> None:
            query = {"watch": "1", "resourceVersion": "0", "fieldSelector": "metadata.name!=kube-root-ca.crt"}
            async with client.stream("GET", _MAPS, params=query) as stream:
                async for line in stream.aiter_lines():
                    event = orjson.loads(line)
                    events.append(event)

        watching = asyncio.create_task(watch())
        await client.post(_MAPS, json=_map("before"))
        await until(lambda: names() == ["before"])
        await first.aclose()
        await until(lambda: reader.store.failure)
        assert (await client.get("/readyz")).status_code == 500
        # From the cache there are answers meanwhile; what must be new waits, as does what is passed on.
        old = await client.get(f"{_MAPS}/before", params={"resourceVersion": "0"})
        assert old.status_code == 200
        waiting = asyncio.gather(client.get(f"{_MAPS}/before"), client.post(_MAPS, json=_map("after")))
        await stack.enter_async_context(ApiServer(replace(config, serve_readers=True)))
        got, posted = await waiting
        assert (got.status_code, posted.status_code) == (200, 201)
        await until(lambda: names() == ["before", "after"])
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_an_upgrade_that_is_refused_is_an_answer(writer: ApiServer, client: httpx.AsyncClient) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await client.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "default"}})
    assert (await client.post("/api/v1/namespaces/default/pods", json=pod)).status_code == 201
    headers = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
    path = "/api/v1/namespaces/default/pods/p/exec?command=ls"
    refused = await client.post(path, headers=headers)
    assert refused.status_code == 400
    assert "does not have a host assigned" in refused.json()["message"]


_OFFER = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


async def _answers(server: ApiServer, *requests: bytes) -> list[tuple[int, bytes]]:
    """Send requests on one connection, half-close it, and return status and body of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(b"".join(requests))
    writer.write_eof()
    answers = []
    for _ in requests:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        body = await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        answers.append((int(head.split()[1]), body))
    assert await reader.read() == b""
    writer.close()
    return answers


async def test_requests_that_offer_an_upgrade_reach_the_api_server_whole(
    writer: ApiServer, reader: ApiServer, client: httpx.AsyncClient
) -> None:
    large = orjson.dumps(_map("large", text="x" * 900_000))
    head = f"HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{_OFFER}"
    counted = f"POST {_MAPS} {head}content-length: {len(large)}\r\n\r\n".encode() + large
    pieces = _chunked(large[:1000].replace(b"large", b"other")) + _chunked(large[1000:])
    chunked = f"POST {_MAPS} {head}transfer-encoding: chunked\r\n\r\n".encode() + pieces + b"0\r\n\r\n"
    options = b'{"dryRun":["All"]}'
    deleting = f"DELETE {_MAPS}/large {head}content-length: {len(options)}\r\n\r\n".encode() + options
    answers = await _answers(reader, counted, chunked, deleting)
    assert [code for code, _ in answers] == [201, 201, 200]
    names = [one["metadata"]["name"] for one in (await client.get(_MAPS)).json()["items"]]
    assert names == ["large", "other"]


@pytest.mark.parametrize("offer", [_OFFER, ""], ids=["upgrade", "plain"])
async def test_a_body_that_ends_early_is_waited_for_nowhere(
    writer: ApiServer, reader: ApiServer, offer: str
) -> None:
    head = f"POST {_MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{offer}"
    client, sending = await asyncio.open_connection("127.0.0.1", int(reader.url.rpartition(":")[2]))
    sending.write(f"{head}transfer-encoding: chunked\r\n\r\n5\r\n{{".encode())
    await until(lambda: writer._state.tasks)
    sending.close()
    await until(lambda: not writer._state.tasks and not reader._state.tasks)
    assert await client.read() == b""


async def test_a_client_that_half_closes_is_answered(writer: ApiServer, reader: ApiServer) -> None:
    head = "HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    body = orjson.dumps(_map("a", text="x" * 500_000))
    created = f"POST {_MAPS} {head}content-length: {len(body)}\r\n\r\n".encode() + body
    exact = f"GET {_MAPS}?resourceVersion=1&resourceVersionMatch=Exact {head}\r\n".encode()
    unread = f"GET /openapi/v2 {head}\r\n".encode()
    answers = await _answers(reader, created, exact, unread)
    assert [code for code, _ in answers][::2] == [201, 200]


async def test_the_users_of_tokens_are_known_to_both(config: Config) -> None:
    known = {"secret": UserInfo("jane", ("devs",))}
    made = replace(config, authorization_mode="RBAC", known_tokens=known, anonymous_auth=False)
    async with (
        ApiServer(replace(made, serve_readers=True)) as writer,
        ApiServer(replace(made, reader=True)) as reader,
    ):
        for server in (writer, reader):
            async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
                assert (await client.get(_MAPS)).status_code == 401
                assert (await client.post(_MAPS, json=_map("m"))).status_code == 401
                client.headers["authorization"] = "Bearer secret"
                for answer in (await client.get(_MAPS), await client.post(_MAPS, json=_map("m"))):
                    assert answer.status_code == 403
                    assert 'User "jane" cannot' in answer.json()["message"]


class _Files:
    """A server's certificate, and the authority of its users' certificates."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.users = Party("servers"), Party("users")
        own = Party("localhost", self.authority, "127.0.0.1")
        self.paths = [folder / name for name in ("tls.crt", "tls.key", "client-ca.crt")]
        for path, text in zip(self.paths, (own.pem, own.key_pem, self.users.pem), strict=True):
            path.write_bytes(text)
        self._folder = folder

    def context(self, name: str, group: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        user = Party(name, self.users, more=[("2.5.4.10", group)])
        file = self._folder / "user.pem"
        file.write_bytes(user.pem + user.key_pem)
        context.load_cert_chain(file)
        return context


async def test_the_users_of_certificates_are_known_to_both(config: Config, tmp_path: Path) -> None:
    files = _Files(tmp_path)
    made = replace(config, authorization_mode="RBAC", tls=ServingTLS(*files.paths), client_certificates=True)
    forged = Client(None, "https", ClientCertificate("root", ("system:masters",), (), 1e12, ""))
    header = {"dralab-client": msgspec.json.encode(forged).decode()}
    async with (
        ApiServer(replace(made, serve_readers=True)),
        ApiServer(replace(made, reader=True)) as reader,
        httpx.AsyncClient(base_url=reader.url, verify=files.context("root", "system:masters")) as root,
        httpx.AsyncClient(base_url=reader.url, verify=files.context("jane", "devs"), headers=header) as jane,
    ):
        assert (await root.post(_MAPS, json=_map("m"))).status_code == 201
        assert (await root.get(f"{_MAPS}/m")).status_code == 200
        for answer in (await jane.get(_MAPS), await jane.post(_MAPS, json=_map("n"))):
            assert answer.status_code == 403
            assert 'User "jane" cannot' in answer.json()["message"]


async def test_only_the_local_socket_takes_a_readers_word(writer: ApiServer, config: Config) -> None:
    assert (config.directory / REQUESTS).stat().st_mode & 0o077 == 0
    named = Client(("192.0.2.7", 1), "http", ClientCertificate("jane", (), (), 1e12, ""))
    headers = {"dralab-client": msgspec.json.encode(named).decode()}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with httpx.AsyncClient(base_url=writer.url, headers=headers) as client:
        answer = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review)
    assert answer.json()["status"]["userInfo"]["username"] != "jane"
