"""Send random requests to an API server, and report responses that reveal a bug of the server.

``python -m tests.apiserver.fuzzing.run --requests 10000 1 2 3`` does so once for each seed.
"""

import argparse
import asyncio
import contextlib
import random
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import orjson
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_shared import log

from tests.apiserver.fuzzing.requests import Requests, Sent

_TIMEOUT = 60.0
# kube-apiserver responds with 500 and these messages too, so they are not bugs of dralab.
_UPSTREAM = re.compile(
    r"no endpoints available for service|error trying to reach service|resourceVersion: Invalid value"
    r"|Internal error occurred: (?:no preferred addresses found|error dialing backend|failed to allocate a |Get \")"
)
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [
                                    {"rule": "!has(self.replicas) || self.replicas < 100"}
                                ],
                                "properties": {
                                    "replicas": {"type": "integer", "default": 1},
                                    "name": {"type": "string", "maxLength": 20},
                                    "when": {"type": "string", "format": "date-time"},
                                    "items": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}},
                                        },
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "port": {"x-kubernetes-int-or-string": True},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@dataclass(slots=True)
class Outcome:
    """The number of responses per status code, and the failures: each a request and its result."""

    codes: dict[int, int] = field(default_factory=dict)
    broken: list[tuple[Sent, str]] = field(default_factory=list)


class Wire:
    """A connection that is opened again whenever the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def exchange(self, sent: Sent) -> tuple[int, bytes]:
        """Return the code and body of the answer. Of a streaming answer, return only the code."""
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = self._streams = self._streams or await asyncio.open_connection(
                "127.0.0.1", self._port
            )
            writer.write(_encode(sent))
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = re.search(rb"content-length: (\d+)", head)
                body = b""
                if length is not None and sent.method != "HEAD":
                    body = await reader.readexactly(int(length[1]))
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                await self._close()
                return 0, repr(error).encode()
        if length is None or b"connection: close" in head:
            await self._close()
        return int(head.split()[1]), body

    async def _close(self) -> None:
        if self._streams is not None:
            writer, self._streams = self._streams[1], None
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def _encode(sent: Sent) -> bytes:
    target = sent.path.encode() + (b"?" + sent.query.encode() if sent.query else b"")
    lines = [sent.method.encode() + b" " + target.replace(b" ", b"%20") + b" HTTP/1.1", b"host: 127.0.0.1"]
    lines += [name.encode() + b": " + value.encode() for name, value in sent.headers]
    return b"\r\n".join([*lines, b"content-length: %d" % len(sent.body), b"", sent.body])


@contextlib.asynccontextmanager
async def serve(data: Path) -> AsyncIterator[ApiServer]:
    """Run an API server with all kinds and one custom kind."""
    async with (
        ApiServer(Config(port=0, data=data, relaxed=True, runtime_config="api/all=true")) as server,
        Wire(_port(server)) as wire,
    ):
        body = orjson.dumps(DEFINITION)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        code, _ = await wire.exchange(Sent("POST", path, "", (("content-type", "application/json"),), body))
        assert code == 201
        served = Sent("GET", "/apis/example.com/v1/widgets", "", (), b"")
        while (await wire.exchange(served))[0] != 200:
            pass  # The custom kind is not served at once.
        yield server


async def fuzz(server: ApiServer, seed: int, count: int) -> Outcome:
    """Create some objects, then send the given number of requests."""
    requests, outcome = Requests(server.api.registry, random.Random(seed)), Outcome()
    async with Wire(_port(server)) as wire:
        for sent in requests.examples():
            await wire.exchange(sent)
        for _ in range(count):
            sent = requests.next()
            try:
                code, body = await wire.exchange(sent)
            except TimeoutError:
                outcome.broken.append((sent, f"no answer in {_TIMEOUT:g} s"))
                break
            outcome.codes[code] = outcome.codes.get(code, 0) + 1
            if (code >= 500 or not code) and not _is_upstreams(code, body):
                outcome.broken.append((sent, f"{code} {body.decode('utf-8', 'replace')}"))
    return outcome


def _is_upstreams(code: int, body: bytes) -> bool:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = {"message": body.decode("utf-8", "replace"), "reason": "" if b"reason:" not in body else "x"}
    message = status.get("message", "")
    own = bool(status.get("reason")) or message.startswith("storage:")
    if _UPSTREAM.search(message):
        return True
    return code == 504 or (code == 500 and not own)


def _port(server: ApiServer) -> int:
    return int(server.url.rpartition(":")[2])


async def _run(seed: int, count: int) -> bool:
    with tempfile.TemporaryDirectory() as data:
        async with serve(Path(data)) as server:
            outcome = await fuzz(server, seed, count)
    sys.stdout.write(f"seed {seed}: {dict(sorted(outcome.codes.items()))}\n")
    for sent, came in outcome.broken:
        sys.stderr.write(f"{came}\n  of {sent}\n")
    return not outcome.broken


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Send random requests to an API server.")
    parser.add_argument(
        "--requests", type=int, default=10_000, help="number of requests to send for each seed"
    )
    parser.add_argument("seeds", nargs="*", type=int, default=[1, 2, 3])
    options = parser.parse_args(arguments)
    log.configure("fuzz", "error", final=False)
    sound = [asyncio.run(_run(seed, options.requests)) for seed in options.seeds]
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main())
