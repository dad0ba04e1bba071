"""The options of a delete: in the body, or without a body in the query (`metav1.DeleteOptions`)."""

from __future__ import annotations

import orjson
from dra_shared.jsontypes import JsonObject

from dra_apiserver import cbor
from dra_apiserver.errors import FieldError, StatusError, bad_request, invalid, invalid_object, not_supported
from dra_apiserver.handlers.options import check_dry_run, parse_integer
from dra_apiserver.http import Request
from dra_apiserver.rest.delete import DeleteOptions
from dra_apiserver.schema import DecodeError
from dra_apiserver.schema.jsontext import syntax_error
from dra_apiserver.schema.parse import PROTOBUF, YAML, media_type, parse_body
from dra_apiserver.schema.reader import Reader, TypeMismatch
from dra_apiserver.schema.types import Struct, definition
from dra_apiserver.schema.values import json_type


async def delete_options(request: Request) -> DeleteOptions:
    """Return the options in the body, or in the query if there is no body.

    Raises:
        StatusError: 400 or 422.
    """
    body = await request.body()
    content_type = request.header(b"content-type")
    values = _parse(body, content_type, with_cbor=request.cbor) if body else _in_query(request)
    preconditions = values.get("preconditions") or {}
    propagation, orphan = values.get("propagationPolicy"), values.get("orphanDependents")
    errors: list[FieldError] = []
    if propagation is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", propagation, text))
    policies = ("Foreground", "Background", "Orphan", "nil")
    if propagation is not None and propagation not in policies[:3]:
        errors.append(not_supported("propagationPolicy", propagation, policies))
    dry_run = values.get("dryRun") or []
    errors += check_dry_run(dry_run)
    if errors:
        raise invalid_object("meta.k8s.io", "DeleteOptions", "", errors)
    return DeleteOptions(
        grace=values.get("gracePeriodSeconds"),
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=propagation or "",
        orphan=orphan,
        dry_run=bool(dry_run),
    )


def _in_query(request: Request) -> JsonObject:
    """Return the options in the query (apimachinery's ``Convert_url_Values_To_v1_DeleteOptions``)."""
    query = request.query
    values: JsonObject = {key: query[key] for key in ("propagationPolicy",) if key in query}
    if "gracePeriodSeconds" in query:
        values["gracePeriodSeconds"] = parse_integer(query["gracePeriodSeconds"])
    if "orphanDependents" in query:
        values["orphanDependents"] = request.flag("orphanDependents")
    values["dryRun"] = [value for name, value in request.parameters if name == "dryRun"]
    values["preconditions"] = {key: query[key] for key in ("uid", "resourceVersion") if query.get(key)}
    return values


_UNREADABLE = "couldn't get version/kind; json parse error"
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def _parse(body: bytes, content_type: str, *, with_cbor: bool) -> JsonObject:
    try:
        form = media_type(content_type, with_cbor=with_cbor)
    except DecodeError as error:
        raise StatusError(error.code, error.reason, str(error)) from None
    try:
        if form == YAML:
            from dra_apiserver.schema.yamlbody import document

            values = document(body).value
        elif form in (PROTOBUF, cbor.MEDIA_TYPE):
            values = parse_body(body, form, "DeleteOptions", "Ignore")
        else:
            values = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise bad_request(f"{_UNREADABLE}: {syntax_error(body)}") from None
    except cbor.CborError as error:
        raise bad_request(f"unable to determine group/version/kind: {error}") from None
    except ValueError as error:
        text = f"yaml: {error}" if form == YAML else str(error)
        raise bad_request(f"couldn't get version/kind; {text}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        problem = f"json: cannot unmarshal {json_type(values)} into Go value of type {_TYPE_META}"
        raise bad_request(f"{_UNREADABLE}: {problem}")
    kind = values.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        version = values.get("apiVersion") or "v1"
        scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        text = f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"'
        raise bad_request(text)
    try:
        Reader().read(_options_type(), values)
    except TypeMismatch as error:
        raise bad_request(str(error)) from None
    return values


def _options_type() -> Struct:
    found = definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    assert isinstance(found, Struct)
    return found
