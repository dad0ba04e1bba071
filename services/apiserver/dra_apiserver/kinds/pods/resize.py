"""Validate the in-place resize of a pod (`ValidatePodResize`)."""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

from dra_apiserver.errors import FieldError, forbidden_field
from dra_apiserver.schema import same

_CONTAINER = "io.k8s.api.core.v1.Container"
_MUTABLE = ("cpu", "memory")
_FIXED = "only cpu and memory resources are mutable"
_FIELDS = ("containers", "initContainers")
_KINDS = ("requests", "limits")


def check_resize(
    pod: JsonObject, old: JsonObject, kubernetes: Version, path: str = "spec"
) -> list[FieldError]:
    """Return the errors of the change, for a valid pod that keeps its quality of service."""
    if "kubernetes.io/config.mirror" in (old["metadata"].get("annotations") or {}):
        return [forbidden_field("", "static pods cannot be resized")]
    spec, before = pod["spec"], old["spec"]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden_field("", "windows pods cannot be resized")]
    errors: list[FieldError] = []
    if not _is_supported(old):
        errors.append(forbidden_field(path, "Pod running on node without support for resize"))
    errors += _check_pod_level(spec, before, path)
    if kubernetes < V1_37 and (old.get("status") or {}).get("nodeAllocatableResourceClaimStatuses"):
        text = "pods with node allocatable resource claims cannot be resized"
        errors.append(forbidden_field(path, text))
    if moved := _check_order(spec, before, path):
        return errors + moved
    for field in reversed(_FIELDS):
        for index, container in enumerate(before.get(field) or ()):
            errors += _check_kept(spec[field][index], container, f"{path}.{field}[{index}].resources")
    for container, known in zip(spec.get("containers") or (), before.get("containers") or (), strict=True):
        if not same(_CONTAINER, _with_old_resources(container, known), known):
            errors.append(forbidden_field(path, _FIXED))
    for index, known in enumerate(before.get("initContainers") or ()):
        errors += _check_init(spec["initContainers"][index], known, f"{path}.initContainers[{index}]")
    return errors


def _is_supported(pod: JsonObject) -> bool:
    """True if the node's kubelet supports resize: the status of the first running container has resources."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _check_pod_level(spec: JsonObject, before: JsonObject, path: str) -> list[FieldError]:
    new, old = spec.get("resources"), before.get("resources")
    if not any((one or {}).get(kind) for one in (new, old) for kind in _KINDS):
        return []
    if old is not None and new is None:
        return [forbidden_field(f"{path}.resources", "pod-level resources cannot be removed")]
    errors = []
    for kind in _KINDS:
        if set((old or {}).get(kind) or ()) - set((new or {}).get(kind) or ()):
            text = f"pod-level resource {kind} cannot be removed"
            errors.append(forbidden_field(f"{path}.resources.{kind}", text))
    kept = _with_old_amounts(new or {}, old or {}) | {"claims": (new or {}).get("claims")}
    if not same("io.k8s.api.core.v1.ResourceRequirements", kept, old):
        errors.append(forbidden_field(path, "only cpu and memory resources are mutable at pod-level"))
    return errors


def _check_order(spec: JsonObject, before: JsonObject, path: str) -> list[FieldError]:
    errors = []
    for field in _FIELDS:
        new, old = spec.get(field) or (), before.get(field) or ()
        if len(new) != len(old):
            errors.append(
                forbidden_field(f"{path}.{field}", f"{field} may not be added or removed on resize")
            )
            continue
        text = f"{field} may not be renamed or reordered on resize"
        errors += [
            forbidden_field(f"{path}.{field}[{index}].name", text)
            for index, container in enumerate(old)
            if new[index].get("name") != container.get("name")
        ]
    return errors


def _check_kept(container: JsonObject, old: JsonObject, path: str) -> list[FieldError]:
    new, known = container.get("resources") or {}, old.get("resources") or {}
    return [
        forbidden_field(f"{path}.{kind}", f"resource {kind} cannot be removed")
        for kind in _KINDS
        if set(known.get(kind) or ()) - set(new.get(kind) or ())
    ]


def _check_init(container: JsonObject, old: JsonObject, path: str) -> list[FieldError]:
    errors = []
    if not same(_CONTAINER, _with_old_resources(container, old), old):
        text = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.append(forbidden_field(path, text))
    if not same(_CONTAINER, container, old) and container.get("restartPolicy") != "Always":
        text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors += [
            forbidden_field(path, text)
            for policy in container.get("resizePolicy") or ()
            if policy.get("restartPolicy") == "RestartContainer"
        ]
    return errors


def _with_old_resources(container: JsonObject, old: JsonObject) -> JsonObject:
    """Return the container with the old amounts of CPU and memory.

    Upstream drops the container's claims here, so a pod whose containers use claims cannot be resized.
    """
    resources = _with_old_amounts(container.get("resources") or {}, old.get("resources") or {})
    return {**container, "resources": resources}


def _with_old_amounts(new: JsonObject, old: JsonObject) -> JsonObject:
    found: JsonObject = {}
    for kind in _KINDS:
        amounts = {name: amount for name, amount in (new.get(kind) or {}).items() if name not in _MUTABLE}
        known = old.get(kind) or {}
        found[kind] = amounts | {name: known[name] for name in _MUTABLE if name in known}
    return found
