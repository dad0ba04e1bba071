"""Rules for names, label keys and label values, with Kubernetes' messages.

Each function returns the error messages, an empty list for a valid value (apimachinery's
`api/validate/content`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"


def _matcher(pattern: str) -> Callable[[str], object]:
    # The groups are non-capturing, because matching without captures takes half the time.
    return re.compile(pattern.replace("(", "(?:")).fullmatch


_dns_label = _matcher(_DNS_LABEL)
_dns_subdomain = _matcher(_DNS_SUBDOMAIN)
_dns_1035_label = _matcher(_DNS_1035_LABEL)
_key = _matcher(_KEY)
_value = _matcher(_VALUE)

NameRule = Callable[[str, bool], list[str]]
"""Returns messages for a name, or with True for the prefix of a generated name."""


def regex_message(text: str, pattern: str, *examples: str) -> str:
    """Return the message for a value that doesn't match `pattern`."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def max_length_message(limit: int, unit: str = "characters") -> str:
    """Return the message for a value of more than `limit` bytes, which Kubernetes 1.36 mostly calls characters."""
    return f"must be no more than {limit} {unit}"


def _size(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def dns_label(value: str, bytes_limit: bool = False) -> list[str]:
    """Check an RFC 1123 label: `my-name`. With `bytes_limit`, the message counts bytes, as in the declarative
    validators.
    """
    errors = []
    if _size(value) > 63:
        errors.append(max_length_message(63, "bytes" if bytes_limit else "characters"))
    if not _dns_label(value):
        if _dns_subdomain(value):
            errors.append("must not contain dots")
        else:
            text = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                "and must start and end with an alphanumeric character"
            )
            errors.append(regex_message(text, _DNS_LABEL, "my-name", "123-abc"))
    return errors


def dns_subdomain(value: str, bytes_limit: bool = False) -> list[str]:
    """Check an RFC 1123 subdomain: `example.com`. With `bytes_limit`, the message counts bytes, as for label keys."""
    errors = []
    if _size(value) > 253:
        errors.append(max_length_message(253, "bytes" if bytes_limit else "characters"))
    if not _dns_subdomain(value):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(regex_message(text, _DNS_SUBDOMAIN, "example.com"))
    return errors


def dns_1035_label(value: str) -> list[str]:
    """Check an RFC 1035 label, as in names of Services: `my-name`."""
    errors = []
    if _size(value) > 63:
        errors.append(max_length_message(63))
    if not _dns_1035_label(value):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        errors.append(regex_message(text, _DNS_1035_LABEL, "my-name", "abc-123"))
    return errors


def path_segment(value: str) -> list[str]:
    """Check a name that can be part of a path."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in value]


_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def label_key(value: str) -> list[str]:
    """Check a label's key, also called a qualified name: `example.com/MyName`."""
    return list(_label_key(value))


@functools.lru_cache(maxsize=4096)
def _label_key(value: str) -> Sequence[str]:
    parts = value.split("/")
    pattern = regex_message(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        return [
            f"a valid label key {pattern} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    errors = []
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors.extend(f"prefix part {text}" for text in dns_subdomain(parts[0], bytes_limit=True))
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > 63:
        errors.append(f"name part {max_length_message(63, 'bytes')}")
    if not _key(name):
        errors.append(f"name part {pattern}")
    return errors


def is_extended_resource_name(name: str) -> bool:
    """True unless a resource is Kubernetes' own or a quota's name (`v1helper.IsExtendedResourceName`)."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not _label_key(f"requests.{name}")


def label_value(value: str) -> list[str]:
    """Check a label's value."""
    errors = []
    if _size(value) > 63:
        errors.append(max_length_message(63, "bytes"))
    if not _value(value):
        text = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(regex_message(text, _VALUE, "MyValue", "my_value", "12345"))
    return errors


def _mask_trailing_dash(value: str) -> str:
    # Upstream removes two characters, not one. The prefix of a generated name is checked without them.
    return value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value


def dns_label_name(name: str, prefix: bool = False) -> list[str]:
    """Check a name that must be a DNS label, such as that of a namespace."""
    return dns_label(_mask_trailing_dash(name) if prefix else name)


def dns_subdomain_name(name: str, prefix: bool = False) -> list[str]:
    """Check a name that must be a DNS subdomain, as in most kinds."""
    return dns_subdomain(_mask_trailing_dash(name) if prefix else name)


def path_segment_name(name: str, prefix: bool = False) -> list[str]:
    """Check the rule for names of every kind."""
    if prefix:
        return [f"may not contain '{part}'" for part in "/%" if part in name]
    return path_segment(name)
