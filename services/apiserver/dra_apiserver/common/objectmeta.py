"""Validate `metadata` of any kind (apimachinery's `api/validation/objectmeta.go`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from dra_shared.jsontypes import JsonObject
from dra_shared.names import NameRule, dns_label, label_key, label_value

from dra_apiserver.errors import (
    FieldError,
    Verbatim,
    forbidden_field,
    invalid,
    missing_field,
    not_supported,
    quote,
    too_long,
)

IMMUTABLE = "field is immutable"
_ANNOTATIONS_LIMIT = 256 * 1024
_FIELD_MANAGER_LIMIT = 128
# The most bytes of a character.
_LONGEST_CHARACTER = 4
_SURELY_SHORT = _FIELD_MANAGER_LIMIT // _LONGEST_CHARACTER
_SUBRESOURCE_LIMIT = 256
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


# Metadata fields that a status update cannot change, for a kind that protects its metadata
# (`ResetObjectMetaForStatus`).
_NOT_STATUS = ("labels", "annotations", "finalizers", "ownerReferences", "generation")


def keep_metadata(meta: JsonObject, old: JsonObject) -> None:
    """Replace the new metadata by the old, except for managedFields."""
    managed = {"managedFields": meta["managedFields"]} if "managedFields" in meta else {}
    kept = {key: value for key, value in old.items() if key != "managedFields"}
    meta.clear()
    meta.update({**kept, **managed})


def reset_for_status(meta: JsonObject, old: JsonObject) -> None:
    """Revert changes of the metadata by a status update."""
    for field in _NOT_STATUS:
        if field in old:
            meta[field] = old[field]
        else:
            meta.pop(field, None)


def validate_labels(labels: JsonObject, path: str) -> list[FieldError]:
    """Validate labels: each key is a qualified name, each value a label value."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        if found := label_key(key):
            errors += [invalid(path, key, text) for text in found]
        if found := label_value(value):
            errors += [invalid(path, value, text) for text in found]
    return errors


def validate_annotations(annotations: JsonObject, path: str) -> list[FieldError]:
    """Validate annotations: each key is a qualified name in any case, and all together have at most 256 KiB."""
    errors = []
    characters = 0
    for key, value in annotations.items():
        characters += len(key) + len(value)
        if found := label_key(key.lower()):
            errors += [invalid(path, key, text) for text in found]
    if (
        characters > _ANNOTATIONS_LIMIT // _LONGEST_CHARACTER
        and sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        > _ANNOTATIONS_LIMIT
    ):
        errors.append(too_long(path, _ANNOTATIONS_LIMIT))
    return errors


def _validate_owner(owner: JsonObject, path: str) -> list[FieldError]:
    api_version = owner.get("apiVersion", "")
    errors: list[FieldError] = []
    if api_version.count("/") > 1 or not api_version.rpartition("/")[2]:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    missing = [key for key in ("kind", "name", "uid") if not owner.get(key)]
    errors += [invalid(f"{path}.{key}", "", "must not be empty") for key in missing]
    if api_version == "v1" and owner.get("kind") == "Event":
        errors.append(invalid(path, _shown_owner(owner), "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _shown_owner(owner: JsonObject) -> JsonObject:
    """Return an owner reference as encoded by Go."""
    always = {key: owner.get(key, "") for key in ("apiVersion", "kind", "name", "uid")}
    return always | {key: owner[key] for key in ("controller", "blockOwnerDeletion") if key in owner}


def validate_owner_references(owners: list[JsonObject], path: str) -> list[FieldError]:
    """Validate owner references: each is complete, and at most one is the controller."""
    errors: list[FieldError] = []
    controller = ""
    shown: list[JsonObject] = []
    for owner in owners:
        errors.extend(_validate_owner(owner, path))
        if owner.get("controller") is True:
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}'
                )
                # Each error shows all references, so the list is shared by all of them.
                shown = shown or [_shown_owner(one) for one in owners]
                errors.append(invalid(path, shown, detail))
            else:
                controller = this
    return errors


def _validate_finalizers(finalizers: list[str], path: str) -> list[FieldError]:
    errors = [invalid(path, name, text) for name in finalizers for text in label_key(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return errors


def validate_kube_finalizers(meta: JsonObject, path: str = "metadata") -> list[FieldError]:
    """Check that finalizers are standard or qualified, as Kubernetes' own kinds require (core validation)."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{path}.finalizers[{index}]", name, text)
        for index, name in enumerate(meta.get("finalizers") or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    """Check a manager's name: at most 128 printable characters."""
    if manager.isprintable() and len(manager) <= _SURELY_SHORT:
        return []
    errors: list[FieldError] = []
    if len(manager.encode()) > _FIELD_MANAGER_LIMIT:
        errors.append(too_long(path, _FIELD_MANAGER_LIMIT))
    position = 0
    for char in manager:
        if not char.isprintable():
            errors.append(
                invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {position})")
            )
        position += len(char.encode())
    return errors


def _validate_managed_fields(entries: list[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        if not _good_manager(tuple(map(entry.get, _MANAGER_FIELDS))):
            errors += _manager_errors(entry, f"{path}[{index}]")
    return errors


def _manager_errors(entry: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operation = entry.get("operation", "")
    if not operation:
        errors.append(missing_field(f"{path}.operation", "must not be empty"))
    elif operation not in {"Apply", "Update"}:
        errors.append(not_supported(f"{path}.operation", operation, ("Apply", "Update")))
    if entry.get("fieldsType", "FieldsV1") not in {"", "FieldsV1"}:
        errors.append(invalid(f"{path}.fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
    errors.extend(validate_field_manager(entry.get("manager", ""), f"{path}.manager"))
    if len(entry.get("subresource", "").encode()) > _SUBRESOURCE_LIMIT:
        errors.append(too_long(f"{path}.subresource", _SUBRESOURCE_LIMIT))
    return errors


# The parts of an entry that are validated.
_MANAGER_FIELDS = ("operation", "fieldsType", "manager", "subresource")


@functools.lru_cache(maxsize=1024)
def _good_manager(values: tuple[Any, ...]) -> bool:
    """True if an entry with these values has no errors. Most entries have the same values as another one."""
    entry = {name: value for name, value in zip(_MANAGER_FIELDS, values, strict=True) if value is not None}
    return not _manager_errors(entry, "")


_NOTHING: Mapping[str, Any] = {}


def validate_metadata(
    meta: JsonObject,
    namespaced: bool,
    name_rule: NameRule,
    path: str = "metadata",
    stored: Mapping[str, Any] = _NOTHING,
) -> list[FieldError]:
    """Return the errors of a new object's metadata (ValidateObjectMeta).

    Parts that are equal to `stored` are not validated again.
    """
    errors: list[FieldError] = []
    generate, name = meta.get("generateName", ""), meta.get("name", "")
    if generate and (found := name_rule(generate, True)):
        errors += [invalid(f"{path}.generateName", generate, text) for text in found]
    if not name:
        errors.append(missing_field(f"{path}.name", "name or generateName is required"))
    else:
        if found := name_rule(name, False):
            errors += [invalid(f"{path}.name", name, text) for text in found]
    namespace = meta.get("namespace", "")
    if not namespaced:
        if namespace:
            errors.append(forbidden_field(f"{path}.namespace", "not allowed on this type"))
    elif not namespace:
        errors.append(missing_field(f"{path}.namespace"))
    else:
        if found := dns_label(namespace):
            errors += [invalid(f"{path}.namespace", namespace, text) for text in found]
    if meta.get("generation", 0) < 0:
        errors.append(invalid(f"{path}.generation", meta["generation"], "must be greater than or equal to 0"))
    return errors + _validate_members(meta, _CREATED, path, stored)


def validate_metadata_update(
    new: JsonObject, old: JsonObject, path: str = "metadata", members_good: bool = False
) -> list[FieldError]:
    """Return the errors of a changed object's metadata (ValidateObjectMetaUpdate).

    `members_good`: `validate_metadata` found no errors in its labels, owners and so on.
    """
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            shown = f"[]string{{{', '.join(quote(name) for name in extra)}}}"
            detail = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            )
            errors.append(forbidden_field(f"{path}.finalizers", detail))
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    for key in (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):
        if (new.get(key) or None) != (old.get(key) or None):
            value = new.get(key)
            shown = (
                Verbatim("null")
                if value is None and key.startswith(("creation", "deletion"))
                else value or ""
            )
            errors.append(invalid(f"{path}.{key}", shown, IMMUTABLE))
    return errors if members_good else errors + _validate_members(new, _CHANGED, path, old)


_Checks = tuple[tuple[str, Callable[[Any, str], list[FieldError]]], ...]
_CHANGED: _Checks = (
    ("labels", validate_labels),
    ("annotations", validate_annotations),
    ("ownerReferences", validate_owner_references),
    ("managedFields", _validate_managed_fields),
)
_CREATED: _Checks = (*_CHANGED[:-1], ("finalizers", _validate_finalizers), _CHANGED[-1])


def _validate_members(
    meta: JsonObject, checks: _Checks, path: str, stored: Mapping[str, Any]
) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, check in checks:
        value = meta.get(name)
        if value and value != stored.get(name):
            errors += check(value, f"{path}.{name}")
    return errors
