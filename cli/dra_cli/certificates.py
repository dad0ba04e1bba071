"""The API server's certificate: made at each start, signed by itself, trusted by the kubeconfigs that name it."""

import datetime
import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from dra_shared.files import private_folder

from dra_cli.cluster import replace

_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# Loopback, and the address of the service `kubernetes`.
_ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")
_DAYS = 365


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    def authority(self) -> str:
        """What clients check the server's certificate against, as PEM."""
        return self.certificate.read_text()


def make_certificate(folder: Path, now: datetime.datetime) -> Certificate:
    """A new certificate for this machine, in files below ``folder`` that only their owner reads."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kube-apiserver")])
    names = [x509.DNSName(each) for each in dict.fromkeys((*_NAMES, socket.gethostname().lower()))]
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in _ADDRESSES]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private_folder(folder)
    made = Certificate(folder / "apiserver.crt", folder / "apiserver.key")
    replace(made.certificate, signed.public_bytes(serialization.Encoding.PEM))
    replace(
        made.key,
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    return made
