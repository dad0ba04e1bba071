"""URLs as Go's net/url reads them, for the ``url`` functions."""

import re
import urllib.parse
from typing import Final

from dra_shared.quoting import go_quote

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


class UrlError(ValueError):
    """The text is no URL; the message is Go's."""


class Url:
    """A parsed URL."""

    __slots__ = ("host", "path", "query", "scheme", "text")

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text = text
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query

    @classmethod
    def parse(cls, text: str) -> "Url":
        """An absolute URL or an absolute path (Go's ParseRequestURI, then Parse). Raises UrlError."""
        quoted = go_quote(text)
        if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
            raise UrlError(f"parse {quoted}: net/url: invalid control character in URL")
        if not text:
            raise UrlError('parse "": empty url')
        scheme, rest = _split_scheme(text)
        if not rest.startswith("/"):
            if not scheme:
                raise UrlError(f"parse {quoted}: invalid URI for request")
            if "/" not in rest.partition("?")[0] or not rest.startswith("/"):
                raise UrlError(f"parse {quoted}: invalid URI for request")
        rest = rest.partition("#")[0]
        rest, _, query = rest.partition("?")
        host = ""
        if rest.startswith("//") and (scheme or not rest.startswith("///")):
            authority, slash, path = rest[2:].partition("/")
            rest = slash + path
            host = authority.rpartition("@")[2]
            _check_host(host, quoted)
        if bad := _BAD_ESCAPE.search(rest):
            raise UrlError(
                f"parse {quoted}: invalid URL escape {go_quote(rest[bad.start() : bad.start() + 3])}"
            )
        return cls(text, scheme, host, rest, query)

    @property
    def hostname(self) -> str:
        host = self.host
        if host.startswith("["):
            return host[1:].partition("]")[0]
        return host.rpartition(":")[0] if ":" in host else host

    @property
    def port(self) -> str:
        tail = self.host.rpartition("]")[2]
        return tail.rpartition(":")[2] if ":" in tail else ""

    def query_values(self) -> dict[str, list[str]]:
        values: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            if _BAD_ESCAPE.search(key) or _BAD_ESCAPE.search(value):
                continue
            values.setdefault(urllib.parse.unquote_plus(key), []).append(urllib.parse.unquote_plus(value))
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def _split_scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise UrlError(f"parse {go_quote(text)}: missing protocol scheme")
    head, colon, rest = text.partition(":")
    if colon and _SCHEME.fullmatch(head):
        return head.lower(), rest
    if colon and head and head[0].isdigit() and "/" not in head:
        raise UrlError(f"parse {go_quote(text)}: first path segment in URL cannot contain colon")
    return "", text


def _check_host(host: str, quoted: str) -> None:
    tail = host.rpartition("]")[2] if host.startswith("[") else host
    if host.startswith("[") and "]" not in host:
        raise UrlError(f"parse {quoted}: missing ']' in host")
    _, colon, port = tail.rpartition(":")
    if colon and port and not (port.isascii() and port.isdigit()):
        raise UrlError(f"parse {quoted}: invalid port {go_quote(':' + port)} after host")
    if bad := next((char for char in host if char in ' <>"\\^`{|}'), None):
        raise UrlError(f"parse {quoted}: invalid character {go_quote(bad)} in host name")
