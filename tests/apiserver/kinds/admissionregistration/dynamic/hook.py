"""A webhook on its own port, with a certificate for 127.0.0.1, localhost and hook.default.svc."""

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Self

import orjson
from dra_shared.jsontypes import JsonObject

Behaviour = Callable[[JsonObject, JsonObject], None]

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBpDCCAUqgAwIBAgIUNwdeJeQ4wxw8/WXoTnCxAomvvyMwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEaG9vazAgFw0yNjExMjIwMDUzMjlaGA8yMTI2MTAyOTAwNTMy
OVowDzENMAsGA1UEAwwEaG9vazBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABEvd
NQHPVpxfS++mzMEamAUn4MnqfzsjxUgJIR0k+mf48nEXiNcTlraHs2GJpotj5P63
4IKLQjcEqp94llHr0UmjgYEwfzAdBgNVHQ4EFgQUqHUyK7tLol/cXcABDIkgIVfI
tRwwHwYDVR0jBBgwFoAUqHUyK7tLol/cXcABDIkgIVfItRwwDwYDVR0TAQH/BAUw
AwEB/zAsBgNVHREEJTAjgglsb2NhbGhvc3SHBH8AAAGCEGhvb2suZGVmYXVsdC5z
dmMwCgYIKoZIzj0EAwIDSAAwRQIgJ2RHo/HdBMsRxfr3reH5m3avcoBMA5pC0n9+
8pmGU4sCIQDGsfhuZaC8EjGulz1nEU1PoQZH/bzWe1t84KAC3Bzx1g==
-----END CERTIFICATE-----
"""
_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVEGh9bATBqeGEHUt
HxeEfzHN7+GC9VK1r7Z7xqURdKKhRANCAARL3TUBz1acX0vvpszBGpgFJ+DJ6n87
I8VICSEdJPpn+PJxF4jXE5a2h7NhiaaLY+T+t+CCi0I3BKqfeJZR69FJ
-----END PRIVATE KEY-----
"""
BUNDLE = base64.b64encode(CERTIFICATE.encode()).decode()


def patch_with(*operations: JsonObject) -> Behaviour:
    """Return a behaviour that answers with a JSON patch."""

    def answer(_request: JsonObject, response: JsonObject) -> None:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(operations)).decode()

    return answer


class Hook:
    """A running webhook, as `async with Hook() as hook:`.

    `behaviours` maps a path to the function that answers AdmissionReviews there. `reviews` are the received
    reviews. `answers` maps a path to a function that changes the whole response before it is sent.
    """

    def __init__(self, certificate: Path | None = None, key: Path | None = None) -> None:
        self._files = (certificate, key)
        self.behaviours: dict[str, Behaviour] = {}
        self.answers: dict[str, Callable[[JsonObject], None]] = {}
        self.reviews: list[JsonObject] = []
        self.paths: list[str] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate, key = self._files
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        else:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                file.write(_KEY + CERTIFICATE)
                file.flush()
                context.load_cert_chain(file.name)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    def url(self, path: str) -> JsonObject:
        """Return the clientConfig for this webhook."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": BUNDLE}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                length = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                body = self._answer(line.split()[1].decode(), orjson.loads(await reader.readexactly(length)))
                head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                writer.write(head % len(body) + body)
                await writer.drain()
        finally:
            writer.close()

    def _answer(self, target: str, review: JsonObject) -> bytes:
        self.reviews.append(review)
        self.paths.append(target)
        response = {"uid": review["request"]["uid"], "allowed": True}
        behaviour = self.behaviours.get(target.partition("?")[0])
        if behaviour is not None:
            behaviour(review["request"], response)
        answer = {**review, "request": None, "response": response}
        if (change := self.answers.get(target.partition("?")[0])) is not None:
            change(answer)
        return json.dumps(answer).encode()
