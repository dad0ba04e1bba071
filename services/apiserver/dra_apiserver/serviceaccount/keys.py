"""The keys that sign service accounts' tokens and verify them (upstream's pkg/serviceaccount/jwt.go, keyutil)."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dra_shared.files import private_folder

if TYPE_CHECKING:
    # Imported where they are used, so that a server that issues no tokens starts faster.
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    Private = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    Public = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_BEGIN = b"-----BEGIN "
# The members of a JSON Web Key, in the order of upstream's encoder.
_JWK_FIELDS = ("use", "kty", "kid", "crv", "alg", "x", "y", "n", "e")


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """Key files: the key in ``signing`` signs tokens, the keys in ``verifying`` also verify them.

    Without ``signing``, a key is generated and stored in the file ``made``.
    """

    made: Path
    signing: Path | None = None
    verifying: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies tokens. ``id`` is its name in a token's header."""

    id: str
    algorithm: str
    key: Public

    def jwk(self) -> dict[str, str]:
        """Return the key as a JSON Web Key."""
        from jwt.api_jws import PyJWS

        made = PyJWS().get_algorithm_by_name(self.algorithm).to_jwk(self.key, as_dict=True)
        known = {**made, "use": "sig", "kid": self.id, "alg": self.algorithm}
        return {name: known[name] for name in _JWK_FIELDS if name in known}


class Keys:
    """Signs with one key, and verifies with that and others. All are loaded on first use, or by :meth:`load`."""

    def __init__(self, options: KeyOptions) -> None:
        self._options = options

    def load(self) -> None:
        """Load the files in the options.

        Raises:
            OSError: a file can't be read.
            ValueError: a file has no key of a kind that upstream supports. The message is upstream's.
        """
        if self._options.signing is not None:
            self._signing_key  # noqa: B018  # reads the file
        for path in self._options.verifying:
            list(_public_keys(path))

    def sign(self, payload: bytes) -> str:
        """Return the payload as a JSON Web Token in its compact form."""
        from jwt.api_jws import PyJWS

        private, public = self._signing_key
        # As go-jose does, the header only contains the key's ID and algorithm.
        headers = {"typ": None, "kid": public.id}
        return PyJWS().encode(payload, private, public.algorithm, headers)

    @cached_property
    def public_keys(self) -> tuple[PublicKey, ...]:
        """The keys that verify tokens, each once: those of the files in order, and the signing key's public half."""
        found = [key for path in self._options.verifying for key in _public_keys(path)]
        return tuple({key.id: key for key in (*found, self._signing_key[1])}.values())

    @cached_property
    def by_id(self) -> dict[str, PublicKey]:
        """The public keys by id."""
        return {key.id: key for key in self.public_keys}

    @cached_property
    def _signing_key(self) -> tuple[Private, PublicKey]:
        private = _private_key(self._options.signing) if self._options.signing is not None else self._own()
        return private, _create_public_key(private.public_key())

    def _own(self) -> Private:
        path = self._options.made
        # A file that was cut short by a full disk, or written by an older server, has no key.
        if path.exists() and path.read_bytes().startswith(_BEGIN):
            return _private_key(path)
        return _make(path)


def _make(path: Path) -> Private:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    made = ec.generate_private_key(ec.SECP256R1())
    private_folder(path.parent)
    part = path.with_name(path.name + ".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(made.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    part.replace(path)
    return made


def _private_key(path: Path) -> Private:
    """Load a private key.

    Raises:
        OSError: the file can't be read.
        ValueError: it has no private key.
    """
    for key in _load_keys(path):
        if hasattr(key, "private_bytes"):
            private: Private = key
            return private
    raise ValueError(
        f"failed to parse service-account-issuer-key-file: error reading private key file {path}: "
        "data does not contain a valid RSA or ECDSA private key"
    )


def _public_keys(path: Path) -> Iterator[PublicKey]:
    """Load public keys.

    Raises:
        OSError: the file can't be read.
        ValueError: it has no key.
    """
    found = [
        _create_public_key(key.public_key() if hasattr(key, "private_bytes") else key)
        for key in _load_keys(path)
    ]
    if not found:
        raise ValueError(
            f"error reading public key file {path}: data does not contain any valid RSA or ECDSA public keys"
        )
    yield from found


def _load_keys(path: Path) -> Iterator[Any]:
    """Yield the RSA and ECDSA keys in a PEM file: private, public or of certificates. Other content is ignored."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate

    kinds = (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey, rsa.RSAPrivateKey, rsa.RSAPublicKey)
    for block in _blocks(path.read_bytes()):
        try:
            if b"PRIVATE KEY" in block:
                key: Any = load_pem_private_key(block, None)
            elif b"CERTIFICATE" in block:
                key = load_pem_x509_certificate(block).public_key()
            else:
                key = load_pem_public_key(block)
        except (ValueError, TypeError):
            continue
        if isinstance(key, kinds) and (not hasattr(key, "curve") or key.curve.name in _CURVES):
            yield key


def _blocks(text: bytes) -> Iterator[bytes]:
    for block in text.split(_BEGIN)[1:]:
        yield _BEGIN + block


def _create_public_key(key: Public) -> PublicKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    named = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    curve = getattr(key, "curve", None)
    return PublicKey(named, "RS256" if curve is None else _CURVES[curve.name], key)
