"""Serve documents about the API itself: discovery, OpenAPI and the version."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver import protobuf
from dra_apiserver.api import Api
from dra_apiserver.errors import method_not_allowed, no_such_resource
from dra_apiserver.http import Request
from dra_apiserver.negotiation import (
    Accepted,
    check_produced,
    encode,
    negotiate_conversion,
    negotiate_document,
    response_types,
)
from dra_apiserver.serviceaccount import openid

_VERSION = ("application/json",)
_ROOTS = frozenset({"api", "apis", "version", "openapi", "openid", ".well-known"})
_READS = frozenset({"GET", "HEAD"})
_DISCOVERY = frozenset({"api", "apis"})
_AGGREGATOR = ["apis", "apiregistration.k8s.io"]
_AGGREGATED = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}
_AGGREGATED_PACKAGE = "io.k8s.api.apidiscovery.v2"


class Documents:
    """Serves the documents of `discovery` and `openapi`. Each is created on first use."""

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
        """Respond if the path is one of these documents. Return whether it was.

        Raises:
            StatusError: 405, the method is not a read.
        """
        if parts[0] not in _ROOTS:
            return False
        if request.path in (openid.CONFIGURATION, openid.KEYSET):
            await self._answer_openid(request)
            return True
        self._fresh()
        if parts[0] == "openapi":
            if self._openapi is None:
                from dra_apiserver.handlers.openapi import OpenApiDocuments

                self._openapi = OpenApiDocuments(self._api)
            return bool(await self._openapi.answer(request, parts[1:]))
        if parts == ["version"]:
            _check_read(request)
            check_produced(request.header(b"accept"), _VERSION)
            from dra_apiserver.discovery import version_info

            # As upstream, this document is indented for every client.
            body = orjson.dumps(version_info(self._api.registry.kubernetes), option=orjson.OPT_INDENT_2)
            await request.respond(200, body, "application/json")
            return True
        return await self._answer_discovery(request, parts)

    async def _answer_discovery(self, request: Request, parts: list[str]) -> bool:
        document = self._document(request, parts)
        if document is None:
            if parts[0] not in _DISCOVERY or (parts[0] == "apis" and self._api.registry.is_custom(parts[1])):
                return False
            if len(parts) > (2 if parts[0] == "api" else 3):
                return False
            raise no_such_resource()
        accept, with_cbor = request.header(b"accept"), self._api.cbor
        if self._is_routed(parts):
            _check_read(request)
            check_produced(accept, response_types(with_cbor), protobuf=True)
        if len(parts) == 1:
            wish = negotiate_conversion(accept, _AGGREGATED, with_cbor)
            if wish is not None:
                await self._answer_aggregated(request, wish, core=parts[0] == "api")
                return True
        accepted = negotiate_document(accept, with_cbor)
        await request.respond(200, _encode(document, accepted, protobuf.META), accepted.media_type)
        return True

    def _document(self, request: Request, parts: list[str]) -> JsonObject | None:
        """Return the discovery document at a path, or None."""
        discovery = self._discovery
        match parts:
            case ["api"]:
                found = discovery.api_versions(request.header(b"host"))
            case ["apis"]:
                found = discovery.groups()
            case ["api", version]:
                found = discovery.resources("", version)
            case ["apis", group]:
                found = discovery.group(group)
            case ["apis", group, version]:
                found = discovery.resources(group, version)
            case _:
                found = None
        document: JsonObject | None = found
        return document

    def _is_routed(self, parts: list[str]) -> bool:
        """True if upstream's router checks the request's method before its handler runs.

        The router does not know the aggregator's discovery handlers, which ignore the method (kube-aggregator's
        `handler_apis.go`), and those of custom resources. It does know the aggregator's own group.
        """
        if parts[0] == "api" or parts == _AGGREGATOR:
            return True
        return len(parts) == 3 and any(
            not kind.unstructured for kind in self._api.registry.kinds_in(parts[1], parts[2])
        )

    async def _answer_aggregated(self, request: Request, accepted: Accepted, *, core: bool) -> None:
        """Respond with the aggregated document, which clients cache by its ETag (`aggregated/etag.go`)."""
        document = self._discovery.build_aggregated(core=core)
        tag = f'"{self._discovery.tag(core=core)}"'
        headers = {"etag": tag, "vary": "Accept", "cache-control": "public"}
        if request.header(b"if-none-match") == tag:
            await request.respond_unmodified(headers)
            return
        body = _encode(document, accepted, _AGGREGATED_PACKAGE)
        parameters = ";".join(f"{name}={value}" for name, value in _AGGREGATED.items())
        await request.respond(200, body, f"{accepted.media_type};{parameters}", headers)

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

    def paths(self) -> list[str]:
        """Return the paths that the root lists."""
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


def _encode(document: JsonObject, accepted: Accepted, package: str) -> bytes:
    if not accepted.protobuf:
        return encode(document, accepted)
    kind = document["kind"]
    raw = protobuf.message(f"{package}.{kind}", document)
    return protobuf.envelope(document.get("apiVersion", ""), kind, raw)


def _check_read(request: Request) -> None:
    # Upstream's router checks the method. OpenAPI, health and metrics bypass it and accept every method.
    if request.method not in _READS:
        raise method_not_allowed()
