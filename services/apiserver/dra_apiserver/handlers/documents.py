"""Documents about the API itself: discovery, OpenAPI and the version."""

from __future__ import annotations

from typing import Any

import orjson

from dra_apiserver import cbor
from dra_apiserver.api import Api
from dra_apiserver.errors import method_not_allowed, no_such_resource
from dra_apiserver.http import Request
from dra_apiserver.negotiation import Accepted, answered, check_produced, encode
from dra_apiserver.serviceaccount import openid

_VERSION = ("application/json",)
_ROOTS = frozenset({"api", "apis", "version", "openapi", "openid", ".well-known"})
_READS = frozenset({"GET", "HEAD"})
_AGGREGATED = "as=APIGroupDiscoveryList"
# Clients ask for it with an @, which no media type may have.
_OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class Documents:
    """Serves what `discovery` and `openapi` make; each document is made when first asked for."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._generation = -1
        self._discovery: Any = None
        self._openapi: Any = None

    def _fresh(self) -> None:
        if self._generation != self._api.registry.generation:
            from dra_apiserver.discovery import Discovery

            self._discovery = Discovery(self._api.registry)
            self._openapi = None
            self._generation = self._api.registry.generation

    async def answer(self, request: Request, parts: list[str]) -> bool:
        """Answer if the path is one of these; whether it was.

        Raises:
            StatusError: 405, it is asked to do something else than show it.
        """
        if parts[0] not in _ROOTS:
            return False
        if request.path in (openid.CONFIGURATION, openid.KEYSET):
            await self._answer_openid(request)
            return True
        self._fresh()
        if parts[0] == "openapi":
            return await self._answer_openapi(request, parts)
        accept = request.header(b"accept")
        accepted = self._accepted(accept)
        media_type = accepted.media_type
        document: Any
        if parts == ["version"]:
            _check_read(request)
            check_produced(accept, _VERSION)
            from dra_apiserver.discovery import version_info

            # Upstream lays this one out for people, for every client.
            body = orjson.dumps(version_info(self._api.registry.kubernetes), option=orjson.OPT_INDENT_2)
            await request.respond(200, body, "application/json")
            return True
        elif len(parts) == 1:
            wish = next((clause for clause in accept.split(",") if _AGGREGATED in clause), "")
            if "v=v2" in wish and "v=v2beta1" not in wish:
                document = self._discovery.aggregated(core=parts[0] == "api")
                accepted = self._accepted(wish.strip())
                media_type = f"{accepted.media_type};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            elif parts[0] == "api":
                document = self._discovery.api_versions(request.header(b"host"))
            else:
                document = self._discovery.groups()
        elif parts[0] == "api" and len(parts) == 2:
            document = self._discovery.resources("", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            document = self._discovery.group(parts[1])
            if document is None:
                return False
        elif parts[0] == "apis" and len(parts) == 3:
            document = self._discovery.resources(parts[1], parts[2])
        else:
            return False
        if document is None:
            if parts[0] == "apis" and not self._api.registry.versions(parts[1]):
                return False
            raise no_such_resource()
        _check_read(request)
        check_produced(accept, answered(self._api.cbor))
        await request.respond(200, encode(document, accepted), media_type)
        return True

    def _accepted(self, accept: str) -> Accepted:
        """What discovery is written in: what the client names first, where that is not protobuf."""
        if accept.startswith("application/yaml"):
            return Accepted(yaml=True, media_type="application/yaml")
        if self._api.cbor and accept.startswith(cbor.MEDIA_TYPE):
            return Accepted(cbor=True, media_type=cbor.MEDIA_TYPE)
        return Accepted()

    async def _answer_openid(self, request: Request) -> None:
        _check_read(request)
        tokens = self._api.tokens
        if request.path == openid.KEYSET:
            body, media_type = openid.keyset(tokens), "application/jwk-set+json"
        else:
            scheme = "http" if self._api.config.tls is None else "https"
            origin = f"{scheme}://{request.header(b'host')}"
            body, media_type = openid.configuration(tokens, origin), "application/json"
        check_produced(request.header(b"accept"), (media_type,))
        await request.respond(200, body, media_type, {"cache-control": "public, max-age=3600"})

    async def _answer_openapi(self, request: Request, parts: list[str]) -> bool:
        if self._openapi is None:
            from dra_apiserver.openapi import OpenApi

            self._openapi = OpenApi(self._api.registry, with_cbor=self._api.cbor)
        if parts[1:] == ["v2"]:
            accepted = [clause.partition(";")[0].strip() for clause in request.header(b"accept").split(",")]
            if accepted[0].replace("@", ".") == _OPENAPI_PROTOBUF:
                await request.respond(200, self._openapi.v2_protobuf(), _OPENAPI_PROTOBUF)
                return True
            body = self._openapi.v2()
        elif parts[1:] == ["v3"]:
            body = self._openapi.index()
        elif parts[1:2] == ["v3"]:
            body = self._openapi.v3("/".join(parts[2:]))
        else:
            return False
        if body is None:
            return False
        await request.respond(200, body)
        return True

    def paths(self) -> list[str]:
        """What the root lists."""
        registry = self._api.registry
        found = ["/api", "/api/v1", "/apis"]
        for group in registry.groups():
            if group:
                found.append(f"/apis/{group}")
                found.extend(f"/apis/{group}/{version}" for version in registry.versions(group))
        found += [
            openid.CONFIGURATION,
            openid.KEYSET,
            "/docs",
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        return sorted(found)


def _check_read(request: Request) -> None:
    # Upstream's router knows the method; OpenAPI, health and metrics are served without it, by any.
    if request.method not in _READS:
        raise method_not_allowed()
