"""The string formats that definitions may use (``kube-openapi``'s ``strfmt``)."""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from dra_shared.numerals import integer, is_digits

_HEX = "[0-9a-fA-F]"
_DATE_TIME = re.compile(r"\d{4}-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)")
_PERIOD = r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)"
_DURATION = re.compile(rf"[+-]?(?:{_PERIOD})+|0")
_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,62}[a-zA-Z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_UUID = re.compile(
    rf"{_HEX}{{8}}-?{_HEX}{{4}}-?([0-9a-fA-F]){_HEX}{{3}}-?([0-9a-fA-F]){_HEX}{{3}}-?{_HEX}{{12}}"
)
_BYTE = f"{_HEX}{{2}}"
_MAC = re.compile(rf"{_BYTE}([:-])(?:{_BYTE}\1){{4}}{_BYTE}(?:(?:\1{_BYTE}){{2}}|(?:\1{_BYTE}){{14}})?")
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")


def _date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == len("2026-01-01")


def _date_time(text: str) -> bool:
    found = _DATE_TIME.fullmatch(text)
    return (
        found is not None
        and _date(text[:10])
        and int(found[3]) < 24
        and int(found[4]) < 60
        and int(found[5]) < 61
    )


def _address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _range(text: str) -> bool:
    address, slash, length = text.partition("/")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return bool(slash) and is_digits(length) and integer(length) <= found.max_prefixlen


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _uuid(kind: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        found = _UUID.fullmatch(text)
        if found is None or not kind:
            return found is not None
        return found[1] == kind and (kind == "3" or found[2].lower() in "89ab")

    return check


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _byte,
    "cidr": _range,
    "date": _date,
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": lambda text: _HOST.fullmatch(text) is not None,
    "ipv4": _address(4),
    "ipv6": _address(6),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uri": _uri,
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}


def has_format(text: str, name: str) -> bool:
    """True if a string has the format. Unknown formats accept every string."""
    check = _CHECKS.get(name)
    return check is None or check(text)
