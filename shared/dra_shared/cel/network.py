"""IP addresses and networks as Go's net/netip reads them, for the ``ip`` and ``cidr`` functions."""

import ipaddress
import re
from typing import Final

from dra_shared.quoting import go_quote

_V4_FIELD: Final = re.compile(r"0|[1-9][0-9]{0,2}")


class AddressError(ValueError):
    """The text is no address or network; the message is upstream's."""


class Ip:
    """An IPv4 or IPv6 address without a zone."""

    __slots__ = ("address",)

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        self.address = address

    @classmethod
    def parse(cls, text: str) -> "Ip":
        address = _parse_address(text, text, "IP Address {} parse error during conversion from string: {}")
        if isinstance(address, ipaddress.IPv6Address):
            if address.scope_id:
                raise AddressError(f"IP address {go_quote(text)} with zone value is not allowed")
            if address.ipv4_mapped is not None:
                raise AddressError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
        return cls(address)

    @property
    def byte_length(self) -> int:
        return self.address.max_prefixlen // 8

    @property
    def family(self) -> int:
        return self.address.version

    @property
    def is_unspecified(self) -> bool:
        return int(self.address) == 0

    @property
    def is_loopback(self) -> bool:
        return self.address.is_loopback

    @property
    def is_link_local_multicast(self) -> bool:
        if self.address.version == 4:
            return int(self.address) >> 8 == 0xE00000
        return int(self.address) >> 112 & 0xFF0F == 0xFF02

    @property
    def is_link_local_unicast(self) -> bool:
        if self.address.version == 4:
            return int(self.address) >> 16 == 0xA9FE
        return int(self.address) >> 118 == 0xFE80 >> 6

    @property
    def is_global_unicast(self) -> bool:
        broadcast = self.address.version == 4 and int(self.address) == 0xFFFFFFFF
        multicast = self.address.is_multicast
        return not (
            broadcast or multicast or self.is_unspecified or self.is_loopback or self.is_link_local_unicast
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class Cidr:
    """A network prefix; host bits may be set."""

    __slots__ = ("address", "prefix")

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, prefix: int) -> None:
        self.address = address
        self.prefix = prefix

    @classmethod
    def parse(cls, text: str) -> "Cidr":
        wrapped = "network address parse error during conversion from string: "
        base, slash, bits = text.rpartition("/")
        quoted = go_quote(text)
        if not slash:
            raise AddressError(f"{wrapped}netip.ParsePrefix({quoted}): no '/'")
        address = _parse_address(base, text, wrapped + "netip.ParsePrefix({}): {}")
        if isinstance(address, ipaddress.IPv6Address) and "%" in base:
            raise AddressError(
                f"{wrapped}netip.ParsePrefix({quoted}): IPv6 zones cannot be present in a prefix"
            )
        if not re.fullmatch(r"0|[1-9][0-9]*", bits):
            raise AddressError(
                f"{wrapped}netip.ParsePrefix({quoted}): bad bits after slash: {go_quote(bits)}"
            )
        prefix = int(bits) if len(bits) < 5 else 999
        if prefix > address.max_prefixlen:
            raise AddressError(f"{wrapped}netip.ParsePrefix({quoted}): prefix length out of range")
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            raise AddressError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
        return cls(address, prefix)

    def _masked_int(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, prefix: int) -> int:
        return int(address) >> (address.max_prefixlen - prefix)

    def contains_ip(self, ip: Ip) -> bool:
        return ip.address.version == self.address.version and self._masked_int(
            ip.address, self.prefix
        ) == self._masked_int(self.address, self.prefix)

    def contains_cidr(self, other: "Cidr") -> bool:
        return self.prefix <= other.prefix and self.contains_ip(Ip(other.address))

    def masked(self) -> "Cidr":
        shift = self.address.max_prefixlen - self.prefix
        return Cidr(type(self.address)(int(self.address) >> shift << shift), self.prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and (self.address, self.prefix) == (other.address, other.prefix)

    def __hash__(self) -> int:
        return hash((self.address, self.prefix))

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


def _parse_address(text: str, whole: str, message: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parses an address; ``message`` takes the quoted whole text and Go's reason."""
    try:
        if ":" in text:
            return ipaddress.IPv6Address(text)
        fields = text.split(".")
        if len(fields) == 4 and all(_V4_FIELD.fullmatch(field) and int(field) < 256 for field in fields):
            return ipaddress.IPv4Address(text)
    except ValueError:
        pass
    raise AddressError(message.format(go_quote(whole), _reason(text)))


def _reason(text: str) -> str:
    quoted = go_quote(text)
    if ":" in text:
        return f"ParseAddr({quoted}): {_reason_v6(text)}"
    if "." not in text:
        return f"ParseAddr({quoted}): unable to parse IP"
    fields = text.split(".")
    for index, field in enumerate(fields):
        if field and not (field.isascii() and field.isdigit()):
            bad = next(i for i, char in enumerate(field) if not ("0" <= char <= "9"))
            at = len(".".join(fields[:index])) + (1 if index else 0) + bad
            return f"ParseAddr({quoted}): unexpected character (at {go_quote(text[at:])})"
        if not field:
            at = len(".".join(fields[:index])) + (1 if index else 0)
            rest = text[at:] or "."
            return f"ParseAddr({quoted}): IPv4 field must have at least one digit (at {go_quote(rest)})"
        if len(field) > 1 and field[0] == "0":
            return f"ParseAddr({quoted}): IPv4 field has octet with leading zero"
        if int(field) > 255:
            return f"ParseAddr({quoted}): IPv4 field has value >255"
        if index == 3 and len(fields) > 4:
            return f"ParseAddr({quoted}): IPv4 address too long"
    return f"ParseAddr({quoted}): IPv4 address too short"


def _reason_v6(text: str) -> str:
    head, double, tail = text.partition("::")
    if ":::" in text:
        at = text.index(":::") + 2
        return f"each colon-separated field must have at least one digit (at {go_quote(text[at:])})"
    if "::" in tail:
        return f"multiple :: in address (at {go_quote(tail[tail.index('::') :])})"
    at = 0
    for part in text.split(":"):
        if bad := next((i for i, char in enumerate(part) if char not in "0123456789abcdefABCDEF."), None):
            return f"unexpected character, want colon (at {go_quote(text[at + bad :])})"
        if len(part) > 4 and "." not in part:
            return f"each group must have 4 or less digits (at {go_quote(text[at:])})"
        at += len(part) + 1
    count = len([part for part in (*head.split(":"), *tail.split(":")) if part])
    if not double and count < 8:
        return "address string too short"
    return f"unexpected character (at {go_quote(text)})"
