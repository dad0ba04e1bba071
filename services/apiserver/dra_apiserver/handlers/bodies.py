"""Bodies and answers of kinds that are no resource's own."""

from __future__ import annotations

from typing import Any

from dra_apiserver.api import Api
from dra_apiserver.errors import (
    bad_request,
)
from dra_apiserver.handlers.options import WriteOptions, write_options
from dra_apiserver.http import Request
from dra_apiserver.present import encode, negotiate
from dra_apiserver.schema import decode_as
from dra_apiserver.schema.types import type_of
from dra_apiserver.target import Target

JsonObject = dict[str, Any]

SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The answer to what makes no object."""


async def read_body(
    api: Api, request: Request, group: str, version: str, kind: str, options: WriteOptions
) -> JsonObject:
    """The request's body, of a kind that is no resource's."""
    body = await request.body()
    decoded = decode_as(
        api.registry,
        group,
        version,
        kind,
        type_of(group, version, kind),
        body,
        request.header(b"content-type"),
        options.field_validation,
    )
    obj = decoded.obj
    for field in ("metadata", "spec", "target"):
        if obj.get(field) is not None and not isinstance(obj[field], dict):
            raise bad_request(f"{kind}: {field} must be an object")
    obj["metadata"] = obj.get("metadata") or {}
    return obj


async def reply(request: Request, code: int, document: JsonObject) -> None:
    """Answer with an object."""
    accepted = negotiate(request.header(b"accept"))
    await request.respond(code, encode(document, accepted), accepted.media_type)


async def read_review(api: Api, request: Request, target: Target) -> JsonObject:
    """The body of a kind that is answered and not stored, with the request's namespace.

    Raises:
        StatusError: the body is no such object.
    """
    options = write_options(request, "CreateOptions")
    kind = target.kind
    obj = await read_body(api, request, kind.group, target.version, kind.kind, options)
    if target.namespace:
        obj["metadata"]["namespace"] = target.namespace
    return obj
