"""Validate changes of a pod (`ValidatePodUpdate`, `ValidatePodEphemeralContainersUpdate`)."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.godiff import godiff
from dra_apiserver.common.goshapes import NODE_SELECTOR_TERM, show
from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, missing_field, quote
from dra_apiserver.kinds.pods.containers import check_image
from dra_apiserver.kinds.pods.scheduling import check_tolerations
from dra_apiserver.schema import same

_LONGEST = 2**31 - 1
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_spec_update(spec: JsonObject, old: JsonObject, path: str = "spec") -> list[FieldError]:
    """Check that only mutable fields change: images, the deadline, more tolerations, fewer gates, and a few
    others.
    """
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        containers, before = spec.get(field) or (), old.get(field) or ()
        if len(containers) != len(before):
            text = "pod updates may not add or remove containers"
            return [*errors, forbidden_field(f"{path}.{field}", text)]
        for index, container in enumerate(containers):
            at = f"{path}.{field}[{index}]"
            if not container.get("image"):
                errors.append(missing_field(f"{at}.image"))
            errors += check_image(container, at)
    found, stop = _check_deadline(spec, old, f"{path}.activeDeadlineSeconds")
    errors += found
    if stop:
        return errors
    errors += _check_tolerations(
        spec.get("tolerations") or [], old.get("tolerations") or [], f"{path}.tolerations"
    )
    errors += _check_gates(spec, old, f"{path}.schedulingGates")
    munged = _with_old_values(spec, old)
    if old.get("schedulingGates"):
        errors += _check_node_selector(munged, old, f"{path}.nodeSelector")
        errors += _check_node_affinity(munged, old, f"{path}.affinity.nodeAffinity.{_REQUIRED}")
        # A pod with scheduling gates may still get its node selector.
        affinity = _with_node_affinity_of(old.get("affinity"), munged.get("affinity"))
        munged |= {"nodeSelector": old.get("nodeSelector"), "affinity": affinity}
    if not same("io.k8s.api.core.v1.PodSpec", munged, old):
        errors.append(forbidden_field(path, f"{_FIXED}\n{godiff(old, munged, 'PodSpec')}"))
    return errors


def _check_deadline(spec: JsonObject, old: JsonObject, path: str) -> tuple[list[FieldError], bool]:
    deadline, before = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if deadline is None:
        if before is None:
            return [], False
        text = "must not update from a positive integer to nil value"
        return [invalid(path, Verbatim("null"), text)], False
    if not 0 <= deadline <= _LONGEST:
        return [invalid(path, deadline, f"must be between 0 and {_LONGEST}, inclusive")], True
    if before is not None and before < deadline:
        return [invalid(path, deadline, "must be less than or equal to previous value")], True
    return [], False


def _check_tolerations(new: list[JsonObject], old: list[JsonObject], path: str) -> list[FieldError]:
    def plain(toleration: JsonObject) -> frozenset[tuple[str, Any]]:
        return frozenset((key, value) for key, value in toleration.items() if key != "tolerationSeconds")

    kept = {plain(toleration) for toleration in new}
    if not all(plain(toleration) in kept for toleration in old):
        return [forbidden_field(path, "existing toleration can not be modified except its tolerationSeconds")]
    return check_tolerations(new, path)


def _check_gates(spec: JsonObject, old: JsonObject, path: str) -> list[FieldError]:
    known = {gate.get("name", "") for gate in old.get("schedulingGates") or ()}
    text = "only deletion is allowed, but found new scheduling gate"
    return [
        forbidden_field(f"{path}[{index}].name", f"{text} '{gate.get('name', '')}'")
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate.get("name", "") not in known
    ]


def _check_node_selector(spec: JsonObject, old: JsonObject, path: str) -> list[FieldError]:
    selector, before = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if all(selector.get(key) == value for key, value in before.items()):
        return []
    text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid(path, selector, text)]


def _check_node_affinity(spec: JsonObject, old: JsonObject, path: str) -> list[FieldError]:
    """Check that the terms of required node affinity only get more requirements (`validateNodeAffinityMutation`)."""

    def terms(holder: JsonObject) -> list[JsonObject] | None:
        required_terms = ((holder.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
        found: list[JsonObject] | None = required_terms.get("nodeSelectorTerms")
        return found

    given, before = terms(spec), terms(old) or []
    now = given or []
    if before and len(now) != len(before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(f"{path}.nodeSelectorTerms", show(given, [NODE_SELECTOR_TERM]), text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{path}.nodeSelectorTerms[{index}]", show(term, NODE_SELECTOR_TERM), text)
        for index, (term, known) in enumerate(zip(now, before, strict=False))
        if not _only_added(term, known)
    ]


def _only_added(term: JsonObject, known: JsonObject) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(known.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all(
        (term.get(field) or [])[: len(known.get(field) or ())] == (known.get(field) or []) for field in fields
    )


def _with_node_affinity_of(old: JsonObject | None, affinity: JsonObject | None) -> JsonObject | None:
    """Return the affinity with the node affinity of the old one.

    An absent affinity and an empty one are different values.
    """
    known = (old or {}).get("nodeAffinity")
    if affinity is None:
        return None if known is None else {"nodeAffinity": known}
    others = [field for field in affinity if field != "nodeAffinity" and affinity[field] is not None]
    if old is None and not others and affinity.get("nodeAffinity") is not None:
        return None
    return {**affinity, "nodeAffinity": known}


def _with_old_values(spec: JsonObject, old: JsonObject) -> JsonObject:
    """Return the new spec with the old values of mutable fields."""
    munged = dict(spec)
    for field in ("containers", "initContainers"):
        if containers := spec.get(field):
            pairs = zip(containers, old.get(field) or (), strict=True)
            munged[field] = [{**container, "image": before.get("image")} for container, before in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged[field] = old.get(field)
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return munged


def check_ephemeral_update(spec: JsonObject, old: JsonObject, path: str = "spec") -> list[FieldError]:
    """Check that ephemeral containers are added, but never changed or removed."""
    now = {container.get("name", ""): container for container in spec.get("ephemeralContainers") or ()}
    errors = []
    for before in old.get("ephemeralContainers") or ():
        name = before.get("name", "")
        if name not in now:
            text = f"existing ephemeral containers {quote(name)} may not be removed\n"
            errors.append(forbidden_field(f"{path}.ephemeralContainers", text))
        elif not same("io.k8s.api.core.v1.EphemeralContainer", now[name], before):
            difference = godiff(before, now[name], "EphemeralContainer")
            text = f"existing ephemeral containers {quote(name)} may not be changed\n{difference}"
            errors.append(forbidden_field(f"{path}.ephemeralContainers", text))
    return errors
