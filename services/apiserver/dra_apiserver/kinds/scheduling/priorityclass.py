"""Validation of priority classes (upstream's `pkg/apis/scheduling/validation`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.checked import CheckedStrategy
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported
from dra_apiserver.kindkit.strategy import Context


def set_default_preemption_policy(obj: JsonObject, _version: str, _now: str) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


_HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(CheckedStrategy):
    """The strategy of priority classes. The generation is always 1, because upstream only sets it at creation."""

    def __init__(self) -> None:
        super().__init__(check_priority_class)

    def is_new_generation(self, obj: JsonObject, old: JsonObject, ctx: Context) -> bool:
        """Return False: no change increments the generation."""
        return False


def check_priority_class(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a priority class: its value must be in the users' range, and is immutable."""
    name, value = (obj.get("metadata") or {}).get("name", ""), obj.get("value") or 0
    policy = obj.get("preemptionPolicy")
    if old is not None:
        errors = []
        if value != (old.get("value") or 0):
            errors.append(forbidden_field("value", "may not be changed in an update."))
        if policy != old.get("preemptionPolicy"):
            errors.append(invalid("preemptionPolicy", policy or "", IMMUTABLE))
        return errors
    errors = []
    if name.startswith("system-"):
        problem = _system_priority_problem(name, value, bool(obj.get("globalDefault")))
        if problem:
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            errors.append(forbidden_field("metadata.name", text + problem))
    elif value > _HIGHEST_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        errors.append(forbidden_field("value", text))
    if policy is not None and policy not in _PREEMPTION:
        missing = [missing_field("preemptionPolicy")]
        errors += [not_supported("preemptionPolicy", policy, _PREEMPTION)] if policy else missing
    return errors


def _system_priority_problem(name: str, value: int, is_default: bool) -> str:
    if name not in _SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if value != _SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""
