"""The relay of a terminal's WebSocket between the browser and a cluster that requires credentials."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from dra_kube.reader import Reader
from dra_lab.console.proxy import router
from dra_shared.client.rest import Client
from dra_shared.websocket import BINARY, CLOSE, PING, PONG, Frames, frame
from fastapi import FastAPI
from starlette.testclient import TestClient, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

_EXEC = "/api/v1/namespaces/ns/pods/p/exec?command=sh&stdin=true"
_FORBIDDEN = b'{"kind": "Status", "message": "pods \\"p\\" is forbidden"}'


class _Cluster:
    """An API server that responds to one request with ``answer``, and to later data with ``replies``."""

    def __init__(self, answer: bytes, replies: bytes = b"") -> None:
        self._answer, self._replies = answer, replies
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/base"
        self.head = ""
        self.seen: list[tuple[int, bytes]] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(1000)
            self.head = data.partition(b"\r\n\r\n")[0].decode()
            connection.sendall(self._answer + self._replies)
            frames = Frames(masked=True)
            while b"101" in self._answer and (data := connection.recv(1000)):
                for one in frames.feed(data):
                    self.seen.append((one.opcode, one.payload))
                    if one.payload == b"\0exit\r":
                        connection.sendall(frame(BINARY, b"\3ended") + frame(CLOSE, b""))


@contextmanager
def _browser(cluster: _Cluster) -> Iterator[WebSocketTestSession]:
    app = FastAPI()
    app.include_router(router(Client(cluster.url), Reader(cluster.url, token="mine")))
    try:
        with TestClient(app).websocket_connect(_EXEC, subprotocols=["v5.channel.k8s.io"]) as session:
            yield session
    finally:
        cluster.close()


def test_browser_and_cluster_are_connected_with_the_users_credentials() -> None:
    pieces = bytes((0x02, 2)) + b"\1a" + bytes((0x80, 1)) + b"b"
    cluster = _Cluster(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", pieces + frame(PING, b"?"))
    with _browser(cluster) as session:
        assert str(session.accepted_subprotocol) == "v5.channel.k8s.io"
        assert session.receive_bytes() == b"\1ab"
        session.send_bytes(b"\0exit\r")
        assert session.receive_bytes() == b"\3ended"
        with pytest.raises(WebSocketDisconnect) as left:
            session.receive_bytes()
        assert left.value.code == 1000
    assert cluster.head.startswith(f"GET /base{_EXEC} HTTP/1.1\r\n")
    assert "Authorization: Bearer mine" in cluster.head
    assert sorted(cluster.seen) == [(BINARY, b"\0exit\r"), (PONG, b"?")]


def test_the_response_of_a_rejected_request_is_the_close_reason() -> None:
    cluster = _Cluster(b"HTTP/1.1 403 Forbidden\r\n\r\n" + _FORBIDDEN)
    with _browser(cluster) as session, pytest.raises(WebSocketDisconnect) as left:
        session.receive_bytes()
    assert (left.value.code, left.value.reason) == (1008, 'pods "p" is forbidden')


def test_an_unreachable_cluster_is_reported() -> None:
    cluster = _Cluster(b"")
    with socket.create_connection(("127.0.0.1", int(cluster.url.split(":")[2].partition("/")[0]))) as first:
        first.sendall(b"\r\n\r\n")
    cluster.close()
    with _browser(cluster) as session, pytest.raises(WebSocketDisconnect) as left:
        session.receive_bytes()
    assert left.value.code == 1011
    assert "the cluster does not answer" in left.value.reason
