"""Validation of config maps and secrets (upstream's `ValidateConfigMap`, `ValidateSecret`)."""

from __future__ import annotations

import base64
import binascii
import re

from dra_shared.jsontypes import JsonObject
from dra_shared.names import max_length_message, regex_message

from dra_apiserver.common.objectmeta import IMMUTABLE
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, too_long

_LARGEST = 1024 * 1024
_NO_CHANGE = "field is immutable when `immutable` is set"
_KEY = "[-._a-zA-Z0-9]+"
_KEY_LENGTH = 253
# The keys that a secret of each type must have.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"


def _check_key(key: str, path: str) -> list[FieldError]:
    problems = []
    if len(key.encode()) > _KEY_LENGTH:
        problems.append(max_length_message(_KEY_LENGTH))
    if not re.fullmatch(_KEY, key):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(regex_message(text, _KEY, "key.name", "KEY_NAME", "key-name"))
    if key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return [invalid(f"{path}[{key}]", key, text) for text in problems]


def _size(value: str | None, encoded: bool) -> int:
    if not value:
        return 0
    if not encoded:
        return len(value.encode())
    try:
        return len(base64.b64decode(value))
    except (binascii.Error, ValueError):
        return len(value)


def check_config_map(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a config map: its keys, its size, and no change if it is immutable."""
    errors = _check_frozen(obj, old, ("data", "binaryData"))
    plain, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in plain:
        errors += _check_key(key, "data")
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        errors += _check_key(key, "binaryData")
    size = sum(_size(value, False) for value in plain.values())
    if size + sum(_size(value, True) for value in binary.values()) > _LARGEST:
        errors.append(too_long("", _LARGEST))
    return errors


def check_secret(obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Validate a secret: its keys, those that its type requires, and an unchanged type."""
    errors: list[FieldError] = []
    kind, data = obj.get("type", ""), obj.get("data") or {}
    if old is not None and kind != old.get("type", ""):
        errors.append(invalid("type", kind, IMMUTABLE))
    errors += _check_frozen(obj, old, ("data",))
    for key in data:
        errors += _check_key(key, "data")
    if sum(_size(value, True) for value in data.values()) > _LARGEST:
        errors.append(too_long("data", _LARGEST))
    if kind == "kubernetes.io/service-account-token":
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(_SERVICE_ACCOUNT):
            errors.append(missing_field(f"metadata.annotations[{_SERVICE_ACCOUNT}]"))
    elif kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        errors += [missing_field("data[username]"), missing_field("data[password]")]
    errors += [missing_field(f"data[{key}]") for key in _SECRET_KEYS.get(kind, ()) if key not in data]
    return errors


def _check_frozen(obj: JsonObject, old: JsonObject | None, fields: tuple[str, ...]) -> list[FieldError]:
    if old is None or not old.get("immutable"):
        return []
    changed = [] if obj.get("immutable") else ["immutable"]
    changed += [field for field in fields if (obj.get(field) or {}) != (old.get(field) or {})]
    return [forbidden_field(field, _NO_CHANGE) for field in changed]
