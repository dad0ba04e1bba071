"""The kinds of metrics.k8s.io, which metrics-server adds to clusters (its `pkg/api`).

They are not stored, but computed on request from metrics of kubelets.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kindkit.names import selectable_field
from dra_apiserver.kindkit.serving import Column, FieldSelection, Printer, TypeSource

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
_READ = frozenset({"get", "list"})
_TEXT = {"type": "string"}
_USAGE = {
    "type": "object",
    "description": "What is used, by resource.",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
}
_MEASURED = {
    "timestamp": {**_TEXT, "format": "date-time", "description": "When the window ended."},
    "window": {**_TEXT, "description": "The time over which the usage was measured."},
}
_CONTAINER = {"type": "object", "properties": {"name": _TEXT, "usage": _USAGE}, "required": ["name", "usage"]}
_COLUMNS = (
    Column("Name", format="name", description="Name of the resource"),
    Column("cpu", format="quantity"),
    Column("memory", format="quantity"),
    Column("Window", format="duration"),
)


def _kind(
    name: str,
    plural: str,
    properties: JsonObject,
    cells: Any,
    *,
    namespaced: bool,
) -> Kind:
    labels = ["metadata.name", "metadata.namespace"] if namespaced else ["metadata.name"]
    return Kind(
        group=GROUP,
        kind=name,
        plural=plural,
        singular="",
        namespaced=namespaced,
        versions=(VERSION,),
        all_versions=(VERSION,),
        storage_version=VERSION,
        storage=(GROUP, plural),
        verbs=_READ,
        field_selection=FieldSelection(fields={label: selectable_field(label, label) for label in labels}),
        types=TypeSource(
            schemas={VERSION: {"type": "object", "properties": {**_MEASURED, **properties}}},
            has_messages=True,
        ),
        printers={"": Printer(_COLUMNS, cells)},
        service="kube-system/metrics-server",
    )


def _node_cells(obj: JsonObject, _now: datetime) -> list[Any]:
    return _cells(obj, obj["usage"]["cpu"], obj["usage"]["memory"])


def _pod_cells(obj: JsonObject, _now: datetime) -> list[Any]:
    return _cells(obj, *(_total(obj, name) for name in ("cpu", "memory")))


def _cells(obj: JsonObject, cpu: str, memory: str) -> list[Any]:
    return [obj["metadata"]["name"], cpu, memory, obj["window"]]


def _total(obj: JsonObject, resource: str) -> str:
    first, *rest = (Quantity.parse(one["usage"][resource]) for one in obj["containers"])
    for amount in rest:
        first = first.add(amount)
    return str(first)


KINDS = (
    _kind("NodeMetrics", "nodes", {"usage": _USAGE}, _node_cells, namespaced=False),
    _kind(
        "PodMetrics",
        "pods",
        {"containers": {"type": "array", "items": _CONTAINER}},
        _pod_cells,
        namespaced=True,
    ),
)
