"""API errors: field errors, and the `Status` objects of failed requests.

Reasons, codes, details and messages are those of apimachinery's `api/errors` and `util/validation/field`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from dra_shared.jsontypes import JsonObject


class ErrorType(enum.StrEnum):
    """The type of a field error. The value is the cause's reason in a `Status`."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_SHORT = "FieldValueTooShort"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    INTERNAL = "InternalError"
    TYPE_INVALID = "FieldValueTypeInvalid"


_TITLES = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_SHORT: "Too short",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_FEW: "Too few",
    ErrorType.INTERNAL: "Internal error",
    ErrorType.TYPE_INVALID: "Invalid value",
}

# The limit of error texts in a response, in characters.
_MOST_TEXT = 3 << 20

_VALUELESS = frozenset(
    {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.TOO_SHORT, ErrorType.INTERNAL}
)


class Verbatim(str):
    """A bad value that is already in the format of the message."""

    __slots__ = ()


class _Omitted:
    __slots__ = ()


OMIT_VALUE = _Omitted()
"""A marker for a bad value: the message shows no value."""


def quote(text: str) -> str:
    """Quote the text like Go's %q."""
    out = ['"']
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\x{code:02x}")
        elif char.isprintable():
            out.append(char)
        else:
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    out.append('"')
    return "".join(out)


_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def json_value(text: str) -> Verbatim:
    """Return a string of a named Go type as a bad value, which Go formats as JSON and not with %q."""
    return Verbatim(go_json(text))


def go_json(value: Any) -> str:
    """Return a value as encoded by Go's encoding/json."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@dataclass(frozen=True, slots=True)
class FieldError:
    """The error of one field. `value` is shown in the message: a string is quoted, a `Verbatim` is not."""

    type: ErrorType
    field: str
    value: Any = OMIT_VALUE
    detail: str = ""

    def body(self) -> str:
        """Return the message without the field's name."""
        text = _TITLES[self.type]
        if self.type not in _VALUELESS and self.value is not OMIT_VALUE:
            text = f"{text}: {self._format_value()}"
        return f"{text}: {self.detail}" if self.detail else text

    def _format_value(self) -> str:
        if isinstance(self.value, Verbatim):
            return str(self.value)
        return quote(self.value) if isinstance(self.value, str) else go_json(self.value)

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"


def missing_field(field: str, detail: str = "") -> FieldError:
    return FieldError(ErrorType.REQUIRED, field, detail=detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError(ErrorType.INVALID, field, value, detail)


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, field, value)


def field_not_found(field: str, value: Any) -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, field, value)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error of an unsupported value.

    The supported values are listed in the given order. The value is of a named Go type.
    """
    value = json_value(value) if type(value) is str else value
    names = ", ".join(quote(name) for name in supported)
    return FieldError(ErrorType.NOT_SUPPORTED, field, value, f"supported values: {names}" if names else "")


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, field, detail=detail)


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(ErrorType.TOO_LONG, field, detail=f"may not be more than {limit} bytes")


def too_many(field: str, actual: int, limit: int) -> FieldError:
    noun = "item" if limit == 1 else "items"
    return FieldError(ErrorType.TOO_MANY, field, actual, f"must have at most {limit} {noun}")


def internal_field(field: str, detail: str) -> FieldError:
    return FieldError(ErrorType.INTERNAL, field, detail=detail)


def _aggregate(texts: Iterable[str]) -> str:
    """Join several errors in one line without repeating equal ones."""
    several = list(dict.fromkeys(texts))
    return several[0] if len(several) == 1 else f"[{', '.join(several)}]"


class GroupResource(NamedTuple):
    """A resource as named in error messages: `resourceclaims.resource.k8s.io`."""

    group: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class StatusError(Exception):
    """The failure of a request. `status` is the `Status` object, `code` its HTTP code."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.headers = dict(headers or {})
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            status["reason"] = reason
        if details is not None:
            status["details"] = {key: value for key, value in details.items() if value}
        status["code"] = code
        self.status = status

    def encode(self) -> bytes:
        return orjson.dumps(self.status)


def _details(resource: GroupResource, name: str, **more: Any) -> JsonObject:
    return {"name": name, "group": resource.group, "kind": resource.plural, **more}


def not_found(resource: GroupResource, name: str) -> StatusError:
    return StatusError(404, "NotFound", f"{resource} {quote(name)} not found", _details(resource, name))


def no_such_resource() -> StatusError:
    """Return 404: the path names no served resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: GroupResource, name: str) -> StatusError:
    text = f"{resource} {quote(name)} already exists"
    return StatusError(409, "AlreadyExists", text, _details(resource, name))


def generated_name_taken(resource: GroupResource, name: str) -> StatusError:
    text = (
        f"{resource} {quote(name)} already exists, the server was not able to generate a unique name "
        "for the object"
    )
    details = _details(resource, name, retryAfterSeconds=1)
    return StatusError(409, "AlreadyExists", text, details, {"Retry-After": "1"})


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: GroupResource, name: str, why: str = MODIFIED) -> StatusError:
    text = f"Operation cannot be fulfilled on {resource} {quote(name)}: {why}"
    return StatusError(409, "Conflict", text, _details(resource, name))


def invalid_object(
    group: str, kind: str, name: str, errors: Sequence[FieldError], distinct: bool = False
) -> StatusError:
    """Return 422 with one cause for each field error. With `distinct`, equal errors are reported once.

    If each error shows a long list, the response would grow with the square of its length. So after a few
    MiB, the other errors are only counted.
    """
    qualified = f"{kind}.{group}" if group else kind
    text = f"{qualified} {quote(name)} is invalid"
    causes: list[JsonObject] = []
    texts: list[str] = []
    seen: set[str] = set()
    written = 0
    for error in errors:
        if written > _MOST_TEXT:
            texts.append(f"and {len(errors) - len(causes)} more errors")
            break
        body = error.body()
        written += len(body)
        text_of_field = f"{error.field}: {body}"
        if distinct and text_of_field in seen:
            continue
        seen.add(text_of_field)
        field = {"field": error.field} if error.field else {}
        causes.append({"reason": str(error.type), "message": body, **field})
        texts.append(text_of_field)
    if texts:
        text = f"{text}: {_aggregate(texts)}"
    return StatusError(422, "Invalid", text, {"name": name, "group": group, "kind": kind, "causes": causes})


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def forbidden_error(
    resource: GroupResource, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()
) -> StatusError:
    subject = f"{resource} {quote(name)} is " if name else f"{resource} is " if any(resource) else ""
    details = _details(resource, name, causes=list(causes))
    return StatusError(403, "Forbidden", f"{subject}forbidden: {why}", details)


def forbidden_request(why: str) -> StatusError:
    """Return 403 for a request that must not be processed at all."""
    return StatusError(403, "Forbidden", f"forbidden: {why}", {})


def method_not_allowed() -> StatusError:
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, {})


def method_not_supported(resource: GroupResource, verb: str) -> StatusError:
    text = f"{verb} is not supported on resources of kind {quote(str(resource))}"
    return StatusError(405, "MethodNotAllowed", text, _details(resource, ""))


def expired_error(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_large_resource_version(requested: int, current: int) -> StatusError:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    text = f"Timeout: Too large resource version: {requested}, current: {current}"
    details = {"causes": causes, "retryAfterSeconds": 1}
    return StatusError(504, "Timeout", text, details, {"Retry-After": "1"})


def timeout(message: str) -> StatusError:
    return StatusError(504, "Timeout", f"Timeout: {message}", {})


def deadline_exceeded() -> StatusError:
    """Return 504: the request's timeout has passed."""
    return timeout("request did not complete within requested timeout - context deadline exceeded")


def too_many_requests(message: str, retry_after: int = 1) -> StatusError:
    """Return 429. `retry_after` is in seconds."""
    details = {"retryAfterSeconds": retry_after}
    return StatusError(429, "TooManyRequests", message, details, {"Retry-After": str(retry_after)})


def storage_initializing() -> StatusError:
    """Return 429: this server does not have the watched data yet.

    A new connection may reach another server that has it.
    """
    error = too_many_requests("storage is (re)initializing")
    error.headers["Connection"] = "close"
    return error


def service_unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def not_acceptable(available: str) -> StatusError:
    text = f"406: Not Acceptable\n\nAvailable representations: {available}"
    return StatusError(406, "NotAcceptable", text, {})


def internal(message: str) -> StatusError:
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, {"causes": [{"message": message}]})


def server_error(message: str) -> StatusError:
    """Return 500 without a reason, as upstream does for unexpected errors."""
    return StatusError(500, "", message)
