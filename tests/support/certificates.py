"""Certificates for tests that speak TLS."""

import datetime
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


class Party:
    """A certificate and its key, signed by ``issuer`` or by itself. ``more`` precedes the name in its subject."""

    def __init__(
        self,
        name: str,
        issuer: "Party | None" = None,
        address: str | None = None,
        more: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        attributes = [*more, *([(x509.NameOID.COMMON_NAME.dotted_string, name)] if name else ())]
        self.name = x509.Name(
            [x509.NameAttribute(x509.ObjectIdentifier(oid), value) for oid, value in attributes]
        )
        signer = issuer or self
        names: list[x509.GeneralName] = [x509.DNSName(name or "nameless")]
        if address is not None:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        builder = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(signer.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_FROM)
            .not_valid_after(_UNTIL)
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()), critical=False
            )
        )
        if issuer is None:
            usage = x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            )
            builder = builder.add_extension(usage, critical=True)
        else:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self.certificate = builder.sign(signer.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        """Return the certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """Return the key."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
