"""Apply the body of a PATCH to an object, one class for each media type (apiserver's
`endpoints/handlers/patch.go`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from dra_shared.jsontypes import JsonObject

from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.errors import bad_request
from dra_apiserver.handlers.options import WriteOptions
from dra_apiserver.patch import (
    APPLY_PATCH,
    JSON_PATCH,
    STRATEGIC_MERGE_PATCH,
    PatchError,
    decode_apply,
    json_patch,
    load_merge,
    load_operations,
    load_strategic,
    merge_patch,
    repeated_in_apply,
    repeated_keys,
    server_side_apply,
    strategic_merge_patch,
)
from dra_apiserver.registry import Registry
from dra_apiserver.schema import default, object_type, sanitize
from dra_apiserver.schema.decode import claimed_version, invalid_patch, strict_message
from dra_apiserver.schema.unstructured import sanitize_patched
from dra_apiserver.target import Target

Seen = Callable[[], JsonObject]


@dataclass(slots=True)
class Patched:
    """The result of a patch: an object in the request's version, and texts for Warning headers."""

    obj: JsonObject
    warnings: list[str] = field(default_factory=list)


class Mechanism(Protocol):
    """A kind of patch.

    The argument ``seen`` returns the current object in the request's version, as a new copy for each call.
    """

    def patch(self, seen: Seen, now: str) -> Patched:
        """Return the patched object.

        Raises:
            DecodeError: the result is not an object of its kind.
            PatchError: the patch can't be applied.
        """


def mechanism(
    registry: Registry, target: Target, body: bytes, media_type: str, options: WriteOptions
) -> Mechanism:
    """Return the mechanism for a request's patch.

    Raises:
        PatchError: the patch is malformed.
        StatusError: it is not for this kind of objects.
    """
    try:
        if media_type == APPLY_PATCH:
            return Apply(target, body, options)
        if media_type == STRATEGIC_MERGE_PATCH:
            return _Strategic(target, body, options)
        return _Plain(registry, target, body, media_type, options)
    except RecursionError as error:
        raise PatchError("error decoding patch: exceeded max depth") from error


class _Plain:
    """A JSON patch or a merge patch. Its result is decoded like a body."""

    def __init__(
        self, registry: Registry, target: Target, body: bytes, media_type: str, options: WriteOptions
    ) -> None:
        self._registry, self._target = registry, target
        self._validation = options.field_validation
        strict = self._validation != "Ignore"
        self._operations: list[Any] | None = None
        self._merge: JsonObject = {}
        if media_type == JSON_PATCH:
            self._operations, self._problems = load_operations(body, strict)
        else:
            self._merge, self._problems = load_merge(body, strict)

    def _result(self, seen: Seen) -> Any:
        try:
            if self._operations is None:
                return merge_patch(seen(), self._merge)
            return json_patch(seen(), self._operations)
        except RecursionError as error:
            raise PatchError("error decoding patch: exceeded max depth") from error

    def patch(self, seen: Seen, now: str) -> Patched:
        obj = self._result(seen)
        target, shown = self._target, lambda: self._result(seen)
        version = claimed_version(self._registry, target.kind, target.version, obj, shown)
        if version is None:
            return self._internal(obj, shown)
        touched = None
        if self._operations is None and version == target.version:
            touched = self._merge
        node = object_type(target.kind, version)
        warnings = sanitize(node, obj, self._validation, touched, shown, self._problems)
        if version != target.version:
            default(target.kind, version, obj, now)
            obj = convert(target.kind, to_storage(target.kind, obj, version), target.version)
        return Patched(obj, warnings)

    def _internal(self, obj: JsonObject, shown: Callable[[], Any]) -> Patched:
        """Patch an object that has no apiVersion afterwards.

        Upstream decodes it as its internal type, with other field names.
        """
        unknown = [f'unknown field "{key}"' for key in obj if key not in {"apiVersion", "kind"}]
        problems = [*self._problems, *unknown]
        if self._validation == "Strict" and problems:
            raise invalid_patch(shown(), strict_message(problems))
        return Patched({}, problems if self._validation == "Warn" else [])


class _Strategic:
    """A strategic merge patch. Its result is not decoded from text."""

    def __init__(self, target: Target, body: bytes, options: WriteOptions) -> None:
        self._target, self._body = target, body
        self._validation = options.field_validation
        patch = load_strategic(body)
        self._problems = repeated_keys(body, patch) if self._validation != "Ignore" else []

    def patch(self, seen: Seen, now: str) -> Patched:
        obj, left = self._merge(seen)
        kind, version = self._target.kind, self._target.version
        warnings = sanitize_patched(
            kind, version, obj, left, lambda: self._merge(seen)[1], self._validation, self._problems
        )
        return Patched(obj, warnings)

    def _merge(self, seen: Seen) -> tuple[JsonObject, JsonObject]:
        """Return the patched object, and what is left of the patch. The two share parts."""
        patch = load_strategic(self._body)
        node = object_type(self._target.kind, self._target.version)
        return strategic_merge_patch(node, seen(), patch), patch


class Apply:
    """A server-side apply.

    :meth:`create` is used if the object does not exist. Each instance is used for one request.
    """

    def __init__(self, target: Target, body: bytes, options: WriteOptions) -> None:
        self._target, self._options = target, options
        self._body = body
        self._applied = decode_apply(body)
        self._check(self._applied)

    def _check(self, applied: JsonObject) -> None:
        target = self._target
        want = (target.kind.api_version(target.version), target.kind.kind)
        found = tuple(
            applied[name] if isinstance(applied.get(name), str) else "" for name in ("apiVersion", "kind")
        )
        if found != want:
            name = found[0] if "/" in found[0] else f"/{found[0]}"
            raise bad_request(f"invalid object type: {name}, Kind={found[1]}")

    def patch(self, seen: Seen, now: str) -> Patched:
        return self._apply(seen(), now)

    def create(self, now: str) -> Patched:
        """Create an object from the applied configuration."""
        return self._apply(None, now)

    def _apply(self, seen: JsonObject | None, now: str) -> Patched:
        target, options = self._target, self._options
        obj = server_side_apply(
            target.kind,
            target.version,
            seen,
            self._applied,
            manager=options.manager,
            force=bool(options.force),
            subresource=target.subresource,
            now=now,
        )
        repeated = [] if options.field_validation == "Ignore" else repeated_in_apply(self._body)
        if repeated and options.field_validation == "Strict":
            text = "\n  ".join(["error converting YAML to JSON: yaml: unmarshal errors:", *repeated])
            raise PatchError(f"error strict decoding YAML: {text}")
        return Patched(obj, repeated)
