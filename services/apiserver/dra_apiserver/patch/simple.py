"""JSON patch and JSON merge patch."""

from __future__ import annotations

from typing import Any

import orjson
from dra_shared.repeatedkeys import RepeatedKeys

from dra_apiserver.patch.errors import PatchError
from dra_apiserver.patch.operations import OperationFailed, apply_operations, copy_value
from dra_apiserver.schema.jsontext import syntax_error
from dra_apiserver.schema.parse import JSON, may_repeat, parse_body

_MOST_OPERATIONS = 10_000
_MOST_PROBLEMS = 100
_OPERATION = {"op": "string", "path": "string", "from": "string", "value": ""}
UNPROCESSABLE = "the server rejected our request due to an error in our request"
"""Upstream's message for a patch that cannot be applied."""


def load(body: bytes, prefix: str = "error decoding patch: ") -> Any:
    """Parse the JSON of a patch body.

    Raises:
        PatchError: the JSON is malformed.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise PatchError(f"{prefix}{syntax_error(body)}") from error


def large_as_floats(value: Any) -> Any:
    """Convert whole numbers beyond 64 bits to floats, like Go's decoder."""
    if isinstance(value, dict):
        value.update({key: large_as_floats(one) for key, one in value.items()})
    elif isinstance(value, list):
        value[:] = map(large_as_floats, value)
    elif type(value) is int and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def repeated_keys(body: bytes, value: Any = None) -> list[str]:
    """Return the problems that strict decoding reports for a well-formed untyped body, which was decoded to
    `value`.
    """
    problems: list[str] = []
    # Most bodies have no repeated keys, and this check avoids parsing them again.
    if value is not None and not may_repeat(body, value):
        return problems
    _collect_repeated(parse_body(body, JSON, "", "Strict"), "", problems)
    return problems


def _collect_repeated(value: Any, path: str, problems: list[str]) -> None:
    if isinstance(value, list):
        for index, one in enumerate(value):
            _collect_repeated(one, f"{path}[{index}]", problems)
    elif isinstance(value, dict):
        seen: set[str] = set()
        for key in value.keys_in_order if isinstance(value, RepeatedKeys) else ():
            if key in seen:
                _add(problems, f'duplicate field "{f"{path}.{key}".removeprefix(".")}"')
            seen.add(key)
        for key, one in value.items():
            _collect_repeated(one, f"{path}.{key}", problems)


def _add(problems: list[str], problem: str) -> None:
    if problem not in problems and len(problems) < _MOST_PROBLEMS:
        problems.append(problem)


def load_operations(body: bytes, strict: bool) -> tuple[list[Any], list[str]]:
    """Return the operations of a JSON patch, and the problems of strict decoding.

    Raises:
        PatchError: malformed (400), or too many operations (413).
    """
    operations = load(body, "error decoding patch: " if strict else "")
    if operations is None:
        operations = []
    of, one_of = ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    if not strict:
        of, one_of = ("jsonpatch.Patch", "jsonpatch.Operation")
    prefix = "error decoding patch: " if strict else ""
    if not isinstance(operations, list):
        raise PatchError(
            f"{prefix}json: cannot unmarshal {_json_kind(operations)} into Go value of type {of}"
        )
    for one in operations:
        if one is not None and not isinstance(one, dict):
            raise PatchError(
                f"{prefix}json: cannot unmarshal {_json_kind(one)} into Go value of type {one_of}"
            )
        if strict and one:
            _check_types(one)
    problems: list[str] = []
    if strict:
        for index, one in enumerate(operations):
            for name in one or ():
                if name not in _OPERATION:
                    _add(problems, f'unknown field "[{index}].{name}"')
        for problem in repeated_keys(body, operations):
            _add(problems, problem)
    if len(operations) > _MOST_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}",
            413,
            "RequestEntityTooLarge",
        )
    return operations, [f"json patch {problem}" for problem in problems]


def _check_types(operation: dict[str, Any]) -> None:
    for name, value in operation.items():
        if _OPERATION.get(name) and value is not None and not isinstance(value, str):
            field = f"Go struct field jsonPatchOp.{name} of type string"
            raise PatchError(f"error decoding patch: json: cannot unmarshal {_json_kind(value)} into {field}")


def _json_kind(value: Any) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return kinds.get(type(value), "number")


def json_patch(obj: dict[str, Any], operations: list[Any]) -> Any:
    """Return ``obj``, which is modified, after the operations of a JSON patch (RFC 6902).

    They may turn it into a list.

    Raises:
        PatchError: an operation failed (422).
    """
    try:
        made = apply_operations(obj, operations)
    except OperationFailed as error:
        raise PatchError(UNPROCESSABLE, 422, "Invalid") from error
    # Sorted like by upstream's library, because error messages show the result.
    return dict(sorted(made.items())) if isinstance(made, dict) else made


def load_merge(body: bytes, strict: bool) -> tuple[Any, list[str]]:
    """Return a merge patch, and the problems of strict decoding.

    Raises:
        PatchError: the body is not a JSON object.
    """
    patch = load(body)
    if patch is None:
        raise PatchError("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise PatchError(
            f"error decoding patch: json: cannot unmarshal {_json_kind(patch)} into Go value of type "
            "map[string]interface {}"
        )
    return patch, repeated_keys(body, patch) if strict else []


def merge_patch(obj: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return ``obj`` after a JSON merge patch (RFC 7386)."""
    return merge(obj, patch)


def merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a merge patch. Neither argument is changed, and the result may share parts with both."""
    made: dict[str, Any] = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        current = made.get(key)
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict) and isinstance(current, dict):
            made[key] = merge(current, value)
        elif isinstance(current, dict):
            made[key] = copy_value(value)
        else:
            made[key] = _without_nulls(value)
    # Upstream's encoder sorts the objects that it changed, which error messages show.
    return dict(sorted(made.items()))


def _without_nulls(value: Any) -> Any:
    """Return a new value without null members, including those of a list's items."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
