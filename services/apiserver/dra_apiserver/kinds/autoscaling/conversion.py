"""Convert autoscaling/v1, which has a target CPU utilization, to and from the stored v2, which has any metrics.

Fields that v1 lacks are kept in annotations, so that a conversion to v1 and back loses nothing.
"""

from collections.abc import Callable

import orjson
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.schema.reader import complete
from dra_apiserver.schema.types import type_of

Convert = Callable[[JsonObject], None]

_PREFIX = "autoscaling.alpha.kubernetes.io/"
# Annotation -> its field in v2.
_KEPT = {
    "metrics": ("spec", "metrics"),
    "behavior": ("spec", "behavior"),
    "current-metrics": ("status", "currentMetrics"),
    "conditions": ("status", "conditions"),
}


def _cpu(metric: JsonObject, part: str) -> int | None:
    """Return the CPU utilization of a metric if v1 can express it, else None."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get(part) or {}).get("averageUtilization")
    return found


def from_v1(obj: JsonObject) -> None:
    metadata = obj.setdefault("metadata", {})
    annotations = metadata.get("annotations") or {}
    for name, (section, field) in _KEPT.items():
        text = annotations.pop(_PREFIX + name, None)
        if text is not None:
            try:
                obj.setdefault(section, {})[field] = orjson.loads(text)
            except orjson.JSONDecodeError:
                continue
    if "annotations" in metadata and not annotations:
        del metadata["annotations"]
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}
        spec["metrics"] = [{"type": "Resource", "resource": resource}, *spec.get("metrics", ())]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": current}}
        status["currentMetrics"] = [
            {"type": "Resource", "resource": resource},
            *(status.get("currentMetrics") or ()),
        ]
    _complete(obj, "v2")


def to_v1(obj: JsonObject) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    for section, field, part, name in (
        (spec, "metrics", "target", "targetCPUUtilizationPercentage"),
        (status, "currentMetrics", "current", "currentCPUUtilizationPercentage"),
    ):
        metrics = section.get(field) or []
        found = next((index for index, one in enumerate(metrics) if _cpu(one, part) is not None), None)
        if found is not None:
            section[name] = _cpu(metrics[found], part)
            section[field] = metrics[:found] + metrics[found + 1 :]
    kept = {}
    for annotation, (where, field) in _KEPT.items():
        value = (obj.get(where) or {}).pop(field, None)
        if value:
            kept[_PREFIX + annotation] = dumps(value).decode()
    if kept:
        metadata = obj.setdefault("metadata", {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **kept}
    _complete(obj, "v1")


def _complete(obj: JsonObject, version: str) -> None:
    node = type_of("autoscaling", version, "HorizontalPodAutoscaler")
    if node is not None:
        complete(node, obj)
