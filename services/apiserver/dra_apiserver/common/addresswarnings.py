"""Warn about addresses and ranges in an unusual form (apimachinery's ``util/validation/ip.go``)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from dra_shared.numerals import integer, is_digits

from dra_apiserver.common.addresses import parse_address


def address_warnings(path: str, value: str) -> Iterator[str]:
    """Warn about leading zeros, IPv4 in IPv6, and IPv6 that is not in its shortest form."""
    found = parse_address(value)
    if found is None:
        return
    mapped = getattr(found, "ipv4_mapped", None)
    if mapped is not None or (found.version == 4 and str(found) != value):
        yield f'{path}: non-standard IP address "{value}" is invalid: use "{mapped or found}"'
    elif str(found) != value:
        yield f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{found}")'


def range_warnings(path: str, value: str) -> Iterator[str]:
    """Warn about a range: the warnings of its address, and bits that are set after the prefix."""
    address, _, length = value.partition("/")
    found = parse_address(address)
    if found is None or not is_digits(length):
        return
    mapped = getattr(found, "ipv4_mapped", None)
    if mapped is not None and integer(length) >= 96:
        found, bits = mapped, integer(length) - 96
    else:
        bits = integer(length)
    network = ipaddress.ip_network(f"{found}/{bits}", strict=False)
    ambiguous = found != network.network_address
    if ambiguous:
        yield (
            f'{path}: CIDR value "{value}" is ambiguous in this context '
            f'(should be "{network}" or "{found}/{found.max_prefixlen}"?)'
        )
    if mapped is not None or (found.version == 4 and str(found) != address) or str(bits) != length:
        yield f'{path}: non-standard CIDR value "{value}" is invalid: use "{network}"'
    elif not ambiguous and f"{found}/{bits}" != value:
        yield f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format ("{found}/{bits}")'
