"""Validate workloads with trees of templates (ValidateWorkloadSpec of ``pkg/apis/scheduling/validation``, 1.37)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.goshapes import show
from dra_apiserver.errors import FieldError, Verbatim, duplicate, invalid

_DEPTH = 4
_GROUPS, _COMPOSITES = "podGroupTemplates", "compositePodGroupTemplates"


def check_templates(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the tree: unique names, at most four levels, one priority, and no composite without children."""
    names = {template.get("name", "") for template in spec.get(_GROUPS) or ()}
    errors = _check_names(spec, names, path)
    for index, composite in enumerate(spec.get(_COMPOSITES) or ()):
        # The first level is the workload's own list of groups.
        if _depth(composite) >= _DEPTH:
            text = f"maximum template hierarchy depth is {_DEPTH}"
            shown = show(composite.get(_COMPOSITES))
            errors.append(invalid(f"{path}.{_COMPOSITES}[{index}]", shown, text))
    errors += _check_priorities(spec, path)
    for at, composite in _composites(spec, path):
        if not composite.get(_GROUPS) and not composite.get(_COMPOSITES):
            text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            errors.append(invalid(at, composite.get("name", ""), text))
    return errors


def _check_names(parent: JsonObject, known: set[str], path: str) -> list[FieldError]:
    """Check that names are not used in other lists. Duplicates within one list are found by declared rules."""
    errors: list[FieldError] = []
    children = parent.get(_COMPOSITES) or []
    for index, child in enumerate(children):
        errors += _check_name(child, known, f"{path}.{_COMPOSITES}[{index}]")
    known.update(child.get("name", "") for child in children)
    for index, child in enumerate(children):
        at = f"{path}.{_COMPOSITES}[{index}]"
        groups = child.get(_GROUPS) or []
        for number, group in enumerate(groups):
            errors += _check_name(group, known, f"{at}.{_GROUPS}[{number}]")
        known.update(group.get("name", "") for group in groups)
        errors += _check_names(child, known, at)
    return errors


def _check_name(template: JsonObject, known: set[str], path: str) -> list[FieldError]:
    name = template.get("name", "")
    return [duplicate(f"{path}.name", name)] if name in known else []


def _depth(composite: JsonObject) -> int:
    return 1 + max((_depth(child) for child in composite.get(_COMPOSITES) or ()), default=0)


def _check_priorities(spec: JsonObject, path: str) -> list[FieldError]:
    def priority(template: JsonObject) -> tuple[str, Any]:
        return template.get("priorityClassName", ""), template.get("priority")

    own = {priority(template) for template in spec.get(_GROUPS) or ()}
    if len(own) > 1:
        return [invalid(path, Verbatim("null"), "detected multiple priority configurations")]
    for _, composite in _composites(spec, path):
        own.add(priority(composite))
        own.update(priority(template) for template in composite.get(_GROUPS) or ())
    if len(own) > 1:
        text = "all priority and priorityClassName values must be identical, detected multiple values"
        return [invalid(path, Verbatim("null"), text)]
    return []


def _composites(parent: JsonObject, path: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield all composite templates below, with their paths."""
    for index, child in enumerate(parent.get(_COMPOSITES) or ()):
        at = f"{path}.{_COMPOSITES}[{index}]"
        yield at, child
        yield from _composites(child, at)
