"""Config objects declared by a profile: strict decoding, defaults, checks."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from dra_driverkit.errors import PrepareError

from dra_node_agent.drivers.profile.model import ConfigField, ConfigKind

_TYPES: Mapping[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "boolean": (bool,)}


def default_config(kinds: tuple[ConfigKind, ...]) -> dict[str, Any]:
    """Return the values for a device without any config: the first kind's defaults, by dotted path."""
    return _complete({}, kinds[0]) if kinds else {}


def decode_config(parameters: Any, kinds: tuple[ConfigKind, ...]) -> dict[str, Any]:
    """Return the values of a config object by dotted path, including defaults.

    Raises:
        PrepareError: its kind is unknown, or it violates the rules of its kind.
    """
    value = msgspec.json.decode(parameters) if isinstance(parameters, msgspec.Raw) else parameters
    if not isinstance(value, dict) or not value.get("kind"):
        raise PrepareError(
            f"error decoding config parameters: Object 'Kind' is missing in '{json.dumps(value)}'"
        )
    kind = next(
        (k for k in kinds if (k.api_version, k.kind) == (value.get("apiVersion"), value["kind"])), None
    )
    if kind is None:
        raise PrepareError(
            f'error decoding config parameters: no kind "{value["kind"]}" is registered for version '
            f'"{value.get("apiVersion", "")}"'
        )
    given = dict(_flatten({k: v for k, v in value.items() if k not in ("apiVersion", "kind")}, kind.fields))
    unknown = [path for path in given if path not in kind.fields]
    if unknown:
        raise PrepareError(
            "error decoding config parameters: strict decoding error: "
            + ", ".join(f'unknown field "{path}"' for path in unknown)
        )
    complete = _complete(given, kind)
    for path, field in kind.fields.items():
        if path in complete:
            _check(path, complete[path], field)
    return complete


def _flatten(
    value: Mapping[str, Any], fields: Mapping[str, ConfigField], path: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        full = f"{path}{name}"
        inside = any(known.startswith(f"{full}.") for known in fields)
        if isinstance(inner, Mapping) and inside:
            yield from _flatten(inner, fields, f"{full}.")
        elif inner is not None:
            yield full, inner


def _complete(given: dict[str, Any], kind: ConfigKind) -> dict[str, Any]:
    complete = dict(given)
    for path, field in kind.fields.items():
        allowed = all(complete.get(other) == wanted for other, wanted in field.when.items())
        if path in complete and not allowed:
            needed = ", ".join(f"{other} is {wanted}" for other, wanted in field.when.items())
            raise PrepareError(f"cannot use {path} unless {needed}")
        if path not in complete and allowed and field.default is not None:
            complete[path] = field.default
    return complete


def _check(path: str, value: Any, field: ConfigField) -> None:
    types = _TYPES[field.type]
    if not isinstance(value, types) or (isinstance(value, bool) and field.type != "boolean"):
        raise PrepareError(f"error decoding config parameters: {path}: expected {field.type}, got {value!r}")
    low = field.minimum is not None and isinstance(value, int) and value < field.minimum
    high = field.maximum is not None and isinstance(value, int) and value > field.maximum
    if low or high or (field.enum and value not in field.enum):
        raise PrepareError(field.error.replace("{value}", str(value)))
