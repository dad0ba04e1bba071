"""IP addresses and networks as parsed by Go's net/netip, for the ``ip`` and ``cidr`` functions."""

import ipaddress
import re
from typing import Final

from dra_shared.quoting import go_quote

_BITS: Final = re.compile(r"0|[1-9][0-9]*")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressError(ValueError):
    """The text is not an address or network. The message is upstream's."""


class Ip:
    """An IPv4 or IPv6 address without a zone."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address = address

    @classmethod
    def parse(cls, text: str) -> "Ip":
        try:
            address = parse_address(text)
        except AddressError as error:
            raise AddressError(
                f"IP Address {go_quote(text)} parse error during conversion from string: {error}"
            ) from None
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
    """A network prefix. Host bits may be set."""

    __slots__ = ("address", "prefix")

    def __init__(self, address: Address, prefix: int) -> None:
        self.address = address
        self.prefix = prefix

    @classmethod
    def parse(cls, text: str) -> "Cidr":
        quoted = go_quote(text)
        wrapped = f"network address parse error during conversion from string: netip.ParsePrefix({quoted}): "
        base, slash, bits = text.rpartition("/")
        if not slash:
            raise AddressError(f"{wrapped}no '/'")
        try:
            address = parse_address(base)
        except AddressError as error:
            raise AddressError(f"{wrapped}{error}") from None
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
            raise AddressError(f"{wrapped}IPv6 zones cannot be present in a prefix")
        if not _BITS.fullmatch(bits) or len(bits) > 19 or int(bits) >= 1 << 63:
            raise AddressError(f"{wrapped}bad bits after slash: {go_quote(bits)}")
        prefix = int(bits)
        if prefix > address.max_prefixlen:
            raise AddressError(f"{wrapped}prefix length out of range")
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            raise AddressError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
        return cls(address, prefix)

    def _masked_int(self, address: Address, prefix: int) -> int:
        return int(address) >> (address.max_prefixlen - prefix)

    def contains_ip(self, ip: Ip) -> bool:
        return ip.address.version == self.address.version and self._masked_int(
            ip.address, self.prefix
        ) == self._masked_int(self.address, self.prefix)

    def contains_cidr(self, other: "Cidr") -> bool:
        return self.prefix <= other.prefix and self.contains_ip(Ip(other.address))

    def mask(self) -> "Cidr":
        shift = self.address.max_prefixlen - self.prefix
        return Cidr(type(self.address)(int(self.address) >> shift << shift), self.prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and (self.address, self.prefix) == (other.address, other.prefix)

    def __hash__(self) -> int:
        return hash((self.address, self.prefix))

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"


def parse_address(text: str) -> Address:
    """Parse an address; an IPv6 address may have a zone. Raises AddressError with Go's message."""
    kind = next((char for char in text if char in ".:%"), "")
    try:
        if kind == ".":
            return ipaddress.IPv4Address(_v4(text))
        if kind == ":":
            return _v6(text)
        raise _Bad("missing IPv6 address" if kind else "unable to parse IP")
    except _Bad as bad:
        at = f" (at {go_quote(bad.rest)})" if bad.rest else ""
        raise AddressError(f"ParseAddr({go_quote(text)}): {bad.message}{at}") from None


class _Bad(Exception):
    def __init__(self, message: str, rest: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.rest = rest


def _v4(text: str) -> bytes:
    fields: list[int] = []
    digits = ""
    for at, char in enumerate(text):
        if "0" <= char <= "9":
            if digits == "0":
                raise _Bad("IPv4 field has octet with leading zero")
            digits += char
            if int(digits) > 255:
                raise _Bad("IPv4 field has value >255")
        elif char != ".":
            raise _Bad("unexpected character", text[at:])
        elif not digits or at == len(text) - 1:
            raise _Bad("IPv4 field must have at least one digit", text[at:])
        elif len(fields) == 3:
            raise _Bad("IPv4 address too long")
        else:
            fields.append(int(digits))
            digits = ""
    if len(fields) < 3:
        raise _Bad("IPv4 address too short")
    return bytes((*fields, int(digits)))


def _v6(text: str) -> ipaddress.IPv6Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _Bad("zone must be a non-empty string")
    found, gap, rest = _v6_groups(rest)
    if rest:
        raise _Bad("trailing garbage after address", rest)
    if len(found) < 16 and gap is None:
        raise _Bad("address string too short")
    if gap is not None:
        if len(found) == 16:
            raise _Bad("the :: must expand to at least one field of zeros")
        found = found[:gap] + bytes(16 - len(found)) + found[gap:]
    plain = ipaddress.IPv6Address(found)
    # Python's module refuses zones with a percent sign. Only whether there is a zone matters here.
    return ipaddress.IPv6Address(f"{plain}%zone") if zone else plain


def _v6_groups(rest: str) -> tuple[bytes, int | None, str]:
    """Return the bytes of an address, the index of its "::" in them, and the rest of the text."""
    found = b""
    gap: int | None = None
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    # The address may consist of a leading gap alone.
    while len(found) < 16 and (rest or gap != 0 or found):
        group = _group(rest)
        if rest[len(group) : len(group) + 1] == ".":
            return found + _parse_embedded(rest, len(found), gap), gap, ""
        found += int(group, 16).to_bytes(2, "big")
        rest = rest[len(group) :]
        if not rest:
            break
        if not rest.startswith(":"):
            raise _Bad("unexpected character, want colon", rest)
        if rest == ":":
            raise _Bad("colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest.startswith(":"):
            if gap is not None:
                raise _Bad("multiple :: in address", rest)
            gap, rest = len(found), rest[1:]
            if not rest:
                break
    return found, gap, rest


def _parse_embedded(rest: str, before: int, gap: int | None) -> bytes:
    """Return an IPv4 address at the end of an IPv6 address, after ``before`` bytes."""
    if gap is None and before != 12:
        raise _Bad("embedded IPv4 address must replace the final 2 fields of the address", rest)
    if before > 12:
        raise _Bad("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return _v4(rest)


def _group(rest: str) -> str:
    digits = ""
    for char in rest:
        if char not in "0123456789abcdefABCDEF":
            break
        digits += char
        if len(digits) > 4:
            raise _Bad("each group must have 4 or less digits", rest)
    if not digits:
        raise _Bad("each colon-separated field must have at least one digit", rest)
    return digits
