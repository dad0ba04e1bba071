"""Validate names in resource.k8s.io objects: drivers, pools, devices, requests, attributes."""

from __future__ import annotations

import re
import uuid

from dra_shared.names import dns_label, dns_subdomain, label_key, label_value, regex_message
from dra_shared.version import DEFAULT, V1_35, V1_38, Version

from dra_apiserver.errors import FieldError, invalid, missing_field, too_long

DOMAIN_LENGTH = 63
ID_LENGTH = 32
KEY_LENGTH = DOMAIN_LENGTH + 1 + ID_LENGTH
"""The longest qualified name: a domain, a slash and an identifier."""
_POOL_LENGTH = 253
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RESERVED_DOMAINS = ("k8s.io", "kubernetes.io")


def label(value: str, path: str) -> list[FieldError]:
    """Check a DNS label: the name of a device, request or counter."""
    return [invalid(path, value, text) for text in dns_label(value)]


def subdomain(value: str, path: str) -> list[FieldError]:
    """Check a DNS subdomain: the name of a class or node."""
    return [invalid(path, value, text) for text in dns_subdomain(value)]


def class_name(value: str, path: str) -> list[FieldError]:
    """Check the name of a DeviceClass, which is required."""
    return subdomain(value, path) if value else [missing_field(path)]


def driver_name(value: str, path: str, kubernetes: Version = DEFAULT) -> list[FieldError]:
    """Check a driver's name: at most 63 bytes, a DNS subdomain in any case (like names of CSI drivers)."""
    errors = [] if value else [missing_field(path)]
    if errors and kubernetes >= V1_35:
        return errors
    if len(value.encode()) > DOMAIN_LENGTH:
        errors.append(too_long(path, DOMAIN_LENGTH))
    errors.extend(invalid(path, value, text) for text in dns_subdomain(value.lower()))
    return errors


def pool_name(value: str, path: str) -> list[FieldError]:
    """Check a pool's name: DNS subdomains separated by slashes."""
    if not value:
        return [missing_field(path)]
    errors = []
    if len(value.encode()) > _POOL_LENGTH:
        errors.append(too_long(path, _POOL_LENGTH))
    for part in value.split("/"):
        errors.extend(subdomain(part, path))
    return errors


def c_identifier(value: str, path: str) -> list[FieldError]:
    """Check the name of an attribute or capacity within its domain."""
    errors = []
    if len(value.encode()) > ID_LENGTH:
        errors.append(too_long(path, ID_LENGTH))
    if not re.fullmatch(_C_IDENTIFIER, value):
        text = regex_message(
            "a valid C identifier must start with alphabetic character or '_', "
            "followed by a string of alphanumeric characters or '_'",
            _C_IDENTIFIER,
            "my_name",
            "MY_NAME",
            "MyName",
        )
        errors.append(invalid(path, value, text))
    return errors


def qualified_name(value: str, path: str, kubernetes: Version = DEFAULT) -> list[FieldError]:
    """Check an attribute's or capacity's name, with or without its domain.

    Before 1.38, several slashes are allowed.
    """
    if kubernetes < V1_35 and not value:
        return [missing_field(path, "name required")]
    parts = value.split("/")
    if len(parts) == 1:
        return c_identifier(value, path)
    if len(parts) > 2:
        return [invalid(path, value, "must not contain more than one slash")] if kubernetes >= V1_38 else []
    domain, name = parts
    errors = driver_name(domain, path, kubernetes) if domain else [_empty(path, "domain", kubernetes)]
    return errors + (c_identifier(name, path) if name else [_empty(path, "name", kubernetes)])


def _empty(path: str, part: str, kubernetes: Version) -> FieldError:
    text = f"the {part} must not be empty"
    return invalid(path, "", text) if kubernetes >= V1_35 else missing_field(path, text)


def fully_qualified_name(value: str, path: str, kubernetes: Version = DEFAULT) -> list[FieldError]:
    """Check an attribute's name with its domain."""
    errors = qualified_name(value, path, kubernetes)
    if "/" in value or (kubernetes < V1_35 and not value):
        return errors
    text = "a fully qualified name must be a domain and a name separated by a slash"
    return [*errors, invalid(path, value, text if kubernetes >= V1_35 else "must include a domain")]


def prefixed_label_key(value: str) -> list[str]:
    """Return the problems of a label key, which must have a domain as prefix."""
    texts = label_key(value)
    return texts if texts or "/" in value else ["must include a prefix (e.g. 'example.com/key')"]


def reserved_domain(value: str, path: str) -> list[FieldError]:
    """Check that the domain of a prefixed name is not reserved for Kubernetes (`kubernetes.io`, `k8s.io`)."""
    domain = value.partition("/")[0].strip().lower().rstrip(".")
    if domain not in _RESERVED_DOMAINS and not domain.endswith(tuple(f".{one}" for one in _RESERVED_DOMAINS)):
        return []
    return [invalid(path, value, "domain names *.k8s.io, *.kubernetes.io are reserved")]


def label_name(value: str, path: str) -> list[FieldError]:
    """Check a label's key, as in taints and conditions."""
    return [invalid(path, value, text) for text in label_key(value)]


def label_text(value: str, path: str) -> list[FieldError]:
    """Check a label's value."""
    return [invalid(path, value, text) for text in label_value(value)]


def uid(value: str, path: str) -> list[FieldError]:
    """Check a UUID in lower case, with dashes."""
    problem = _uuid_problem(value)
    if problem:
        return [invalid(path, value, f"error validating uid: {problem}")]
    if not _UUID.fullmatch(value):
        text = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
        return [invalid(path, value, text)]
    return []


def _uuid_problem(value: str) -> str:
    """Return google/uuid's error for `value`, which may be plain, in braces, a URN or without dashes."""
    size = len(value.encode())
    digits = value
    if size == 45:
        if value[:9].lower() != "urn:uuid:":
            return f'invalid urn prefix: "{value[:9]}"'
        digits = value[9:]
    elif size == 38:
        if not (value.startswith("{") and value.endswith("}")):
            return "invalid bracketed UUID format"
        digits = value[1:-1]
    elif size == 32:
        return "" if re.fullmatch("[0-9a-fA-F]{32}", value) else "invalid UUID format"
    elif size != 36:
        return f"invalid UUID length: {size}"
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", digits):
        return "invalid UUID format"
    uuid.UUID(digits)
    return ""
