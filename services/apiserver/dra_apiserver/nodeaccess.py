"""The API server's connections and credentials for nodes (pkg/kubelet/client's KubeletClientConfig)."""

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
    """Return the reason, in Go's words, why a node's address is invalid; "" if it is valid.

    Addresses in a node's status are not validated, and Python's libraries raise various errors for invalid
    ones.
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
    """Plain HTTP, or HTTPS if any of the files is set.

    ``certificate`` and ``key`` identify the API server to nodes, like the ``token``. ``authority`` is the CA
    of the nodes' certificates. Without it they are not verified, as upstream.
    """

    token: str = ""
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    @property
    def scheme(self) -> str:
        """The scheme of the nodes' URLs."""
        return "https" if self.certificate or self.authority else "http"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that identify the API server to nodes."""
        return [(b"authorization", f"Bearer {self.token}".encode())] if self.token else []

    def context(self) -> ssl.SSLContext | None:
        """Return a context for a new connection, from the current files; None for plain HTTP.

        Raises:
            OSError: a file cannot be used.
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
