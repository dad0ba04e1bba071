"""Validate a pod's constraints on nodes: tolerations, affinity, spreading, gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject
from dra_shared.names import label_value

from dra_apiserver.common import names
from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.errors import FieldError, duplicate, invalid, missing_field, not_supported
from dra_apiserver.kinds.resource.selectors import check_node_selector, check_node_selector_term

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_HIGHEST_WEIGHT = 100


def check_tolerations(tolerations: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Validate a pod's tolerations."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _check_toleration(toleration, f"{path}[{index}]")
    return errors


def _check_toleration(toleration: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    key, value = toleration.get("key", ""), toleration.get("value", "")
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if key:
        errors += names.label_name(key, f"{path}.key")
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", operator, text))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, text))
    if operator in ("", "Equal"):
        problems = label_value(value)
        if problems:
            errors.append(invalid(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            errors.append(
                invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
            )
    else:
        errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    if effect and effect not in _EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return errors


def check_gates(gates: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Validate the scheduling gates."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += names.label_name(name, f"{path}[{index}]")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def check_affinity(affinity: JsonObject, path: str) -> list[FieldError]:
    """Validate node affinity and pod affinity."""
    errors: list[FieldError] = []
    nodes = affinity.get("nodeAffinity") or {}
    wanted = nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    at = f"{path}.nodeAffinity"
    if wanted is not None:
        errors += check_node_selector(wanted, f"{at}.requiredDuringSchedulingIgnoredDuringExecution")
    for index, term in enumerate(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        preferred = f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        errors += _check_weight(term, preferred)
        errors += check_node_selector_term(term.get("preference") or {}, f"{preferred}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        errors += _check_pod_affinity(affinity.get(kind) or {}, f"{path}.{kind}")
    return errors


def _check_weight(term: JsonObject, path: str) -> list[FieldError]:
    weight = term.get("weight") or 0
    if 1 <= weight <= _HIGHEST_WEIGHT:
        return []
    return [invalid(f"{path}.weight", weight, f"must be in the range 1-{_HIGHEST_WEIGHT}")]


def _check_pod_affinity(affinity: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _check_term(term, f"{at}[{index}]")
    at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _check_weight(term, f"{at}[{index}]")
        errors += _check_term(term.get("podAffinityTerm") or {}, f"{at}[{index}].podAffinityTerm")
    return errors


def _check_term(term: JsonObject, path: str) -> list[FieldError]:
    errors = check_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += check_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        errors += names.label(namespace, f"{path}.namespace")
    key = term.get("topologyKey", "")
    if not key:
        errors.append(missing_field(f"{path}.topologyKey", "can not be empty"))
    return errors + names.label_name(key, f"{path}.topologyKey")


def check_spreading(constraints: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Validate the topology spread constraints."""
    errors: list[FieldError] = []
    later = Counter((one.get("topologyKey", ""), one.get("whenUnsatisfiable", "")) for one in constraints)
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey", "")
        if skew <= 0:
            errors.append(invalid(f"{at}.maxSkew", skew, "must be greater than zero"))
        if not key:
            errors.append(missing_field(f"{at}.topologyKey", "can not be empty"))
        otherwise = constraint.get("whenUnsatisfiable", "")
        if otherwise not in _UNSATISFIABLE:
            errors.append(not_supported(f"{at}.whenUnsatisfiable", otherwise, _UNSATISFIABLE))
        later[key, otherwise] -= 1
        if later[key, otherwise]:
            errors.append(duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {otherwise}}}"))
        errors += check_label_selector(constraint.get("labelSelector"), f"{at}.labelSelector")
        least = constraint.get("minDomains")
        if least is not None:
            if least <= 0:
                errors.append(invalid(f"{at}.minDomains", least, "must be greater than zero"))
            if otherwise != "DoNotSchedule":
                text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {otherwise}"
                errors.append(invalid(f"{at}.minDomains", least, text))
    return errors
