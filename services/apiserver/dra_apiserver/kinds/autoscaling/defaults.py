"""Defaults of autoscalers (upstream's `pkg/apis/autoscaling/v2/defaults.go`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

# The defaults for scaling up if a behavior omits them.
_SCALE_UP: JsonObject = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: JsonObject = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def autoscaler(obj: JsonObject, version: str, _now: str) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if version != "v2":
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        for name, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            given = {key: value for key, value in (behavior.get(name) or {}).items() if value is not None}
            made = {**rules, **given}
            behavior[name] = {**made, "policies": [dict(policy) for policy in made["policies"]]}
