"""Keeps web pages away from a server that has no passwords: a browser runs what any page asks it to.

A page of another origin is known by ``Origin`` and ``Sec-Fetch-Site``, which no page can change (as Go's
``net/http.CrossOriginProtection``). A page whose own name was made to resolve to this machine (DNS rebinding) counts
as of the same origin, but names a host that is not ours (as ``kubectl proxy --accept-hosts``). What is no browser
sends neither header, and passes.
"""

import hmac
import ipaddress
import socket
from collections.abc import Callable, Iterable

#: The names of the service ``kubernetes`` that pods know.
_IN_CLUSTER = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_ANY = "*"
_OWN_SITES = frozenset({"", "same-origin", "none"})
_READS = frozenset({"GET", "HEAD"})
_LONGEST_NAME = 255
_MOST_KNOWN = 1000

Header = Callable[[bytes], str]


class Guard:
    """Knows the server's names: addresses, this machine's, ``localhost``, those of pods, and ``hosts``.

    A name in ``hosts`` that begins with a dot stands for the domain and all below it; ``*`` for every name. With a
    ``token``, requests need it as their bearer token too.
    """

    def __init__(self, hosts: Iterable[str] = (), token: str = "") -> None:
        self._token = f"Bearer {token}".encode() if token else b""
        given = {host.strip().lower().rstrip(".") for host in hosts if host.strip()}
        machine = socket.gethostname().lower()
        # Every request asks: reading an address costs more than all the rest.
        self._known = {""}
        self._any = _ANY in given
        self._domains = tuple(host for host in (*given, ".localhost") if host.startswith("."))
        names = {host.removeprefix(".") for host in given}
        self._names = frozenset({*names, *_IN_CLUSTER, "localhost", machine, machine.partition(".")[0]})

    def refusal(self, method: str, header: Header) -> str | None:
        """Why a request has no right to an answer; None where it may pass.

        ``header`` gives a header by its lower-case name, "" where it is absent.
        """
        if self._token:
            given = header(b"authorization").encode("latin-1")
            if not hmac.compare_digest(given, self._token):
                return "the request has not the token that this server needs"
        host = header(b"host")
        if host not in self._known and not self._knows(host):
            return f'host "{host[:_LONGEST_NAME]}" is not a name of this server; --allowed-hosts adds names'
        site = header(b"sec-fetch-site")
        if site:
            # With the host known, the browser's word is enough: behind a proxy the origin is the proxy's.
            if site in _OWN_SITES or (method in _READS and _follows_link(header)):
                return None
            return f"cross-origin request: a web page of another origin asks (Sec-Fetch-Site: {site[:32]})"
        origin = header(b"origin")
        if origin and origin.partition("://")[2].lower() != host.lower():
            return f'cross-origin request: a web page of origin "{origin[:_LONGEST_NAME]}" asks'
        return None

    def _knows(self, host: str) -> bool:
        known = self._is_ours(host)
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


def _follows_link(header: Header) -> bool:
    return header(b"sec-fetch-mode") == "navigate" and header(b"sec-fetch-dest") == "document"


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")
