"""Validate a volume claim's spec, which pods embed for ephemeral volumes (`ValidatePersistentVolumeClaimSpec`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain
from dra_shared.quantity import Quantity

from dra_apiserver.common.labelselectors import check_label_selector
from dra_apiserver.errors import FieldError, Verbatim, forbidden_field, invalid, missing_field, not_supported

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def check_positive(amount: Any, path: str) -> list[FieldError]:
    try:
        good = Quantity.parse(str(amount)) > Quantity.parse("0")
    except ValueError:
        return []
    return [] if good else [invalid(path, str(amount), "must be greater than zero")]


def check_class_name(name: Any, path: str) -> list[FieldError]:
    return [invalid(path, name, text) for text in dns_subdomain(name)] if name else []


def check_access_modes(modes: Sequence[str], path: str) -> list[FieldError]:
    errors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        errors.append(forbidden_field(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def check_claim_spec(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate a claim's spec (ValidatePersistentVolumeClaimSpec)."""
    errors: list[FieldError] = []
    modes = spec.get("accessModes") or []
    if not modes:
        errors.append(missing_field(f"{path}.accessModes", "at least 1 access mode is required"))
    errors += check_label_selector(spec.get("selector"), f"{path}.selector")
    errors += check_access_modes(modes, f"{path}.accessModes")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    at = f"{path}.resources[storage]"
    errors += [missing_field(at)] if size is None else check_positive(size, at)
    errors += check_class_name(spec.get("storageClassName"), f"{path}.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors += _check_source(source, f"{path}.dataSource") + _check_source(reference, f"{path}.dataSourceRef")
    if source is not None and reference is not None:
        if reference.get("namespace"):
            text = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid(path, Verbatim(f'"{path}.dataSource"'), text))
        elif any(
            (source.get(key) or "") != (reference.get(key) or "") for key in ("apiGroup", "kind", "name")
        ):
            errors.append(invalid(path, Verbatim(f'"{path}.dataSource"'), "must match dataSourceRef"))
    errors += check_class_name(spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName")
    return errors


def _check_source(source: JsonObject | None, path: str) -> list[FieldError]:
    if source is None:
        return []
    errors = [missing_field(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, text))
    errors += [invalid(f"{path}.apiGroup", group, text) for text in dns_subdomain(group) if group]
    return errors
