"""AdmissionReviews: the request to a webhook, and its response (plugin/webhook/request and errors)."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import StatusError, internal, quote
from dra_apiserver.kindkit.kind import split_api_version
from dra_apiserver.kinds.admissionregistration.dynamic.attributes import Attributes, Place
from dra_apiserver.kinds.admissionregistration.dynamic.reviewtypes import check_types
from dra_apiserver.schema.decode import claimed_type
from dra_apiserver.schema.reader import TypeMismatch

_GROUP = "admission.k8s.io"
_KNOWN = ("v1", "v1beta1")
_LARGEST_CODE = 999


class InvalidReview(Exception):
    """The response is invalid. The message is upstream's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision of a webhook."""

    allowed: bool
    patch: bytes
    patch_type: str
    result: JsonObject | None
    warnings: list[str]
    annotations: dict[str, str]


def known_version(versions: list[str]) -> str | None:
    """Return the first of the webhook's versions that is supported, or None."""
    return next((one for one in versions if one in _KNOWN), None)


def question(attributes: Attributes, place: Place, version: str) -> JsonObject:
    """Return the review to send, with its own uid."""
    request = {
        "uid": str(uuid.uuid4()),
        **attributes.describe(place),
        "object": attributes.convert(attributes.obj, place),
        "oldObject": attributes.convert(attributes.old, place),
    }
    return {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": request}


def read(answer: JsonObject, uid: str, version: str, mutating: bool) -> Answer:
    """Parse the webhook's response.

    Raises:
        InvalidReview: it doesn't match the request.
    """
    _check_type(answer, version)
    try:
        check_types(answer)
    except TypeMismatch as error:
        raise UnknownReview(str(error)) from None
    response = answer.get("response")
    if not isinstance(response, dict):
        raise InvalidReview("webhook response was absent")
    patch = base64.b64decode(response.get("patch") or "")
    patch_type = response.get("patchType")
    if version == "v1":
        _check(answer, response, uid)
        _check_patch(patch, patch_type, mutating)
    elif patch:
        # The older version treats every patch as a JSON patch.
        patch_type = "JSONPatch"
    return Answer(
        response.get("allowed", False),
        patch if mutating else b"",
        patch_type or "",
        response.get("status"),
        response.get("warnings") or [],
        response.get("auditAnnotations") or {},
    )


class UnknownReview(InvalidReview):
    """The response is not a review."""


def _check_type(answer: JsonObject, version: str) -> None:
    """Check the kind and version of the response against the request's.

    If they are missing in the response, it is accepted.
    """
    try:
        name, kind = claimed_type(answer)
        split_api_version(name)
    except ValueError as error:
        raise UnknownReview(str(error)) from None
    kind, found = kind or "AdmissionReview", name or f"{_GROUP}/{version}"
    if kind != "AdmissionReview" or found not in {f"{_GROUP}/{one}" for one in _KNOWN}:
        scheme = "k8s.io/apiserver/pkg/util/webhook/client.go:71"
        text = f"no kind {quote(kind)} is registered for version {quote(found)} in scheme"
        raise UnknownReview(f"{text} {quote(scheme)}")
    if found != f"{_GROUP}/{version}":
        other = found.rpartition("/")[2]
        raise UnknownReview(
            f"converting ({other}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"
        )


def _check(answer: JsonObject, response: JsonObject, uid: str) -> None:
    if response.get("uid") != uid:
        raise InvalidReview(
            f"expected response.uid={quote(uid)}, got {quote(str(response.get('uid') or ''))}"
        )
    wanted, found = (f"{_GROUP}/v1", "AdmissionReview"), (answer.get("apiVersion"), answer.get("kind"))
    if found != wanted:
        version = f"/{found[0]}" if found[0] and "/" not in str(found[0]) else found[0] or "/"
        raise InvalidReview(
            f"expected webhook response of {wanted[0]}, Kind={wanted[1]}, got {version}, Kind={found[1] or ''}"
        )


def _check_patch(patch: bytes, patch_type: Any, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidReview("validating webhook may not return response.patch")
        if patch_type is not None:
            raise InvalidReview("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise InvalidReview("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise InvalidReview("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise InvalidReview('webhook returned invalid response.patchType of ""')


def rejection(webhook: str, result: JsonObject | None) -> StatusError:
    """Return the Status of a request that a webhook denied. Most of it comes from the webhook."""
    status = result or {}
    code = status.get("code") or 0
    message = status.get("message") or status.get("reason")
    denied = f"admission webhook {quote(webhook)} denied the request"
    message = f"{denied}: {message}" if message else f"{denied} without explanation"
    reason = status.get("reason") or ""
    if code > _LARGEST_CODE:
        # Go's server panics in this case, and its handlers respond like this.
        return internal(f"invalid WriteHeader code {code}")
    return StatusError(code if code >= 400 else 400, reason, message, status.get("details"))
