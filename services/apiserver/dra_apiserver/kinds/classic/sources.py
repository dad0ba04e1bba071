"""Accept pods that name claims with `source:`, as until Kubernetes 1.30, by rewriting the body before it is
decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from dra_shared.classic.notes import Notes
from dra_shared.classic.pods import SOURCES, pod_spec, without_source
from dra_shared.jsontext import dumps
from dra_shared.yamltext import YamlError, load

_RETAIN_KEYS = "$retainKeys"

Rewrite = Callable[[bytes], bytes]


def rewrite(api_version: str, kind: str) -> Rewrite:
    """Return a function that moves the fields of `source` in bodies and patches of a kind to their current place."""

    def change(body: bytes) -> bytes:
        if b"source" not in body:
            return body
        value = _value(body)
        if not isinstance(value, dict):
            return body
        named = {**value, "apiVersion": api_version, "kind": kind}
        changed = without_source(named, Notes(""))
        _retain(changed)
        if changed == named:
            return body
        # A patch may omit its type.
        own = {name: below for name, below in changed.items() if name in value}
        return dumps({**own, **{name: value[name] for name in ("apiVersion", "kind") if name in value}})

    return change


def _retain(obj: dict[str, Any]) -> None:
    """Replace `source` in a strategic merge patch's list of retained fields by the current fields."""
    _, spec = pod_spec(obj) or ("", {})
    for entry in spec.get("resourceClaims") or ():
        kept = entry.get(_RETAIN_KEYS) if isinstance(entry, dict) else None
        if isinstance(kept, list) and "source" in kept:
            own = [name for name in SOURCES if name in entry]
            entry[_RETAIN_KEYS] = [*(name for name in kept if name != "source"), *own]


def _value(body: bytes) -> Any:
    """Return the value of a body of JSON or YAML; None for protobuf or malformed bodies."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return load(body).value
    except (YamlError, UnicodeDecodeError):
        return None
