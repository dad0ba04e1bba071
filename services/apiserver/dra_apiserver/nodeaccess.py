"""How the API server reaches nodes, and how they know it (pkg/kubelet/client's KubeletClientConfig)."""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_LONGEST_NAME = 253


def dial_problem(host: str, port: int) -> str:
    """Return why a connection to a node cannot be tried, in Go's words; "" if it can.

    Nothing validates the addresses of a node's status, and Python's libraries raise all kinds of errors for them.
    """
    if not 0 <= port < 1 << 16:
        return f"dial tcp: address {port}: invalid port"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if len(host) > _LONGEST_NAME or not _NAME.fullmatch(host):
            return f"dial tcp: lookup {host}: no such host"
    return ""


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """Plain HTTP, or HTTPS where any of the files is named.

    ``certificate`` and ``key`` are the API server's own, by which nodes know it, as they do by the ``token``.
    ``authority`` has signed the nodes' certificates; without it they are not checked, as upstream.
    """

    token: str = ""
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    @property
    def scheme(self) -> str:
        """Of the nodes' URLs."""
        return "https" if self.certificate or self.authority else "http"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What tells nodes that a request is the API server's."""
        return [(b"authorization", f"Bearer {self.token}".encode())] if self.token else []

    def context(self) -> ssl.SSLContext | None:
        """For a new connection, from the files as they are now; None for plain HTTP.

        Raises:
            OSError: a file is of no use.
        """
        if self.scheme == "http":
            return None
        if self.authority is not None:
            context = ssl.create_default_context(cafile=self.authority)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context
