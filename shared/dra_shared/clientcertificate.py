"""The user that a client certificate identifies (apiserver's pkg/authentication/request/x509).

The TLS library has checked the certificate against the client CA. This module reads the subject.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: The attribute of a subject that is a user's UID (`AllowParsingUserUIDFromCertAuth`).
_UID = "1.3.6.1.4.1.57683.2"


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A verified certificate's subject: the common name is the user, organizations are its groups.

    ``uids`` are those of the subject; a valid one has at most one. ``until`` is the expiry of the
    certificate, in seconds since the epoch; ``fingerprint`` is its SHA-256 in hexadecimal.
    """

    name: str
    groups: tuple[str, ...]
    uids: tuple[str, ...]
    until: float
    fingerprint: str


def client_certificate(transport: asyncio.BaseTransport) -> ClientCertificate | None:
    """Return the client's certificate; None without TLS, or if the client sent none."""
    found: Any = transport.get_extra_info("ssl_object")
    subject: dict[str, Any] | None = found.getpeercert() if found is not None else None
    if not subject:
        return None
    attributes = list(_attributes(subject))
    return ClientCertificate(
        # Go's pkix keeps the last of several.
        next((value for name, value in reversed(attributes) if name == "commonName"), ""),
        tuple(value for name, value in attributes if name == "organizationName"),
        tuple(value for name, value in attributes if name == _UID),
        ssl.cert_time_to_seconds(subject["notAfter"]),
        hashlib.sha256(found.getpeercert(True)).hexdigest(),
    )


def _attributes(subject: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for relative in subject.get("subject", ()):
        yield from relative
