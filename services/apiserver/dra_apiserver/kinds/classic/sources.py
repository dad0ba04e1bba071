"""Pods that name claims by `source:`, as they did until Kubernetes 1.30: the body is changed before it is read."""

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
    """What moves the fields of `source` in bodies of a kind to where they are today; patches too."""

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
        # A patch need not say what it is of.
        own = {name: below for name, below in changed.items() if name in value}
        return dumps({**own, **{name: value[name] for name in ("apiVersion", "kind") if name in value}})

    return change


def _retain(obj: dict[str, Any]) -> None:
    """Say in a strategic merge patch which fields of today stay in an entry, where it says that `source` does."""
    _, spec = pod_spec(obj) or ("", {})
    for entry in spec.get("resourceClaims") or ():
        kept = entry.get(_RETAIN_KEYS) if isinstance(entry, dict) else None
        if isinstance(kept, list) and "source" in kept:
            own = [name for name in SOURCES if name in entry]
            entry[_RETAIN_KEYS] = [*(name for name in kept if name != "source"), *own]


def _value(body: bytes) -> Any:
    """What is in a body of JSON or YAML; None in one of protobuf, or one that the reader refuses."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return load(body).value
    except (YamlError, UnicodeDecodeError):
        return None
