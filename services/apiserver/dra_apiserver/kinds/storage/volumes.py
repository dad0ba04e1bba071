"""Validate PersistentVolumes, volume claims, and the kinds of storage.k8s.io."""

from __future__ import annotations

from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, label_key
from dra_shared.quantity import Quantity

from dra_apiserver.common.godiff import godiff
from dra_apiserver.common.lists import find_repeated
from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import (
    ErrorType,
    FieldError,
    Verbatim,
    duplicate,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
    too_long,
)
from dra_apiserver.kinds.pods.volumeclaims import (
    VOLUME_MODES,
    check_access_modes,
    check_claim_spec,
    check_class_name,
    check_positive,
)
from dra_apiserver.kinds.resource.selectors import check_node_selector
from dra_apiserver.schema import same, same_members

_RECLAIM = ("Delete", "Recycle", "Retain")
_CLASS_RECLAIM = ("Delete", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_LONGEST_DRIVER = 63
_LONGEST_NAME = 253
_LARGEST_PARAMETERS = 256 * 1024
_LIFECYCLES = ("Persistent", "Ephemeral")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
# Fields of a volume's spec that do not describe the location of its data.
_NO_SOURCE = frozenset(
    {
        "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
        "storageClassName", "volumeAttributesClassName", "volumeMode",
    }
)  # fmt: skip


def check_claim(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a claim, which is immutable except that a bound claim may grow."""
    spec = obj.get("spec") or {}
    errors = check_claim_spec(spec, "spec")
    if old is None:
        return errors
    before = dict(old.get("spec") or {})
    now = dict(spec)
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        now.pop("volumeName", None)
    if before.get("storageClassName") is None:
        before.pop("storageClassName", None)
        now.pop("storageClassName", None)
    wanted = [((one.get("resources") or {}).get("requests") or {}).get("storage") for one in (spec, before)]
    if (obj.get("status") or {}).get("phase") == "Bound":
        resources = now.get("resources") or {}
        requests = {**(resources.get("requests") or {}), "storage": wanted[1]}
        now["resources"] = {
            **resources,
            "requests": {key: value for key, value in requests.items() if value is not None},
        }
        now["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if not same("io.k8s.api.core.v1.PersistentVolumeClaimSpec", now, before):
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName "
            "for bound claims"
        )
        errors.append(forbidden_field("spec", f"{text}\n{godiff(now, before, 'PersistentVolumeClaimSpec')}"))
    if None not in wanted and Quantity.parse(str(wanted[0])) < Quantity.parse(str(wanted[1])):
        reached = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
        if Quantity.parse(str(wanted[0])) <= Quantity.parse(str(reached)):
            text = "field can not be less than status.capacity"
            errors.append(forbidden_field("spec.resources.requests.storage", text))
    return errors + _check_unchanged(spec, before, "volumeMode", "volumeMode")


def _check_unchanged(spec: JsonObject, before: JsonObject, field: str, path: str) -> list[FieldError]:
    value = spec.get(field)
    if value == before.get(field):
        return []
    return [invalid(path, Verbatim("null") if value is None else value, IMMUTABLE)]


def check_volume(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a volume. Its source is immutable (ValidatePersistentVolume)."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    if not modes:
        errors.append(missing_field("spec.accessModes"))
    errors += check_access_modes(modes, "spec.accessModes")
    if not capacity:
        errors.append(missing_field("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        shown: Any = Verbatim("null") if spec.get("capacity") is None else capacity
        errors.append(not_supported("spec.capacity", shown, ("storage",)))
    for key, amount in capacity.items():
        errors += check_positive(amount, f"spec.capacity[{key}]")
    policy = spec.get("persistentVolumeReclaimPolicy") or ""
    if policy and policy not in _RECLAIM:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            text = "must specify required node constraints"
            errors.append(missing_field("spec.nodeAffinity.required", text))
        else:
            errors += check_node_selector(affinity["required"], "spec.nodeAffinity.required")
    sources = [key for key in spec if key not in _NO_SOURCE and spec[key] is not None]
    for key in sources[1:]:
        errors.append(forbidden_field(f"spec.{key}", "may not specify more than 1 volume type"))
    if not sources:
        errors.append(missing_field("spec", "must specify a volume type"))
    else:
        errors += _check_volume_source(sources[0], spec[sources[0]], f"spec.{sources[0]}")
    if (spec.get("hostPath") or {}).get("path") == "/" and policy == "Recycle":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden_field("spec.persistentVolumeReclaimPolicy", text))
    errors += check_class_name(spec.get("storageClassName"), "spec.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    if spec.get("volumeAttributesClassName") == "":
        errors.append(missing_field("spec.volumeAttributesClassName", "an empty string is disallowed"))
    if old is not None:
        before = old.get("spec") or {}
        either = (spec.keys() | before.keys()) - _NO_SOURCE
        if not same_members("io.k8s.api.core.v1.PersistentVolumeSpec", spec, before, *either):
            difference = godiff(before, spec, "PersistentVolumeSource")
            text = f"spec.persistentvolumesource is immutable after creation\n{difference}"
            errors.append(forbidden_field("spec.persistentvolumesource", text))
        errors += _check_unchanged(spec, before, "volumeMode", "volumeMode")
    return errors


def _check_volume_source(kind: str, source: JsonObject, path: str) -> list[FieldError]:
    if kind == "hostPath":
        where = source.get("path") or ""
        if not where:
            return [missing_field(f"{path}.path")]
        return [invalid(f"{path}.path", where, "must not contain '..'")] if ".." in where.split("/") else []
    if kind == "nfs":
        errors = [missing_field(f"{path}.{key}") for key in ("server", "path") if not source.get(key)]
        if not (source.get("path") or "").startswith("/"):
            errors.append(invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))
        return errors
    if kind == "csi":
        errors = driver_name(source.get("driver") or "", f"{path}.driver")
        return errors if source.get("volumeHandle") else [*errors, missing_field(f"{path}.volumeHandle")]
    if kind == "local":
        return [] if source.get("path") else [missing_field(f"{path}.path")]
    return []


def driver_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a CSI driver."""
    if not name:
        return [missing_field(path)]
    errors = []
    if len(name) > _LONGEST_DRIVER:
        errors.append(too_long(path, _LONGEST_DRIVER))
    return errors + [invalid(path, name, text) for text in dns_subdomain(name.lower())]


def check_storage_class(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a storage class. Most of its fields are immutable."""
    errors: list[FieldError] = []
    provisioner, parameters = obj.get("provisioner") or "", obj.get("parameters") or {}
    if old is not None:
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            if (obj.get(field) or None) != (old.get(field) or None):
                value = obj.get(field)
                errors.append(invalid(field, Verbatim("null") if value is None else value, IMMUTABLE))
        return errors
    if not provisioner:
        errors.append(missing_field("provisioner"))
    errors += [
        invalid("provisioner", provisioner, text) for text in label_key(provisioner.lower()) if provisioner
    ]
    errors += [invalid("parameters", key, "field can not be empty.") for key in parameters if not key]
    if sum(len(key) + len(value) for key, value in parameters.items()) > _LARGEST_PARAMETERS:
        errors.append(too_long("parameters", _LARGEST_PARAMETERS))
    policy, mode = obj.get("reclaimPolicy"), obj.get("volumeBindingMode")
    if policy and policy not in _CLASS_RECLAIM:
        errors.append(not_supported("reclaimPolicy", policy, _CLASS_RECLAIM))
    if mode not in _BINDING:
        errors.append(not_supported("volumeBindingMode", mode or "", _BINDING))
    seen: set[frozenset[tuple[str | None, tuple[str, ...]]]] = set()
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        errors += _check_topology(term, f"allowedTopologies[{index}]")
        by_key = {
            one.get("key"): tuple(sorted(one.get("values") or ()))
            for one in term.get("matchLabelExpressions") or ()
        }
        found = frozenset(by_key.items())
        if not found or found in seen:
            errors.append(duplicate(f"allowedTopologies[{index}].matchLabelExpressions", ""))
        seen.add(found)
    return errors


def _check_topology(term: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    keys: set[str] = set()
    for index, one in enumerate(term.get("matchLabelExpressions") or ()):
        at, key, values = (
            f"{path}.matchLabelExpressions[{index}]",
            one.get("key") or "",
            one.get("values") or [],
        )
        if not values:
            errors.append(missing_field(f"{at}.values"))
        errors += [
            duplicate(f"{at}.values[{number}]", values[number]) for number in sorted(find_repeated(values))
        ]
        errors += [invalid(f"{at}.key", key, text) for text in label_key(key)]
        if key in keys:
            errors.append(duplicate(f"{at}.key", key))
        keys.add(key)
    return errors


def check_csi_driver(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a CSI driver, whose name is that of its driver."""
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name", "")
    if old is not None:
        before = old.get("spec") or {}
        # The first path is misspelt upstream too.
        fixed = {
            "attachRequired": "spec.attachedRequired",
            "volumeLifecycleModes": "spec.volumeLifecycleModes",
        }
        return [
            found for field, path in fixed.items() for found in _check_unchanged(spec, before, field, path)
        ]
    errors = []
    if _LONGEST_DRIVER < len(name) <= _LONGEST_NAME:
        errors.append(too_long("metadata.name", _LONGEST_DRIVER))
    errors += [
        missing_field(f"spec.{name}")
        for name in ("attachRequired", "podInfoOnMount")
        if spec.get(name) is None
    ]
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
        for mode in spec.get("volumeLifecycleModes") or ()
        if mode not in _LIFECYCLES
    ]
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _GROUP_POLICIES:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
    audiences: set[str] = set()
    for index, one in enumerate(spec.get("tokenRequests") or ()):
        at, seconds = f"spec.tokenRequests[{index}]", one.get("expirationSeconds")
        if one.get("audience", "") in audiences:
            errors.append(duplicate(f"{at}.audience", one.get("audience", "")))
        audiences.add(one.get("audience", ""))
        if seconds is not None and seconds < 600:
            text = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{at}.expirationSeconds", seconds, text))
    return errors


def check_attachment(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate the attachment of a volume to a node."""
    spec = obj.get("spec") or {}
    errors = driver_name(spec.get("attacher") or "", "spec.attacher")
    source = spec.get("source") or {}
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        errors.append(missing_field("spec.source", text))
    elif inline is not None and volume is not None:
        errors.append(forbidden_field("spec.source", text))
    elif volume == "":
        text = "must specify non empty persistentVolumeName"
        errors.append(missing_field("spec.source.persistentVolumeName", text))
    node = spec.get("nodeName") or ""
    errors += [invalid("spec.nodeName", node, text) for text in dns_subdomain(node)]
    if volume is not None:
        errors += [
            invalid("spec.source.persistentVolumeName", volume, text) for text in dns_subdomain(volume)
        ]
    if old is not None and not same("io.k8s.api.storage.v1.VolumeAttachmentSpec", spec, old.get("spec")):
        errors.append(FieldError(ErrorType.INVALID, "spec", spec, IMMUTABLE))
    return errors
