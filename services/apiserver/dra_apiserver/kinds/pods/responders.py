"""Validate the eviction responders of a pod, as their type declares (`EvictionResponder` and its custom rules)."""

from __future__ import annotations

from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.names import prefixed_label_key, reserved_domain
from dra_apiserver.errors import FieldError, duplicate, forbidden_field, invalid, missing_field, too_many

_MOST = 10
_HIGHEST_PRIORITY = 100_000
_RESERVED_PRIORITIES = range(1000)


def check_responders(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the responders of a pod spec, which a pod of a group cannot have."""
    responders: Sequence[JsonObject] = spec.get("evictionResponders") or ()
    at = f"{path}.evictionResponders"
    errors: list[FieldError] = []
    if responders and spec.get("schedulingGroup") is not None:
        text = "may not be set when evictionResponders is set"
        errors.append(forbidden_field(f"{path}.schedulingGroup", text))
    if len(responders) > _MOST:
        return [*errors, too_many(at, len(responders), _MOST)]
    names = [responder.get("name", "") for responder in responders]
    for index, name in enumerate(names):
        if name in names[:index]:
            errors.append(duplicate(f"{at}[{index}]", responders[index]))
    for index, responder in enumerate(responders):
        errors += _check_name(names[index], f"{at}[{index}].name")
        errors += _check_priority(responder.get("priority"), f"{at}[{index}].priority")
    return errors


def _check_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [missing_field(path)]
    errors = [invalid(path, name, text) for text in prefixed_label_key(name)]
    return errors + reserved_domain(name, path)


def _check_priority(priority: int | None, path: str) -> list[FieldError]:
    if priority is None:
        return [missing_field(path)]
    if priority < 0:
        return [invalid(path, priority, "must be greater than or equal to 0")]
    if priority > _HIGHEST_PRIORITY:
        return [invalid(path, priority, f"must be less than or equal to {_HIGHEST_PRIORITY}")]
    if priority in _RESERVED_PRIORITIES:
        text = "priorities 0-999 are reserved for responders with *.k8s.io suffix"
        return [invalid(path, priority, text)]
    return []
