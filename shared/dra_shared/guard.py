"""Protect a server without passwords from web pages, because a browser runs scripts of any page.

Requests of pages with another origin are recognized by ``Origin`` and ``Sec-Fetch-Site``, which scripts
cannot change (as in Go's ``net/http.CrossOriginProtection``). With DNS rebinding, a page's own name resolves
to this machine. Its requests count as same-origin, but their host name is not one of ours (as in ``kubectl
proxy --accept-hosts``). Clients other than browsers send neither header, and are accepted.
"""

import hmac
import ipaddress
import socket
from collections.abc import Iterable, Mapping

from dra_shared.clientcertificate import ClientCertificate

#: The names of the service ``kubernetes`` that pods know.
_IN_CLUSTER = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_ANY = "*"
_PRIVILEGED = "system:masters"
_OWN_SITES = frozenset({b"same-origin", b"none"})
_BROWSERS = frozenset({b"sec-fetch-site", b"origin"})
_READS = frozenset({"GET", "HEAD"})
_LONGEST_NAME = 255
_MOST_KNOWN = 1000

Headers = Mapping[bytes, bytes]


class Guard:
    """Knows the server's names: addresses, this machine's names, ``localhost``, names of pods, and ``hosts``.

    A name in ``hosts`` with a leading dot matches the domain and all of its subdomains; ``*`` matches every
    name. With a ``token``, requests need it as their bearer token. If clients are ``certified``, a
    certificate of a member of ``system:masters`` is accepted instead; without a token it is required.
    """

    def __init__(self, hosts: Iterable[str] = (), token: str = "", *, certified: bool = False) -> None:
        self._token = f"Bearer {token}".encode() if token else b""
        self._certified = certified
        given = {host.strip().lower().rstrip(".") for host in hosts if host.strip()}
        machine = socket.gethostname().lower()
        # Cached because every request is checked, and parsing an address costs more than the rest.
        self._known = {b""}
        self._any = _ANY in given
        self._domains = tuple(host for host in (*given, ".localhost") if host.startswith("."))
        names = {host.removeprefix(".") for host in given}
        self._names = frozenset({*names, *_IN_CLUSTER, "localhost", machine, machine.partition(".")[0]})

    def refusal(
        self, method: str, headers: Headers, certificate: ClientCertificate | None = None
    ) -> str | None:
        """Return the reason for rejecting a request; None if it is allowed.

        ``headers`` have lower-case names. ``certificate`` is the client's.
        """
        if not self._knows_client(headers, certificate):
            needed = "certificate" if self._certified else "token"
            return f"the request lacks the {needed} that this server requires"
        host = headers.get(b"host", b"")
        if host not in self._known and not self._knows(host):
            shown = host.decode("latin-1")[:_LONGEST_NAME]
            return f'host "{shown}" is not a name of this server; --allowed-hosts adds names'
        if not _BROWSERS.isdisjoint(headers):
            return _cross_origin(method, headers, host)
        return None

    def _knows_client(self, headers: Headers, certificate: ClientCertificate | None) -> bool:
        if self._token and hmac.compare_digest(headers.get(b"authorization", b""), self._token):
            return True
        if self._certified:
            return certificate is not None and _PRIVILEGED in certificate.groups
        return not self._token

    def _knows(self, host: bytes) -> bool:
        known = self._is_ours(host.decode("latin-1"))
        if known and len(self._known) < _MOST_KNOWN:
            self._known.add(host)
        return known

    def _is_ours(self, host: str) -> bool:
        name = _without_port(host.lower())
        if self._any or name in self._names or name.endswith(self._domains):
            return True
        try:
            # Only the machine that has the address can serve a page of that origin.
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True


def _cross_origin(method: str, headers: Headers, host: bytes) -> str | None:
    site = headers.get(b"sec-fetch-site", b"")
    if site:
        # The host is known, so the browser's header is trusted. Behind a proxy the origin is the proxy's.
        if site in _OWN_SITES or (method in _READS and _follows_link(headers)):
            return None
        shown = site.decode("latin-1")[:32]
        return f"cross-origin request: a web page of another origin asks (Sec-Fetch-Site: {shown})"
    origin = headers.get(b"origin", b"")
    if origin and origin.partition(b"://")[2].lower() != host.lower():
        shown = origin.decode("latin-1")[:_LONGEST_NAME]
        return f'cross-origin request: a web page of origin "{shown}" asks'
    return None


def _follows_link(headers: Headers) -> bool:
    return headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")
