"""Validate each type of volume source of a pod (``validateVolumeSource``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import FieldError, invalid, missing_field
from dra_apiserver.kinds.pods.references import (
    check_downward_item,
    check_items,
    check_mode,
    check_relative,
    check_user,
)
from dra_apiserver.kinds.pods.volumeclaims import check_claim_spec

_PREFIXES = ("iqn", "eui", "naa")
_HIGHEST_UNIT = 255
_HIGHEST_DIRECTORY_MODE = 0o1777


def _check_files(source: JsonObject, path: str) -> list[FieldError]:
    """Check the default permissions and owner of a volume's files."""
    errors = check_mode(source.get("defaultMode"), f"{path}.defaultMode")
    return errors + check_user(source.get("defaultUser"), f"{path}.defaultUser")


def _check_empty_directory(source: JsonObject, path: str) -> list[FieldError]:
    mode = source.get("mode")
    if mode is None or 0 <= mode <= _HIGHEST_DIRECTORY_MODE:
        return []
    text = "must be a number between 0 and 01777 (octal), both inclusive"
    return [invalid(f"{path}.mode", mode, text)]


def _secret(source: JsonObject, path: str) -> list[FieldError]:
    errors = _check_files(source, path)
    return errors + check_items(source.get("items") or (), f"{path}.items")


def _nfs(source: JsonObject, path: str) -> list[FieldError]:
    where = source.get("path") or ""
    errors = [] if where else [missing_field(f"{path}.path")]
    return (
        errors
        if where.startswith("/")
        else [*errors, invalid(f"{path}.path", where, "must be an absolute path")]
    )


def _iscsi(source: JsonObject, path: str) -> list[FieldError]:
    name, unit = source.get("iqn") or "", source.get("lun") or 0
    errors: list[FieldError] = []
    if not name:
        errors.append(missing_field(f"{path}.iqn"))
    elif not name.startswith(_PREFIXES):
        errors.append(invalid(f"{path}.iqn", name, "must be valid format starting with iqn, eui, or naa"))
    if not 0 <= unit <= _HIGHEST_UNIT:
        errors.append(invalid(f"{path}.lun", unit, f"must be between 0 and {_HIGHEST_UNIT}, inclusive"))
    return errors


def _host_path(source: JsonObject, path: str) -> list[FieldError]:
    where = source.get("path") or ""
    return [invalid(f"{path}.path", where, "must not contain '..'")] if ".." in where.split("/") else []


def _downward(source: JsonObject, path: str) -> list[FieldError]:
    errors = _check_files(source, path)
    for item in source.get("items") or ():
        # Upstream's error names the volume, not the item.
        errors += check_downward_item(item, path)
    return errors


def _ephemeral(source: JsonObject, path: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return []
    return check_claim_spec(template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec")


def _check_projected(source: JsonObject, path: str) -> list[FieldError]:
    errors = check_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for index, one in enumerate(source.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if one.get(kind) is not None:
                if not one[kind].get("name"):
                    errors.append(missing_field(f"{at}.{kind}.name"))
                errors += check_items(one[kind].get("items") or (), f"{at}.{kind}.items")
        for item in (one.get("downwardAPI") or {}).get("items") or ():
            errors += check_downward_item(item, f"{at}.downwardAPI")
        if one.get("serviceAccountToken") is not None:
            errors += _token(one["serviceAccountToken"], f"{at}.serviceAccountToken", path)
        for kind in ("clusterTrustBundle", "podCertificate"):
            errors += check_user((one.get(kind) or {}).get("user"), f"{at}.{kind}.user")
    return errors + check_user(source.get("defaultUser"), f"{path}.defaultUser")


def _token(source: JsonObject, path: str, volume: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seconds, where = source.get("expirationSeconds") or 0, source.get("path") or ""
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, text))
    elif seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, text))
    errors += check_relative(where, f"{path}.path") if where else [missing_field(f"{volume}.path")]
    return errors + check_user(source.get("user"), f"{path}.user")


_CHECKS: Mapping[str, Callable[[JsonObject, str], list[FieldError]]] = {
    "configMap": _secret,
    "downwardAPI": _downward,
    "emptyDir": _check_empty_directory,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "iscsi": _iscsi,
    "nfs": _nfs,
    "projected": _check_projected,
    "secret": _secret,
}


def check_source(kind: str, source: JsonObject, path: str) -> list[FieldError]:
    """Return the errors of a volume source. The caller checks the member that is required for its type."""
    check = _CHECKS.get(kind)
    return [] if check is None else check(source, path)
