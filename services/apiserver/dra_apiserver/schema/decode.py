"""Decode request bodies to objects of the requested kind and version. Unknown fields are dropped or rejected."""

import json
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from dra_shared.jsontext import dumps

from dra_apiserver import cbor
from dra_apiserver.errors import invalid, invalid_object
from dra_apiserver.kindkit.kind import Kind, split_api_version
from dra_apiserver.registry import Registry
from dra_apiserver.schema.bodies import plain_object
from dra_apiserver.schema.errors import DecodeError
from dra_apiserver.schema.packages import internal_package
from dra_apiserver.schema.parse import (
    JSON,
    media_type,
    parse_body,
    unknown_in_cbor,
    unrecognized_cbor,
    unrecognized_error,
    without_kind,
)
from dra_apiserver.schema.reader import Reader, TypeMismatch
from dra_apiserver.schema.types import Struct, object_type
from dra_apiserver.schema.values import json_type

_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded object, its version, and texts for Warning headers."""

    obj: dict[str, Any]
    version: str
    warnings: list[str]


def decode(
    registry: Registry,
    kind: Kind,
    version: str,
    body: bytes,
    content_type: str = JSON,
    field_validation: str = "Warn",
    *,
    with_cbor: bool = False,
) -> Decoded:
    """Decode the object of a create or update request for ``kind`` at ``version``.

    ``field_validation`` is ``Strict`` (unknown and duplicate fields are errors), ``Warn`` or ``Ignore``.
    ``with_cbor``: bodies may be in CBOR.

    Raises:
        DecodeError: the body is not such an object.
    """
    return decode_as(registry, kind.group, version, kind.kind, object_type(kind, version), body, content_type,
                     field_validation, with_cbor=with_cbor, names_itself=kind.types.names_itself)  # fmt: skip


def decode_as(
    registry: Registry,
    group: str,
    version: str,
    kind: str,
    node: Struct | None,
    body: bytes,
    content_type: str = JSON,
    field_validation: str = "Warn",
    *,
    with_cbor: bool = False,
    names_itself: bool = False,
) -> Decoded:
    """Decode like :func:`decode` a body whose kind need not be a resource (a Binding, a Scale, an Eviction).

    ``names_itself``: the body must have a kind and apiVersion.
    """
    try:
        form = media_type(content_type, with_cbor=with_cbor)
        return _decode(registry, (group, version, kind), node, body, form, field_validation, names_itself)
    except cbor.CborError as error:
        if isinstance(error, cbor.IllFormed) or error.outermost:
            raise unrecognized_cbor(kind, error, body) from error
        raise _cannot_handle(kind, version, kind, str(error)) from error
    except RecursionError as error:
        raise _cannot_handle(kind, version, kind, "exceeded max depth") from error


def _decode(
    registry: Registry,
    want: tuple[str, str, str],
    node: Struct | None,
    body: bytes,
    form: str,
    field_validation: str,
    names_itself: bool,
) -> Decoded:
    group, version, kind = want
    plain = plain_object(node, body) if node is not None and form == JSON else None
    parsed = plain if plain is not None else parse_body(body, form, kind, field_validation)
    name = f"{group}/{version}" if group else version
    if plain is not None and plain.get("apiVersion") == name and plain.get("kind") == kind:
        return Decoded(plain, version, [])
    meta = _type_meta(parsed, body, kind)
    if names_itself:
        _check_type(want, parsed, body, field_validation)
    found_group, found_version, found_kind = meta[0] or group, meta[1] or version, meta[2] or kind
    if meta[1] and not meta[0]:
        found_group = ""
    if (found_group, found_version, found_kind) != (group, version, kind):
        _refuse_other(registry, (group, version, kind), (found_group, found_version, found_kind))
    parsed["apiVersion"], parsed["kind"] = name, kind
    reader = Reader()
    if node is not None and plain is None:
        try:
            reader.read(node, parsed)
        except TypeMismatch as error:
            raise _cannot_handle(kind, version, kind, str(error)) from error
    problems = reader.strict
    if problems and form == cbor.MEDIA_TYPE and not _is_custom(registry, want):
        problems = [unknown_in_cbor(body, problems[0])]
    return Decoded(parsed, version, _judge(problems, field_validation, kind, version))


def _is_custom(registry: Registry, want: tuple[str, str, str]) -> bool:
    known = registry.known_kind(*want)
    return known is not None and bool(known.types.schemas)


def sanitize(
    node: Struct,
    obj: dict[str, Any],
    field_validation: str = "Ignore",
    touched: Container[str] | None = None,
    shown: Callable[[], Any] | None = None,
    problems: Sequence[str] = (),
) -> list[str]:
    """Prune and check a patched object, in place. Return texts for Warning headers.

    Only the ``touched`` members (None: all) are checked; others come from a stored object. ``shown`` returns
    the object for error messages. ``problems`` are those of the patch.

    Raises:
        DecodeError: 422, a value is of the wrong type or (``Strict``) a field is unknown.
    """
    reader = Reader()
    shown = shown or (lambda: obj)
    try:
        reader.read(node, obj, touched)
    except TypeMismatch as error:
        raise invalid_patch(shown(), str(error)) from error
    except RecursionError as error:
        raise DecodeError("exceeded max depth", 422, "Invalid") from error
    found = [*problems, *reader.strict]
    if field_validation == "Strict" and found:
        raise invalid_patch(shown(), strict_message(found))
    return found if field_validation == "Warn" else []


def invalid_patch(obj: Any, problem: str) -> DecodeError:
    """Return upstream's error for a patch whose result is invalid. It shows the whole result."""
    shown = json.dumps(dumps(obj).decode(), ensure_ascii=False)
    message = f"Invalid value: {shown}: {problem}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return DecodeError(f' "" is invalid: patch: {message}', 422, "Invalid", [cause])


def claimed_version(
    registry: Registry, kind: Kind, version: str, obj: Any, shown: Callable[[], Any]
) -> str | None:
    """Return the version that a patched object states; None if it states none.

    Raises:
        DecodeError: 422, it states another kind.
    """
    try:
        name, found = claimed_type(obj)
        if (name, found) == (kind.api_version(version), kind.kind) or kind.unstructured:
            obj["apiVersion"], obj["kind"] = kind.api_version(version), kind.kind
            return version
        found = found or kind.kind
        if not name and found == kind.kind:
            return None
        claimed_group, claimed = split_api_version(name)
        known = registry.known_kind(claimed_group, claimed, found)
        if known is None:
            where = f'version "{name}"' if name else f'the internal version of group "{kind.group}"'
            raise ValueError(f'no kind "{found}" is registered for {where} in scheme "{_SCHEME}"')
        if (claimed_group, found) != (kind.group, kind.kind):
            sanitize(object_type(known, claimed), obj, shown=shown)
            raise ValueError(unknown_conversion((claimed, found), (kind.group, kind.kind)))
    except ValueError as error:
        raise invalid_patch(shown(), str(error)) from error
    obj["kind"] = found
    return claimed


def claimed_type(obj: Any) -> tuple[str, str]:
    """Return the apiVersion and kind of an object, each "" if it is missing.

    Raises:
        ValueError: it is not an object, or one of them is not a string.
    """
    if not isinstance(obj, dict):
        problem = f"json: cannot unmarshal {json_type(obj)} into Go value of type {_TYPE_META}"
        raise ValueError(f"couldn't get version/kind; json parse error: {problem}")
    return _claim(obj, "apiVersion"), _claim(obj, "kind")


def unregistered_message(api_version: str, kind: str) -> str:
    """Return upstream's message for a kind that no version has."""
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'


def unknown_conversion(found: tuple[str, str], wanted: tuple[str, str]) -> str:
    """Return upstream's message for an object of a version and kind where those of another group and kind are
    expected.
    """
    internal = f"({internal_package(wanted[0])}.{wanted[1]})"
    return f"converting ({found[0]}.{found[1]}) to {internal}: unknown conversion"


def _claim(obj: dict[str, Any], member: str) -> str:
    claimed = ""
    # Go's own decoder, which is used here, ignores case.
    for key in sorted(obj):
        if key.lower() == member.lower() and obj[key] is not None:
            if not isinstance(obj[key], str):
                found = json_type(obj[key])
                problem = f"json: cannot unmarshal {found} into Go struct field .{member} of type string"
                raise ValueError(f"couldn't get version/kind; json parse error: {problem}")
            claimed = obj[key]
    return claimed


def _type_meta(parsed: Any, body: bytes, kind: str) -> tuple[str, str, str]:
    """Return the group, version and kind in the body, each "" if it is missing."""
    if not isinstance(parsed, dict):
        found = {str: "string", bool: "bool", list: "array", type(None): "null"}.get(type(parsed), "number")
        if found == "null":
            raise unrecognized_error(kind, "Object 'Kind' is missing in 'null'", body)
        problem = f"json: cannot unmarshal {found} into Go value of type {_TYPE_META}"
        raise unrecognized_error(kind, f"json parse error: {problem}", body)
    texts = {}
    for name, go in (("apiVersion", "apiVersion"), ("kind", "kind")):
        value = parsed.get(name)
        if value is not None and not isinstance(value, str):
            found = {bool: "bool", list: "array", dict: "object"}.get(type(value), "number")
            problem = f"json: cannot unmarshal {found} into Go struct field .{go} of type string"
            raise unrecognized_error(kind, f"json parse error: {problem}", body)
        texts[name] = value or ""
    try:
        group, version = split_api_version(texts["apiVersion"])
    except ValueError as error:
        raise unrecognized_error(kind, str(error), body) from error
    return group, version, texts["kind"]


def _check_type(
    want: tuple[str, str, str], parsed: dict[str, Any], body: bytes, field_validation: str
) -> None:
    """Check the type of a custom resource against its path (apiextensions' ``ValidateTypeMeta``).

    Raises:
        DecodeError: it has no kind, or another version.
        StatusError: 422, it is of another kind.
    """
    group, version, kind = want
    found, claimed = parsed.get("kind") or "", parsed.get("apiVersion") or ""
    if not found:
        problem = f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'"
        # A decoder that is not strict reports it during decoding, a strict one after that.
        if field_validation == "Ignore":
            raise _cannot_handle(kind, version, kind, problem)
        raise without_kind(kind, problem, body)
    if claimed != f"{group}/{version}":
        raise _other_version(claimed, f"{group}/{version}")
    if found != kind:
        metadata = parsed.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        wrong = invalid("kind", found, f"must be {kind}")
        raise invalid_object(group, found, name if isinstance(name, str) else "", [wrong])


def _other_version(found: str, expected: str) -> DecodeError:
    return DecodeError(
        f"the API version in the data ({found}) does not match the expected API version ({expected})"
    )


def _refuse_other(registry: Registry, want: tuple[str, str, str], found: tuple[str, str, str]) -> None:
    """Raise upstream's error for a body of another kind or version than the endpoint's."""
    group, version, kind = found
    name = f"{group}/{version}".lstrip("/")
    known = registry.known_kind(group, version, kind)
    if known is None:
        problem = f'no kind "{kind}" is registered for version "{name}" in scheme "{_SCHEME}"'
        raise _cannot_handle(kind, version, want[2], problem)
    if kind != want[2] or group != want[0]:
        internal = f"({internal_package(want[0])}.{want[2]})"
        raise _cannot_handle(
            kind, version, want[2], f"converting ({version}.{kind}) to {internal}: unknown conversion"
        )
    raise _other_version(name, f"{want[0]}/{want[1]}".lstrip("/"))


def _cannot_handle(kind: str, version: str, wanted: str, problem: str) -> DecodeError:
    return DecodeError(f'{kind} in version "{version}" cannot be handled as a {wanted}: {problem}')


def strict_message(problems: list[str]) -> str:
    """Return the message of a strict decoding with these problems."""
    return "strict decoding error: " + ", ".join(problems)


def _judge(problems: list[str], field_validation: str, kind: str, version: str) -> list[str]:
    if problems and field_validation == "Strict":
        raise _cannot_handle(kind, version, kind, strict_message(problems))
    return problems if field_validation == "Warn" else []
