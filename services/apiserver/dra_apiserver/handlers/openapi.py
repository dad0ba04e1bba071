"""Serve OpenAPI, with the tags by which clients cache its documents (kube-openapi's `pkg/handler` and
`pkg/handler3`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from email.utils import format_datetime
from urllib.parse import quote

from dra_apiserver.api import Api
from dra_apiserver.http import JSON, Request
from dra_apiserver.negotiation import choose
from dra_apiserver.openapi import OpenApi

_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Clients request it with an @, which is invalid in media types.
_V2 = {
    JSON: JSON,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
    _PROTOBUF: _PROTOBUF,
}
_PROTOBUF_V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
_V3 = {
    JSON: JSON,
    _PROTOBUF_V3: _PROTOBUF_V3,
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf": _PROTOBUF_V3,
}
_YEAR = timedelta(days=365)


class OpenApiDocuments:
    """Serves OpenAPI of the kinds that are currently served."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._openapi = OpenApi(api.registry, with_cbor=api.cbor)

    async def answer(self, request: Request, parts: list[str]) -> bool:
        """Respond if there is a document at the path below ``openapi``. Return whether there is."""
        if parts == ["v2"]:
            await self._answer_v2(request)
        elif parts == ["v3"]:
            body = self._openapi.index()
            await _respond(request, body, _tag(body), JSON, {})
        elif parts[:1] == ["v3"]:
            return await self._answer_v3(request, "/".join(parts[1:]).strip("/"))
        else:
            return False
        return True

    async def _answer_v2(self, request: Request) -> None:
        media_type = choose(request.header(b"accept"), _V2)
        if media_type is None:
            await request.respond(406, b"", headers={"vary": "Accept"})
            return
        plain = self._openapi.v2()
        body = self._openapi.v2_protobuf() if media_type == _PROTOBUF else plain
        # As upstream's, the tag is the same in all formats.
        await _respond(request, body, _tag(plain), media_type, {"vary": "Accept"})

    async def _answer_v3(self, request: Request, path: str) -> bool:
        tag = self._openapi.tag(path)
        if tag is None:
            return False
        headers = {"vary": "Accept"}
        media_type = choose(request.header(b"accept"), _V3)
        if media_type is None:
            await request.respond(406, b"", headers=headers)
            return True
        asked = request.query.get("hash", "")
        if asked and asked != tag:
            headers |= {"etag": f'"{tag}"', "location": f"/openapi/v3/{quote(path)}?hash={tag}"}
            await request.respond(301, b"", headers=headers)
            return True
        if asked:
            # A document that is requested by its hash never changes.
            expires = format_datetime(self._api.clock.now() + _YEAR, usegmt=True)
            headers |= {"cache-control": "public, immutable", "expires": expires}
        packed = media_type == _PROTOBUF_V3
        body = self._openapi.v3_protobuf(path) if packed else self._openapi.v3(path)
        assert body is not None
        await _respond(request, body, tag, media_type, headers)
        return True


def _tag(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()


async def _respond(
    request: Request, body: bytes, tag: str, media_type: str, headers: Mapping[str, str]
) -> None:
    quoted = f'"{tag}"'
    known = [one.strip().removeprefix("W/") for one in request.header(b"if-none-match").split(",")]
    if "*" in known or quoted in known:
        await request.respond_unmodified({**headers, "etag": quoted})
    else:
        await request.respond(200, body, media_type, {**headers, "etag": quoted})
