"""Test the keys of service accounts' tokens."""

import base64
import hashlib
import json
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from dra_apiserver.serviceaccount import KeyOptions, Keys

_PRIVATE = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
_CASES = [
    (rsa.generate_private_key(65537, 2048), "RS256", "RSA"),
    (ec.generate_private_key(ec.SECP256R1()), "ES256", "EC"),
    (ec.generate_private_key(ec.SECP384R1()), "ES384", "EC"),
    (ec.generate_private_key(ec.SECP521R1()), "ES512", "EC"),
]
_CURVE = ec.generate_private_key(ec.SECP256R1())


def _private(path: Path, *keys: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | dsa.DSAPrivateKey) -> Path:
    path.write_bytes(b"".join(key.private_bytes(*_PRIVATE) for key in keys))
    return path


@pytest.mark.parametrize(("key", "algorithm", "kind"), _CASES, ids=[case[1] for case in _CASES])
def test_a_token_is_signed_as_upstream_signs_it(
    tmp_path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, algorithm: str, kind: str
) -> None:
    keys = Keys(KeyOptions(tmp_path / "unused", _private(tmp_path / "sa.key", key)))
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    named = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")
    signed = keys.sign(b'{"sub":"x"}')
    assert jwt.get_unverified_header(signed) == {"alg": algorithm, "kid": named}
    [published] = [public.jwk() for public in keys.public_keys]
    assert (published["use"], published["kty"], published["kid"], published["alg"]) == (
        "sig",
        kind,
        named,
        algorithm,
    )
    # A relying party only has the published key.
    assert jwt.decode(signed, jwt.PyJWK(published)) == {"sub": "x"}
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize("left", [b"", b"short", bytes(32)])
def test_a_key_file_that_contains_no_key_is_replaced(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "service-account.key"
    path.write_bytes(left)
    path.chmod(0o600)
    Keys(KeyOptions(path)).sign(b"{}")
    assert path.read_bytes().startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_generated_key_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "service-account.key"
    Keys(KeyOptions(path)).sign(b"{}")
    kept = path.read_bytes()
    assert Keys(KeyOptions(path)).public_keys[0].id == Keys(KeyOptions(path)).public_keys[0].id
    assert path.read_bytes() == kept


def test_tokens_of_rotated_keys_are_accepted(tmp_path: Path) -> None:
    old, new = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    public = tmp_path / "sa.pub"
    public.write_bytes(
        b"# what others must not mind\n"
        + old.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        + new.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    before = Keys(KeyOptions(tmp_path / "unused", _private(tmp_path / "old.key", old)))
    after = Keys(KeyOptions(tmp_path / "unused", _private(tmp_path / "new.key", new), (public,)))
    assert [key.id for key in after.public_keys] == [
        before.public_keys[0].id,
        after.by_id[after.public_keys[1].id].id,
    ]
    assert jwt.get_unverified_header(before.sign(b"{}"))["kid"] in after.by_id


def test_files_without_keys_are_refused_in_upstreams_words(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("-----BEGIN PRIVATE KEY-----\nbm8=\n-----END PRIVATE KEY-----\n")
    private = "failed to parse service-account-issuer-key-file: .*valid RSA or ECDSA private key"
    with pytest.raises(ValueError, match=private):
        Keys(KeyOptions(tmp_path / "unused", bad)).load()
    other = _private(tmp_path / "dsa", dsa.generate_private_key(1024))
    with pytest.raises(ValueError, match="valid RSA or ECDSA public keys"):
        Keys(KeyOptions(tmp_path / "unused", verifying=(other,))).load()
    with pytest.raises(FileNotFoundError):
        Keys(KeyOptions(tmp_path / "unused", tmp_path / "missing")).load()


def test_a_published_key_has_upstreams_fields_in_their_order(tmp_path: Path) -> None:
    keys = Keys(KeyOptions(tmp_path / "unused", _private(tmp_path / "sa.key", _CURVE)))
    assert list(json.loads(json.dumps(keys.public_keys[0].jwk()))) == [
        "use",
        "kty",
        "kid",
        "crv",
        "alg",
        "x",
        "y",
    ]
