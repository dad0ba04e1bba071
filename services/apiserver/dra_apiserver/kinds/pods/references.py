"""Validate the sources of values for containers and volumes: fields of the pod, resources of a container, keys
of other objects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, label_key, regex_message

from dra_apiserver.errors import FieldError, invalid, missing_field, not_supported

_HIGHEST_USER = 2**31 - 1

ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
# The fields that the API's field label conversion supports. Other names are reported as not being fields.
_KNOWN_FIELDS = frozenset(
    {*_ENV_FIELDS, *_VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
)  # fmt: skip
_LARGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT = re.compile(r"(.+)\['(.*)'\]")
_KEY = "[-._a-zA-Z0-9]+"
_LONGEST_KEY = 253


def check_env_source(source: JsonObject, path: str) -> list[FieldError]:
    """Validate the source of an environment variable."""
    errors: list[FieldError] = []
    if source.get("fieldRef") is not None:
        errors += _check_field(source["fieldRef"], _ENV_FIELDS, f"{path}.fieldRef")
    if source.get("resourceFieldRef") is not None:
        errors += _check_resource(source["resourceFieldRef"], f"{path}.resourceFieldRef", volume=False)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if source.get(kind) is not None:
            errors += _check_key_of(source[kind], f"{path}.{kind}")
    return errors


def check_downward_item(item: JsonObject, path: str) -> list[FieldError]:
    """Validate a file with a field of the pod or a resource of one of its containers."""
    errors: list[FieldError] = []
    where = item.get("path") or ""
    errors += [missing_field(f"{path}.path")] if not where else check_relative(where, f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        errors += _check_field(field, _VOLUME_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", text))
    elif resource is not None:
        errors += _check_resource(resource, f"{path}.resourceFieldRef", volume=True)
    else:
        errors.append(missing_field(path, "one of fieldRef and resourceFieldRef is required"))
    errors += check_mode(item.get("mode"), f"{path}.mode")
    return errors + check_user(item.get("user"), f"{path}.user")


def check_mode(mode: int | None, path: str) -> list[FieldError]:
    """Check the permissions of a file."""
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")]


def check_user(user: int | None, path: str) -> list[FieldError]:
    """Check the owner of a file."""
    if user is None or 0 <= user <= _HIGHEST_USER:
        return []
    return [invalid(path, user, f"must be between 0 and {_HIGHEST_USER}, inclusive")]


def check_relative(where: str, path: str) -> list[FieldError]:
    """Check that a relative path stays within its volume."""
    errors = []
    if where.startswith("/"):
        errors.append(invalid(path, where, "must be a relative path"))
    if ".." in where.split("/"):
        errors.append(invalid(path, where, "must not contain '..'"))
    elif where.startswith(".."):
        errors.append(invalid(path, where, "must not start with '..'"))
    return errors


def check_items(items: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Validate the mapping of keys to files."""
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        at, where = f"{path}[{index}]", item.get("path") or ""
        if not item.get("key"):
            errors.append(missing_field(f"{at}.key"))
        errors += check_relative(where, f"{at}.path") if where else [missing_field(f"{at}.path")]
        errors += check_mode(item.get("mode"), f"{at}.mode")
        errors += check_user(item.get("user"), f"{at}.user")
    return errors


def _check_field(reference: JsonObject, fields: Sequence[str], path: str) -> list[FieldError]:
    name, version = reference.get("fieldPath") or "", reference.get("apiVersion") or ""
    if not version:
        return [missing_field(f"{path}.apiVersion")]
    if not name:
        return [missing_field(f"{path}.fieldPath")]
    found = _SUBSCRIPT.fullmatch(name)
    plain = found[1] if found else name
    if version != "v1":
        text = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{path}.fieldPath", name, text)]
    if plain not in _KNOWN_FIELDS:
        text = f"error converting fieldPath: field label not supported: {plain}"
        return [invalid(f"{path}.fieldPath", name, text)]
    if found:
        if plain not in ("metadata.annotations", "metadata.labels"):
            return [invalid(path, plain, "does not support subscript")]
        key = found[2].lower() if plain == "metadata.annotations" else found[2]
        return [invalid(path, key, text) for text in label_key(key)]
    return [] if plain in fields else [not_supported(f"{path}.fieldPath", plain, fields)]


def _check_resource(reference: JsonObject, path: str, *, volume: bool) -> list[FieldError]:
    name = reference.get("resource") or ""
    if volume and not reference.get("containerName"):
        return [missing_field(f"{path}.containerName")]
    if not name:
        return [missing_field(f"{path}.resource")]
    if name in _RESOURCES or name.startswith(_LARGE_PAGES):
        return []
    return [not_supported(f"{path}.resource", name, _RESOURCES)]


def _check_key_of(reference: JsonObject, path: str) -> list[FieldError]:
    name, key = reference.get("name") or "", reference.get("key") or ""
    errors = [invalid(f"{path}.name", name, text) for text in dns_subdomain(name)]
    if not key:
        return [*errors, missing_field(f"{path}.key")]
    if len(key) > _LONGEST_KEY:
        errors.append(invalid(f"{path}.key", key, f"must be no more than {_LONGEST_KEY} characters"))
    if not re.fullmatch(_KEY, key):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        shown = regex_message(text, _KEY, "key.name", "KEY_NAME", "key-name")
        errors.append(invalid(f"{path}.key", key, shown))
    return errors
