"""A cluster's certificate authority and the certificates that it signs, in files named as in kubeadm's
`/etc/kubernetes/pki`.
"""

import contextlib
import datetime
import ipaddress
import socket
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dra_kube.cluster import replace
from dra_shared.errors import UserError
from dra_shared.files import private_folder

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
# Loopback, and the cluster IP of the Service `kubernetes`.
_ADDRESSES = ("127.0.0.1", "::1", "10.96.0.1")
_DAYS = 365
_AUTHORITY_DAYS = 3650
_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, file: Path) -> tuple[Path, Path]:
        """Write ``file.crt`` and ``file.key``, which only their owner can read. Return the two paths."""
        private_folder(file.parent)
        written = file.with_name(f"{file.name}.crt"), file.with_name(f"{file.name}.key")
        # Write the key first. A server that reads the files in between sees that they do not match, and waits.
        replace(written[1], self.key)
        replace(written[0], self.certificate)
        return written


class Authority:
    """Signs certificates of servers and users."""

    def __init__(
        self, certificate: "x509.Certificate", key: "CertificateIssuerPrivateKeyTypes", now: datetime.datetime
    ) -> None:
        self._certificate, self._key, self._now = certificate, key, now

    @classmethod
    def load_or_create(cls, folder: Path, now: datetime.datetime) -> "Authority":
        """Return the certificate authority in ``ca.crt`` and ``ca.key`` of the folder. Create it if both are missing.

        Raises:
            UserError: the files cannot be used.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        files = folder / "ca.crt", folder / "ca.key"
        try:
            if not files[0].exists() and not files[1].exists():
                _new_authority(now).write(folder / "ca")
            certificate = x509.load_pem_x509_certificate(files[0].read_bytes())
            key = load_pem_private_key(files[1].read_bytes(), None)
        except OSError as error:
            raise UserError(f"cannot use {folder}: {error.strerror}") from error
        except (ValueError, TypeError) as error:
            raise UserError(f"cannot use the certificate authority in {folder}: {error}") from error
        if certificate.public_key() != key.public_key():
            raise UserError(f"{files[1]} is not the key of {files[0]}")
        if certificate.not_valid_after_utc < now:
            raise UserError(f"{files[0]} has expired: remove it and its key to have new ones")
        return cls(certificate, key, now)  # type: ignore[arg-type]  # of the kinds of keys, those that agree cannot sign

    @property
    def pem(self) -> str:
        """The authority's certificate, as PEM, with which servers and clients verify certificates."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._certificate.public_bytes(Encoding.PEM).decode()

    def user(self, name: str, groups: Sequence[str] = ()) -> Certificate:
        """Issue a client certificate for a user in groups, in the form that the API server reads."""
        from cryptography.x509.oid import ExtendedKeyUsageOID

        return self._issue(name, groups, ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def server(self, name: str, hosts: Sequence[str] = ()) -> Certificate:
        """Issue a certificate for a server on this machine, with these additional names and addresses."""
        from cryptography.x509.oid import ExtendedKeyUsageOID

        known = (*_NAMES, socket.gethostname().lower(), *_ADDRESSES, *hosts)
        return self._issue(name, (), ExtendedKeyUsageOID.SERVER_AUTH, known)

    def _issue(
        self, name: str, groups: Sequence[str], usage: "x509.ObjectIdentifier", hosts: Sequence[str]
    ) -> Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        until = min(self._now + datetime.timedelta(days=_DAYS), self._certificate.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_subject(name, groups))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _SKEW)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        with contextlib.suppress(x509.ExtensionNotFound):
            known = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known)
            builder = builder.add_extension(issuer, critical=False)
        if hosts:
            names = [_host(each) for each in dict.fromkeys(hosts)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256()), key)


def service_account_keys(folder: Path) -> tuple[bytes, bytes]:
    """Return the key pair of service accounts' tokens. It is stored as ``sa.key`` and ``sa.pub``, as by kubeadm.

    Raises:
        UserError: the file cannot be used.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    file = folder / "sa.key"
    if not file.exists():
        private_folder(folder)
        replace(file, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    try:
        private = file.read_bytes()
        public = load_pem_private_key(private, None).public_key()
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"cannot use the key of service accounts in {folder}: {error}") from error
    return private, public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _new_authority(now: datetime.datetime) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("kubernetes", ())
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=_AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(signed, key)


def _subject(name: str, groups: Sequence[str]) -> "x509.Name":
    from cryptography import x509

    # X.520 allows 64 characters; Go's x509 does not count them, and a node's name alone may have 253.
    texts = [(x509.NameOID.ORGANIZATION_NAME, group) for group in groups]
    texts.append((x509.NameOID.COMMON_NAME, name))
    with warnings.catch_warnings(category=UserWarning, action="ignore"):
        return x509.Name([x509.NameAttribute(kind, text, _validate=False) for kind, text in texts])


def _usage(*, signs: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> "x509.GeneralName":
    from cryptography import x509

    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(text))
    return x509.DNSName(text)


def _pem(certificate: "x509.Certificate", key: "CertificateIssuerPrivateKeyTypes") -> Certificate:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Certificate(certificate.public_bytes(Encoding.PEM), _key_pem(key))


def _key_pem(key: "CertificateIssuerPrivateKeyTypes") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
