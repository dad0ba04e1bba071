"""Read the objects of requests, and send responses with objects."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver import protobuf
from dra_apiserver.api import Api
from dra_apiserver.errors import bad_request
from dra_apiserver.handlers.options import WriteOptions, write_options
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import api_version as api_version_of
from dra_apiserver.kindkit.kind import split_api_version
from dra_apiserver.negotiation import encode, negotiate
from dra_apiserver.response import Presenter
from dra_apiserver.rest.meta import match_namespace
from dra_apiserver.schema import decode, decode_as
from dra_apiserver.schema.packages import package_name
from dra_apiserver.schema.types import type_of
from dra_apiserver.storage import Record
from dra_apiserver.target import Target

SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The response to a request that creates no object."""


async def write_body(request: Request, target: Target) -> bytes:
    """Return the body of a write."""
    body = await request.body()
    rewrite = target.kind.types.rewrite_body
    return body if rewrite is None else rewrite(body)


def decode_object(
    api: Api, request: Request, target: Target, options: WriteOptions, body: bytes
) -> JsonObject:
    """Decode the object in a body, in the request's version.

    Raises:
        DecodeError: the body is not an object of the target's kind.
    """
    found = decode(
        api.registry,
        target.kind,
        target.version,
        body,
        request.header(b"content-type"),
        options.field_validation,
        with_cbor=request.cbor,
    )
    request.warn(found.warnings)
    obj = found.obj
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    if request.audit is not None:
        request.audit.record_decoded(target.kind, target.version, obj)
    return obj


async def answer(api: Api, request: Request, presenter: Presenter, code: int, record: Record) -> None:
    """Respond with a stored object."""
    await request.respond(code, await api.one(presenter, record), presenter.accepted.media_type)


async def read_body(
    api: Api, request: Request, group: str, version: str, kind: str, options: WriteOptions
) -> JsonObject:
    """Decode a body whose kind is not that of the resource, such as a Binding or a Scale."""
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
        with_cbor=request.cbor,
    )
    obj = decoded.obj
    for field in ("metadata", "spec", "target"):
        if obj.get(field) is not None and not isinstance(obj[field], dict):
            raise bad_request(f"{kind}: {field} must be an object")
    obj["metadata"] = obj.get("metadata") or {}
    if request.audit is not None:
        request.audit.record_object({"kind": kind, "apiVersion": api_version_of(group, version), **obj})
    return obj


async def reply(request: Request, code: int, document: JsonObject) -> None:
    """Respond with an object."""
    api_version, kind = document["apiVersion"], document["kind"]
    name = f"{protobuf.META}.Status"
    if kind != "Status":
        name = f"{package_name(*split_api_version(api_version))}.{kind}"
    accept = request.header(b"accept")
    accepted = negotiate(accept, protobuf=protobuf.is_known(name), with_cbor=request.cbor)
    if accepted.protobuf:
        body = protobuf.envelope(api_version, kind, protobuf.message(name, document))
    else:
        body = encode(document, accepted)
    await request.respond(code, body, accepted.media_type)


async def read_review(api: Api, request: Request, target: Target) -> JsonObject:
    """Decode a body of a kind that is not stored, set the request's namespace, and run policies and webhooks on it.

    Raises:
        StatusError: the body is not such an object, or the request is denied.
    """
    options = write_options(request, "CreateOptions")
    kind = target.kind
    obj = await read_body(api, request, kind.group, target.version, kind.kind, options)
    match_namespace(target, obj["metadata"])
    await api.admit(request, target, obj, api.context(target, request.user, options.dry_run), "CREATE")
    return obj
