"""An SSH key pair on the curve P-521, as the operator makes one for each job.

Only pods of the job use it. No library for it is among the controllers' dependencies.
"""

import base64
import secrets

_P = 2**521 - 1
_N = int(
    "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8"
    "899c47aebb6fb71e91386409",
    16,
)
_G = (
    int(
        "00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1"
        "856a429bf97e7e31c2e5bd66",
        16,
    ),
    int(
        "011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086"
        "a272c24088be94769fd16650",
        16,
    ),
)
_SIZE = 66
_CURVE = b"nistp521"
_OID = bytes.fromhex("06052b81040023")

_Point = tuple[int, int] | None


def create_key_pair() -> tuple[bytes, bytes]:
    """Return the private key as PEM, and the public key as a line of ``authorized_keys``."""
    secret = secrets.randbelow(_N - 1) + 1
    point = _multiply(secret, _G)
    assert point is not None
    public = b"\4" + point[0].to_bytes(_SIZE, "big") + point[1].to_bytes(_SIZE, "big")
    return _private_pem(secret, public), _public_line(public)


def _add(first: _Point, second: _Point) -> _Point:
    if first is None or second is None:
        return first if second is None else second
    if first[0] == second[0]:
        if (first[1] + second[1]) % _P == 0:
            return None
        slope = (3 * first[0] ** 2 - 3) * pow(2 * first[1], -1, _P)
    else:
        slope = (second[1] - first[1]) * pow(second[0] - first[0], -1, _P)
    x = (slope**2 - first[0] - second[0]) % _P
    return x, (slope * (first[0] - x) - first[1]) % _P


def _multiply(factor: int, point: _Point) -> _Point:
    total: _Point = None
    while factor:
        if factor & 1:
            total = _add(total, point)
        point = _add(point, point)
        factor >>= 1
    return total


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = (
        bytes((size,))
        if size < 128
        else bytes((0x81, size))
        if size < 256
        else b"\x82" + size.to_bytes(2, "big")
    )
    return bytes((tag,)) + length + content


def _private_pem(secret: int, public: bytes) -> bytes:
    """Return the key in the form of RFC 5915."""
    parts = _der(2, b"\1") + _der(4, secret.to_bytes(_SIZE, "big"))
    parts += _der(0xA0, _OID) + _der(0xA1, _der(3, b"\0" + public))
    text = base64.b64encode(_der(0x30, parts)).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""]).encode()


def _public_line(public: bytes) -> bytes:
    kind = b"ecdsa-sha2-" + _CURVE
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, _CURVE, public))
    return kind + b" " + base64.b64encode(blob) + b"\n"
