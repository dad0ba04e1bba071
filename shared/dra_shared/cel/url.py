"""URLs as parsed by Go's net/url, for the ``url`` functions. Works on bytes, as Go does."""

import enum
import re
import string
from dataclasses import dataclass, replace
from typing import Final

from dra_shared.cel.network import AddressError, parse_address
from dra_shared.quoting import go_quote

_SCHEME: Final = re.compile(rb"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_UNRESERVED: Final = frozenset((string.ascii_letters + string.digits + "-_.~").encode())
_HEX: Final = frozenset(string.hexdigits.encode())
_PORT: Final = re.compile(rb"(:[0-9]*)?")
_USER_INFO: Final = re.compile(rb"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_ENCODED_PATH: Final = frozenset(b"!$&'()*+,;=:@[]%")


class _Part(enum.Enum):
    """The parts of a URL, which differ in the bytes that need no escape."""

    PATH = enum.auto()
    HOST = enum.auto()
    ZONE = enum.auto()
    USER = enum.auto()
    QUERY = enum.auto()
    FRAGMENT = enum.auto()

    def keeps(self, byte: int) -> bool:
        """True if the byte is written without an escape."""
        return byte in _KEPT[self]


_HOST_KEPT: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_KEPT: Final = {
    _Part.PATH: _UNRESERVED | frozenset(b"$&+,/:;=@"),
    _Part.HOST: _HOST_KEPT,
    _Part.ZONE: _HOST_KEPT,
    _Part.USER: _UNRESERVED | frozenset(b"$&+,;="),
    _Part.QUERY: _UNRESERVED,
    _Part.FRAGMENT: _UNRESERVED | frozenset(b"$&+,/:;=?@!()*"),
}


class UrlError(ValueError):
    """The text is not a valid URL. The message is Go's."""


def _quote(data: bytes) -> str:
    return go_quote(data.decode(errors="replace"))


def _unescape(data: bytes, part: _Part) -> bytes:
    strict = part is _Part.HOST or part is _Part.ZONE
    out = bytearray()
    at = 0
    while at < len(data):
        byte = data[at]
        if byte != 0x25:
            if strict and byte < 0x80 and not part.keeps(byte):
                raise UrlError(f"invalid character {_quote(data[at : at + 1])} in host name")
            out.append(0x20 if byte == 0x2B and part is _Part.QUERY else byte)
            at += 1
            continue
        escape = data[at : at + 3]
        if len(escape) < 3 or not _HEX.issuperset(escape[1:]):
            raise UrlError(f"invalid URL escape {_quote(escape)}")
        value = int(escape[1:], 16)
        if escape != b"%25":
            refused = value < 0x80 if part is _Part.HOST else value != 0x20 and not _Part.HOST.keeps(value)
            if strict and refused:
                raise UrlError(f"invalid URL escape {_quote(escape)}")
        out.append(value)
        at += 3
    return bytes(out)


def _escape(data: bytes, part: _Part) -> bytes:
    return b"".join(bytes((byte,)) if part.keeps(byte) else b"%%%02X" % byte for byte in data)


@dataclass(frozen=True, slots=True)
class _Parsed:
    scheme: bytes = b""
    opaque: bytes = b""
    # As printed; None if the URL has none.
    user: bytes | None = None
    host: bytes = b""
    # In escaped form.
    path: bytes = b""
    query: bytes = b""
    force_query: bool = False
    omit_host: bool = False
    fragment: bytes = b""

    def text(self) -> bytes:
        """Return the URL as text."""
        out = self.scheme + b":" if self.scheme else b""
        if self.opaque:
            out += self.opaque
        else:
            path, bare = self.path, not self.host and self.user is None
            if (self.scheme or not bare) and not (self.omit_host and bare):
                if path or not bare:
                    out += b"//"
                if self.user is not None:
                    out += self.user + b"@"
                out += _escape(self.host, _Part.HOST)
            if self.omit_host and bare and path.startswith(b"//"):
                out += b"%2F"
                path = path[1:]
            if path and not path.startswith(b"/") and self.host:
                out += b"/"
            if not out and b":" in path.partition(b"/")[0]:
                out += b"./"
            out += path
        if self.force_query or self.query:
            out += b"?" + self.query
        return out + (b"#" + self.fragment if self.fragment else b"")


def _parse(data: bytes, *, request: bool) -> _Parsed:
    """Split a URL into its parts.

    A ``request`` must be absolute or an absolute path; its fragment is not split off.
    """
    if any(byte < 0x20 or byte == 0x7F for byte in data):
        raise UrlError("net/url: invalid control character in URL")
    if not data and request:
        raise UrlError("empty url")
    if data == b"*":
        return _Parsed(path=b"*")
    if data.startswith(b":"):
        raise UrlError("missing protocol scheme")
    scheme, rest = b"", data
    if match := _SCHEME.match(data):
        scheme, rest = match[1].lower(), data[match.end() :]
    force = rest.endswith(b"?") and rest.count(b"?") == 1
    rest, _, query = rest.partition(b"?")
    if not rest.startswith(b"/"):
        if scheme:
            return _Parsed(scheme=scheme, opaque=rest, query=query, force_query=force)
        if request:
            raise UrlError("invalid URI for request")
        if b":" in rest.partition(b"/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    user: bytes | None = None
    host = b""
    omit = False
    if rest.startswith(b"//") and (scheme or not (request or rest.startswith(b"///"))):
        authority, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        user, host = _authority(scheme, authority)
    else:
        omit = bool(scheme) and rest.startswith(b"/")
    path = _escaped_path(rest)
    return _Parsed(scheme, b"", user, host, path, query, force, omit)


def _escaped_path(raw: bytes) -> bytes:
    path = _unescape(raw, _Part.PATH)
    if all(byte in _ENCODED_PATH or _Part.PATH.keeps(byte) for byte in raw):
        return raw
    return b"*" if path == b"*" else _escape(path, _Part.PATH)


def _authority(scheme: bytes, authority: bytes) -> tuple[bytes | None, bytes]:
    info, at, name = authority.rpartition(b"@")
    host = _parse_host(scheme, name)
    if not at:
        return None, host
    if not _USER_INFO.fullmatch(info):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = info.partition(b":")
    user = _escape(_unescape(name, _Part.USER), _Part.USER)
    if colon:
        user += b":" + _escape(_unescape(password, _Part.USER), _Part.USER)
    return user, host


def _parse_host(scheme: bytes, host: bytes) -> bytes:
    bracket = host.rfind(b"[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _parse_bracketed(host)
    colon = host.find(b":")
    if colon >= 0:
        if scheme not in (b"http", b"https"):
            colon = host.rfind(b":")
        _check_port(host[colon:])
    return _unescape(host, _Part.HOST)


def _check_port(port: bytes) -> None:
    if not _PORT.fullmatch(port):
        raise UrlError(f"invalid port {_quote(port)} after host")


def _parse_bracketed(host: bytes) -> bytes:
    """Parse an IPv6 address with an optional escaped zone and an optional port."""
    inner, closing, port = host[1:].rpartition(b"]")
    if not closing:
        raise UrlError("missing ']' in host")
    _check_port(port)
    zone = inner.find(b"%25")
    if zone < 0:
        name = _unescape(inner, _Part.HOST)
    else:
        name = _unescape(inner[:zone], _Part.HOST) + _unescape(inner[zone:], _Part.ZONE)
    try:
        address = parse_address(name.decode(errors="replace"))
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if address.version == 4:
        raise UrlError("invalid IP-literal")
    return b"[" + name + b"]" + port


class Url:
    """A parsed URL. URLs are equal if their texts are."""

    __slots__ = ("_parsed", "text")

    def __init__(self, parsed: _Parsed) -> None:
        self._parsed = parsed
        self.text = parsed.text().decode(errors="replace")

    @classmethod
    def parse(cls, text: str) -> "Url":
        """Parse an absolute URL or an absolute path (Go's ParseRequestURI, then Parse). Raises UrlError."""
        cls.check(text)
        data = text.encode(errors="surrogatepass")
        before, _, fragment = data.partition(b"#")
        try:
            parsed = _parse(before, request=False)
        except UrlError as error:
            raise UrlError(f"parse {_quote(before)}: {error}") from None
        if fragment:
            try:
                plain = _unescape(fragment, _Part.FRAGMENT)
            except UrlError as error:
                raise UrlError(f"parse {_quote(data)}: {error}") from None
            kept = all(byte in _ENCODED_PATH or _Part.FRAGMENT.keeps(byte) for byte in fragment)
            escaped = fragment if kept else _escape(plain, _Part.FRAGMENT)
            parsed = replace(parsed, fragment=escaped)
        return cls(parsed)

    @staticmethod
    def check(text: str) -> None:
        """Raise UrlError unless the text is an absolute URL or an absolute path."""
        data = text.encode(errors="surrogatepass")
        try:
            _parse(data, request=True)
        except UrlError as error:
            raise UrlError(f"parse {_quote(data)}: {error}") from None

    @property
    def scheme(self) -> str:
        return self._parsed.scheme.decode()

    @property
    def host(self) -> str:
        return self._parsed.host.decode(errors="replace")

    @property
    def path(self) -> str:
        """The escaped path."""
        return self._parsed.path.decode(errors="replace")

    def _split_host(self) -> tuple[str, str]:
        host = self.host
        name, colon, port = host.rpartition(":")
        if not colon or not (port == "" or (port.isascii() and port.isdigit())):
            name, port = host, ""
        if name.startswith("[") and name.endswith("]"):
            name = name[1:-1]
        return name, port

    @property
    def hostname(self) -> str:
        return self._split_host()[0]

    @property
    def port(self) -> str:
        return self._split_host()[1]

    def query_values(self) -> dict[str, list[str]]:
        """Return the query's values by name, without the malformed ones."""
        values: dict[str, list[str]] = {}
        for pair in self._parsed.query.split(b"&"):
            if not pair or b";" in pair:
                continue
            key, _, value = pair.partition(b"=")
            try:
                name, content = _unescape(key, _Part.QUERY), _unescape(value, _Part.QUERY)
            except UrlError:
                continue
            values.setdefault(name.decode(errors="replace"), []).append(content.decode(errors="replace"))
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text
