"""The kinds of node.k8s.io (upstream's `pkg/registry/node`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label

from dra_apiserver.common.builtin import builtin
from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.nodelabels import DEPRECATED
from dra_apiserver.common.objectcells import age, name
from dra_apiserver.common.printing import printer
from dra_apiserver.errors import FieldError, invalid, missing_field
from dra_apiserver.kindkit.behaviour import Writes


def _warn_of_labels(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    for key in (obj.get("scheduling") or {}).get("nodeSelector") or {}:
        if key in DEPRECATED:
            yield f"scheduling.nodeSelector: {DEPRECATED[key]}"


def _check_runtime_class(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a runtime class: its handler is immutable, and a label."""
    handler = obj.get("handler") or ""
    if old is not None and handler != (old.get("handler") or ""):
        return [invalid("handler", handler, "field is immutable")]
    return (
        [missing_field("handler")]
        if not handler
        else [invalid("handler", handler, text) for text in dns_label(handler)]
    )


def _runtime_class_cells(obj: JsonObject, now: datetime) -> list[Any]:
    return [name(obj), obj.get("handler", ""), age(obj, now)]


KINDS = (
    builtin(
        "node.k8s.io",
        "runtimeclasses",
        strategy=CheckedStrategy(_check_runtime_class),
        printer=printer("Name|Handler|Age", _runtime_class_cells),
        warnings={"": _warn_of_labels},
        writes=Writes(allow_create_on_update=True, allow_unconditional_update=False),
    ),
)
