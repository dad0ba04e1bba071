"""Validate security contexts, host aliases and DNS settings of pods."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dra_shared.jsontypes import JsonObject
from dra_shared.names import dns_subdomain, max_length_message, regex_message

from dra_apiserver.common.addresses import check_legacy_address
from dra_apiserver.errors import FieldError, forbidden_field, invalid, missing_field, not_supported, too_long
from dra_apiserver.kinds.pods.profiles import check_app_armor, check_windows

_HIGHEST_ID = (1 << 31) - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_CHANGE_POLICIES = ("Always", "OnRootMismatch")
_MOST_SERVERS, _MOST_SEARCHES, _SEARCH_LENGTH = 3, 32, 2048
_HOSTNAME_LENGTH, _DOMAIN_LENGTH = 64, 253
_SYSTEMS = ("linux", "windows")
_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"{_LABEL}(\.{_LABEL})*"
_NO_SEARCH = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character"
)


def _ids(context: JsonObject, fields: Sequence[str], path: str) -> list[FieldError]:
    text = f"must be between 0 and {_HIGHEST_ID}, inclusive"
    return [
        invalid(f"{path}.{field}", context[field], text)
        for field in fields
        if context.get(field) is not None and not 0 <= context[field] <= _HIGHEST_ID
    ]


def _profile(profile: JsonObject | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, name = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        return [missing_field(f"{path}.type", "type is required when seccompProfile is set")]
    if kind not in _PROFILES:
        return [not_supported(f"{path}.type", kind, _PROFILES)]
    if kind == "Localhost" and not name:
        return [missing_field(f"{path}.localhostProfile", "must be set when seccomp type is Localhost ")]
    if kind != "Localhost" and name is not None:
        return [invalid(f"{path}.localhostProfile", name, "can only be set when seccomp type is Localhost")]
    return []


def check_pod_context(context: JsonObject, path: str) -> list[FieldError]:
    """Validate the security context of a pod."""
    errors = _ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _HIGHEST_ID:
            text = f"must be between 0 and {_HIGHEST_ID}, inclusive"
            errors.append(invalid(f"{path}.supplementalGroups[{index}]", group, text))
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in _CHANGE_POLICIES:
        errors.append(not_supported(f"{path}.fsGroupChangePolicy", policy, _CHANGE_POLICIES))
    errors += _profile(context.get("seccompProfile"), f"{path}.seccompProfile")
    return errors + _check_profiles(context, path)


def _check_profiles(context: JsonObject, path: str) -> list[FieldError]:
    errors = check_windows(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + check_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def check_container_context(context: JsonObject, path: str) -> list[FieldError]:
    """Validate the security context of one container."""
    errors = _ids(context, ("runAsUser", "runAsGroup"), path)
    errors += _profile(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        added = (context.get("capabilities") or {}).get("add") or ()
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(invalid(path, context, text))
        elif "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(path, context, text))
    return errors + _check_profiles(context, path)


def check_host_aliases(aliases: Sequence[JsonObject], path: str) -> list[FieldError]:
    """Validate entries of the pod's hosts file."""
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        at = f"{path}[{index}]"
        errors += check_legacy_address(alias.get("ip") or "", f"{at}.ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            errors += [invalid(f"{at}.hostnames[{number}]", name, text) for text in dns_subdomain(name)]
    return errors


def _check_search(domain: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(domain.encode()) > _DOMAIN_LENGTH:
        errors.append(invalid(path, domain, max_length_message(_DOMAIN_LENGTH)))
    if not re.fullmatch(_SEARCH, domain):
        errors.append(invalid(path, domain, regex_message(_NO_SEARCH, _SEARCH, "example.com")))
    return errors


def check_hostname_override(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the host name that a pod's containers see."""
    name, at = spec.get("hostnameOverride"), f"{path}.hostnameOverride"
    if name is None:
        return []
    errors = [
        forbidden_field(at, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name.encode()) > _HOSTNAME_LENGTH:
        errors.append(too_long(at, _HOSTNAME_LENGTH))
    return errors + [invalid(at, name, text) for text in dns_subdomain(name)]


def check_os(system: JsonObject | None, path: str) -> list[FieldError]:
    """Validate the operating system of a pod."""
    if system is None:
        return []
    name = system.get("name", "")
    if not name:
        return [missing_field(f"{path}.name")]
    return [] if name in _SYSTEMS else [not_supported(path, name, _SYSTEMS)]


def check_dns(config: JsonObject | None, policy: str, path: str) -> list[FieldError]:
    """Validate name servers, search domains and options."""
    servers = (config or {}).get("nameservers") or []
    if policy == "None" and not servers:
        if config is None:
            return [missing_field(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [missing_field(f"{path}.nameservers", text)]
    if config is None:
        return []
    errors: list[FieldError] = []
    if len(servers) > _MOST_SERVERS:
        text = f"must not have more than {_MOST_SERVERS} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, text))
    for index, server in enumerate(servers):
        errors += check_legacy_address(server, f"{path}.nameservers[{index}]")
    searches = config.get("searches") or []
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        errors.append(invalid(f"{path}.searches", searches, text))
    if len(" ".join(searches).encode()) > _SEARCH_LENGTH:
        text = f"must not have more than {_SEARCH_LENGTH} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, text))
    for index, search in enumerate(searches):
        if search != ".":
            errors += _check_search(search.removesuffix("."), f"{path}.searches[{index}]")
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(missing_field(f"{path}.options[{index}]", "must not be empty"))
    return errors
