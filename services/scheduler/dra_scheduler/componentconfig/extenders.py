"""HTTP extenders: the checks when a scheduler is built (``pkg/scheduler/extender.go``, ``buildExtenders``).

The certificates are read, and NodeResourcesFit is configured to ignore resources that extenders manage.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dra_scheduler.componentconfig.profiles import ProfileError
from dra_scheduler.componentconfig.types import (
    Extender,
    ExtenderTLSConfig,
    KubeSchedulerProfile,
    NodeResourcesFitArgs,
)

_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


def build_extenders(extenders: Sequence[Extender], profiles: Sequence[KubeSchedulerProfile]) -> None:
    """Check the extenders' certificates, and make NodeResourcesFit ignore the resources that extenders manage.

    Raises:
        ProfileError: a certificate can't be used; the message is upstream's.
    """
    ignored: list[str] = []
    for extender in extenders:
        try:
            _check_tls(extender)
        except (OSError, ValueError) as problem:
            raise ProfileError(f"couldn't build extenders: {_text(problem)}") from None
        ignored += [found.name for found in extender.managed_resources or () if found.ignored_by_scheduler]
    if ignored:
        for profile in profiles:
            _ignore(profile, ignored)


def _text(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"open {problem.filename}: {problem.strerror.lower()}"
    return str(problem)


def _ignore(profile: KubeSchedulerProfile, names: list[str]) -> None:
    for plugin in profile.plugin_config or ():
        if plugin.name == "NodeResourcesFit" and isinstance(plugin.args, NodeResourcesFitArgs):
            plugin.args.ignored_resources = list(names)
            return
    raise ProfileError("couldn't build extenders: can't find NodeResourcesFitArgs in plugin config")


@dataclass(frozen=True)
class Certificates:
    """The PEM data for TLS with an extender: CA (empty for the system's), client certificate and key."""

    authority: bytes
    certificate: bytes
    key: bytes
    insecure: bool


def certificates(extender: Extender) -> Certificates:
    """Return the certificates of an extender's configuration. With HTTPS and no CA, any server is trusted.

    Raises:
        OSError: a file can't be read.
    """
    tls = extender.tls_config or ExtenderTLSConfig()
    return Certificates(
        _data(tls.ca_data, tls.ca_file),
        _data(tls.cert_data, tls.cert_file),
        _data(tls.key_data, tls.key_file),
        tls.insecure or (extender.enable_https and not (tls.ca_data or tls.ca_file)),
    )


def _check_tls(extender: Extender) -> None:
    tls = extender.tls_config or ExtenderTLSConfig()
    if (tls.ca_data or tls.ca_file) and tls.insecure:
        raise ValueError("specifying a root certificates file with the insecure flag is not allowed")
    found = certificates(extender)
    authority, certificate, key = found.authority, found.certificate, found.key
    if authority and not _PEM.search(authority):
        raise ValueError("unable to load root certificates: unable to parse bytes as PEM block")
    if certificate and key:
        _check_block(certificate, "certificate", "CERTIFICATE")
        _check_block(key, "key", "PRIVATE KEY")


def _data(data: bytes | None, file: str) -> bytes:
    return data or (Path(file).read_bytes() if file else b"")


def _check_block(data: bytes, what: str, kind: str) -> None:
    blocks = [found[1].decode() for found in _PEM.finditer(data)]
    if not blocks:
        raise ValueError(f"tls: failed to find any PEM data in {what} input")
    if not any(block.endswith(kind) for block in blocks):
        raise ValueError(
            f'tls: failed to find "{kind}" PEM block in {what} input after skipping PEM blocks of the '
            f"following types: [{' '.join(blocks)}]"
        )
