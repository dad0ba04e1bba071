"""Validate the AppArmor and Windows parts of security contexts."""

from __future__ import annotations

import re

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain

from dra_apiserver.errors import FieldError, invalid, json_value, missing_field, not_supported, too_long

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROFILE_LENGTH = 4095
_SPEC_KIBIBYTES = 64
_DOMAIN_LENGTH, _USER_LENGTH = 256, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_FOREIGN = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def check_app_armor(profile: JsonObject | None, path: str) -> list[FieldError]:
    """Validate the AppArmor profile of a pod or container."""
    if profile is None:
        return []
    kind, name, at = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [missing_field(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(f"{path}.type", kind, _PROFILES)]
    if kind != "Localhost":
        text = "can only be set when AppArmor type is Localhost"
        return [] if name is None else [invalid(at, name, text)]
    errors: list[FieldError] = []
    if not name:
        errors.append(missing_field(at, "must be set when AppArmor type is Localhost"))
    elif name != name.strip():
        errors.append(invalid(at, name, "must not be padded with whitespace"))
    if len((name or "").encode()) > _PROFILE_LENGTH:
        errors.append(too_long(at, _PROFILE_LENGTH))
    return errors


def check_windows(options: JsonObject | None, path: str) -> list[FieldError]:
    """Validate the credentials and the user of a pod or container on Windows."""
    options = options or {}
    errors: list[FieldError] = []
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        errors += [invalid(f"{path}.gmsaCredentialSpecName", name, text) for text in dns_subdomain(name)]
    spec, at = options.get("gmsaCredentialSpec"), f"{path}.gmsaCredentialSpec"
    if spec == "":
        errors.append(invalid(at, spec, "gmsaCredentialSpec cannot be an empty string"))
    elif spec is not None and len(spec.encode()) > _SPEC_KIBIBYTES * 1024:
        errors.append(invalid(at, spec, f"gmsaCredentialSpec size must be under {_SPEC_KIBIBYTES} KiB"))
    user = options.get("runAsUserName")
    problems = [] if user is None else _user_problems(user)
    shown = json_value(user or "")
    return errors + [invalid(f"{path}.runAsUserName", shown, f"runAsUserName{text}") for text in problems]


def _user_problems(name: str) -> list[str]:
    if not name:
        return [" cannot be an empty string"]
    if _CONTROL.search(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    problems = []
    if len(domain.encode()) >= _DOMAIN_LENGTH:
        problems.append(f"'s Domain length must be under {_DOMAIN_LENGTH} characters")
    if backslash and not (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        problems.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append("'s User cannot be empty")
    elif len(user.encode()) > _USER_LENGTH:
        problems.append(f"'s User length must not be longer than {_USER_LENGTH} characters")
    if user and not user.strip(". "):
        problems.append("'s User cannot contain only periods or spaces")
    if _FOREIGN.search(user):
        problems.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return problems
