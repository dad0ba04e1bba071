"""Validate IP addresses and ranges in fields (apimachinery's ``util/validation/ip.go``, as used by built-in
kinds).
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Set

from dra_shared.numerals import integer

from dra_apiserver.errors import FieldError, invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


# The addresses of a node are in the status of each of its pods.
@functools.lru_cache(maxsize=4096)
def parse_address(value: str) -> Address | None:
    """Parse an address. Leading zeros are treated as decimal. Return None if it is invalid."""
    plain = value
    if ":" not in value:
        parts = value.split(".")
        if not all(part.isascii() and part.isdigit() and len(part) <= 16 for part in parts):
            return None
        plain = ".".join(str(int(part)) for part in parts)
    try:
        return ipaddress.ip_address(plain)
    except ValueError:
        return None


def check_legacy_address(value: str, path: str, known: Set[str] = frozenset()) -> list[FieldError]:
    """Validate an address. An address that the old object already has is not validated again."""
    if value in known:
        return []
    found = parse_address(value)
    if found is None:
        return [invalid(path, value, _NO_ADDRESS)]
    if found.version == 4 and str(found) != value:
        return [invalid(path, value, "must not have leading 0s")]
    mapped = isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None
    return [invalid(path, value, "must not be an IPv4-mapped IPv6 address")] if mapped else []


def check_legacy_range(value: str, path: str, known: Set[str] = frozenset()) -> list[FieldError]:
    """Validate a range of addresses. A range that the old object already has is not validated again."""
    if value in known:
        return []
    address, slash, length = value.partition("/")
    found = parse_address(address)
    good = bool(slash) and length.isascii() and length.isdigit()
    if found is None or not good or integer(length) > found.max_prefixlen:
        return [invalid(path, value, _NO_RANGE)]
    if (found.version == 4 and str(found) != address) or str(integer(length)) != length:
        return [invalid(path, value, "must not have leading 0s in IP or prefix length")]
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return [invalid(path, value, "must not have an IPv4-mapped IPv6 address")]
    network = ipaddress.ip_network(f"{found}/{length}", strict=False)
    if found != network.network_address:
        return [invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def check_endpoint_address(value: str, path: str) -> list[FieldError]:
    """Validate an address to which traffic may be sent (ValidateEndpointIP)."""
    found = parse_address(value)
    if found is None:
        return [invalid(path, value, "must be a valid IP address")]
    errors = []
    if found.is_unspecified:
        errors.append(invalid(path, value, f"may not be unspecified ({value})"))
    if found.is_loopback:
        errors.append(invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if found.is_link_local:
        text = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        errors.append(invalid(path, value, text))
    if found.is_multicast and found in ipaddress.ip_network(
        "224.0.0.0/24" if found.version == 4 else "ff02::/16"
    ):
        text = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, value, text))
    return errors
