"""Validate HorizontalPodAutoscalers of autoscaling/v2."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_label, label_key, path_segment
from dra_shared.quantity import Quantity

from dra_apiserver.common.counts import check_counts
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported


def check_autoscaler_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the current and desired number of replicas."""
    return check_counts(obj.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status")


_LONGEST_PERIOD = 1800
_LONGEST_WINDOW = 3600
_SELECT = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
# Upstream checks the source types in this order, and validates only the first one that is set.
_LOOKED_AT = ("object", "external", "pods", "resource", "containerResource")
_TARGETS = ("Utilization", "Value", "AverageValue")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def check_autoscaler(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate the bounds, the target, metrics and behavior."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        errors.append(missing_field("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        text = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", most, text))
    errors += _check_reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", core=False)
    kinds = set()
    for index, metric in enumerate(spec.get("metrics") or ()):
        errors += _check_metric(metric, f"spec.metrics[{index}]")
        kinds.add(metric.get("type"))
    if least == 0 and not kinds & {"Object", "External"}:
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden_field("spec.metrics", text))
    behavior = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if behavior.get(name) is not None:
            errors += _check_rules(behavior[name], f"spec.behavior.{name}")
    return errors


def _check_reference(reference: JsonObject, path: str, *, core: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        if not value:
            errors.append(missing_field(f"{path}.{field}"))
        errors += [invalid(f"{path}.{field}", value, text) for text in path_segment(value) if value]
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif not core and not version.rpartition("/")[0]:
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _check_metric(metric: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = metric.get("type") or ""
    unknown = not_supported(f"{path}.type", kind, tuple(_SOURCES))
    if not kind:
        errors.append(missing_field(f"{path}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        errors.append(unknown)
    present = [name for name in _LOOKED_AT if metric.get(name) is not None]
    if present:
        errors += _check_source(present[0], metric[present[0]], f"{path}.{present[0]}")
    wanted = _SOURCES.get(kind, "")
    if not wanted:
        errors.append(unknown)
    elif metric.get(wanted) is None:
        errors.append(
            missing_field(f"{path}.{wanted}", "must populate information for the given metric source")
        )
    if len(present) != 1:
        errors += [
            forbidden_field(f"{path}.{name}", "must populate the given metric source only")
            for name in present
            if name != wanted
        ]
    return errors


def _check_source(kind: str, source: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    target, at = source.get("target") or {}, f"{path}.target"
    value, average = target.get("value"), target.get("averageValue")
    share = target.get("averageUtilization")
    if kind == "object":
        errors += _check_reference(source.get("describedObject") or {}, f"{path}.describedObject", core=True)
    if kind in ("object", "external", "pods"):
        name = (source.get("metric") or {}).get("name") or ""
        if not name:
            errors.append(missing_field(f"{path}.metric.name", "must specify a metric name"))
        errors += [invalid(f"{path}.metric.name", name, text) for text in path_segment(name) if name]
    else:
        errors += _check_resource(kind, source, path)
    errors += _check_target(target, at)
    if kind == "pods" and average is None:
        errors.append(missing_field(f"{at}.averageValue", "must specify a positive target averageValue"))
    if kind == "object" and value is None and average is None:
        errors.append(missing_field(f"{at}.averageValue", "must set either a target value or averageValue"))
    if kind == "external":
        if value is None and average is None:
            text = "must set either a target value for metric or a per-pod target"
            errors.append(missing_field(f"{at}.averageValue", text))
        if value is not None and average is not None:
            text = "may not set both a target value for metric and a per-pod target"
            errors.append(forbidden_field(f"{at}.value", text))
    if kind in ("resource", "containerResource"):
        if share is None and average is None:
            text = "must set either a target raw value or a target utilization"
            errors.append(missing_field(f"{at}.averageUtilization", text))
        if share is not None and average is not None:
            text = "may not set both a target raw value and a target utilization"
            errors.append(forbidden_field(f"{at}.averageValue", text))
    return errors


def _check_resource(kind: str, source: JsonObject, path: str) -> list[FieldError]:
    name = source.get("name") or ""
    errors: list[FieldError] = []
    if not name:
        errors.append(missing_field(f"{path}.name", "must specify a resource name"))
    elif kind == "containerResource":
        errors += [invalid(f"{path}.name", name, text) for text in label_key(name)]
        if "/" not in name and name not in _RESOURCES and not name.startswith("hugepages-"):
            text = "must be a standard resource for containers"
            errors.append(invalid(f"{path}.name", name, text))
    if kind == "containerResource":
        container = source.get("container") or ""
        if not container:
            errors.append(missing_field(f"{path}.container", "must specify a container"))
        errors += [
            invalid(f"{path}.container", container, text) for text in dns_label(container) if container
        ]
    return errors


def _check_target(target: JsonObject, path: str) -> list[FieldError]:
    kind = target.get("type") or ""
    errors: list[FieldError] = []
    if not kind:
        errors.append(missing_field(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        text = "must be either Utilization, Value, or AverageValue"
        errors.append(invalid(f"{path}.type", kind, text))
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and Quantity.parse(str(amount)) <= Quantity.parse("0"):
            errors.append(invalid(f"{path}.{field}", amount, "must be positive"))
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        errors.append(invalid(f"{path}.averageUtilization", share, "must be greater than 0"))
    return errors


def _check_rules(rules: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    window, at = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        errors.append(invalid(at, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    select = rules.get("selectPolicy")
    if select is not None and select not in _SELECT:
        errors.append(not_supported(f"{path}.selectPolicy", select, _SELECT))
    policies = rules.get("policies") or []
    if not policies:
        errors.append(missing_field(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        one, period = f"{path}.policies[{index}]", policy.get("periodSeconds") or 0
        if policy.get("type") not in _POLICIES:
            errors.append(not_supported(f"{one}.type", policy.get("type") or "", _POLICIES))
        if (policy.get("value") or 0) <= 0:
            errors.append(invalid(f"{one}.value", policy.get("value") or 0, "must be greater than zero"))
        if period <= 0:
            errors.append(invalid(f"{one}.periodSeconds", period, "must be greater than zero"))
        if period > _LONGEST_PERIOD:
            text = f"must be less than or equal to {_LONGEST_PERIOD}"
            errors.append(invalid(f"{one}.periodSeconds", period, text))
    tolerance = rules.get("tolerance")
    if tolerance is not None and Quantity.parse(str(tolerance)) < Quantity.parse("0"):
        text = "must be greater than or equal to 0"
        errors.append(invalid(f"{path}.tolerance", str(tolerance), text))
    return errors
