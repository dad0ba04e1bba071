"""JSON in the form of Go's encoding/json, and the checksum of the kubelet's checkpoint manager.

A checkpoint's checksum covers its bytes, which a Go driver encodes again from its structs when it reads the
file. To be valid for both, our bytes must be the same: struct fields in Go's order, HTML characters escaped.
"""

import functools
import hashlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from dra_shared.api.resource import ResourceClaimStatus

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_FNV_PRIME_INVERSE = pow(_FNV_PRIME, -1, 1 << 32)
_MASK = 0xFFFFFFFF
# Runs of text without digits are cached: they are member names, which all claims share. UIDs and times contain
# digits.
_WORDS = re.compile(rb'("[^0-9]{10,}")')

# Field order of k8s.io/api/resource/v1 (types.go). The value of a name is the order inside it.
_TOLERATION: dict[str, Any] = dict.fromkeys(("key", "operator", "value", "effect", "tolerationSeconds"))
_RESULT: dict[str, Any] = {
    **dict.fromkeys(("request", "driver", "pool", "device", "adminAccess")),
    "tolerations": _TOLERATION,
    **dict.fromkeys(("bindingConditions", "bindingFailureConditions", "shareID", "consumedCapacity")),
}
_CONFIG: dict[str, Any] = {"source": None, "requests": None, "opaque": {"driver": None, "parameters": None}}
_EXPRESSION: dict[str, Any] = dict.fromkeys(("key", "operator", "values"))
_TERM: dict[str, Any] = {"matchExpressions": _EXPRESSION, "matchFields": _EXPRESSION}
_CONDITION: dict[str, Any] = dict.fromkeys(
    ("type", "status", "observedGeneration", "lastTransitionTime", "reason", "message")
)
_STATUS: dict[str, Any] = {
    "allocation": {
        "devices": {"results": _RESULT, "config": _CONFIG},
        "nodeSelector": {"nodeSelectorTerms": _TERM},
        "allocationTimestamp": None,
    },
    "reservedFor": dict.fromkeys(("apiGroup", "resource", "name", "uid")),
    "devices": {
        **dict.fromkeys(("driver", "pool", "device", "shareID")),
        "conditions": _CONDITION,
        "data": None,
        "networkData": dict.fromkeys(("interfaceName", "ips", "hardwareAddress")),
    },
}


def dumps(value: Any) -> bytes:
    """Encode ``value`` (dicts in the order of their struct, lists, scalars) as compact JSON with Go's escapes."""
    text = msgspec.json.encode(value).decode()
    for character, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"), ("\u2028", "\\u2028")):
        text = text.replace(character, escape)
    return text.replace("\u2029", "\\u2029").encode()


def claim_status(status: ResourceClaimStatus) -> dict[str, Any]:
    """Return a claim's status as plain data in the order of Go's struct."""
    ordered: dict[str, Any] = _order(msgspec.to_builtins(status), _STATUS)
    return ordered


class Checksum:
    """The checksum of a checkpoint's JSON: FNV-1a over go-spew's output for a byte slice.

    A checkpoint usually changes by one claim, so successive texts have the same beginning. Texts are passed
    in parts, and unchanged parts at the beginning are not hashed again.
    """

    def __init__(self) -> None:
        # For each part of the last text: its digest, and the hash after it.
        self._known: list[tuple[bytes, int]] = []

    def of(self, parts: Iterable[bytes]) -> int:
        """Return the checksum of the parts' text."""
        known, self._known = iter(self._known), []
        value, same, printed = _START, True, False
        for part in parts:
            digest = hashlib.blake2b(part, digest_size=16).digest()
            before = next(known, None) if same else None
            same = before is not None and before[0] == digest
            value = before[1] if before is not None and same else _hash(value, part)
            printed = printed or bool(part)
            self._known.append((digest, value))
        # The last number is followed by the bracket instead of the space that its token includes.
        return _plain_fnv(_without_blank(value) if printed else value, b"]")


def checksum(data: bytes) -> int:
    """Return the checksum of a whole text."""
    return Checksum().of([data])


def _order(value: Any, order: dict[str, Any]) -> Any:
    if isinstance(value, list | tuple):
        return [_order(item, order) for item in value]
    if not isinstance(value, dict):
        return value
    known = {
        name: _order(value[name], inner) if inner else value[name]
        for name, inner in order.items()
        if name in value
    }
    return known | {name: inner for name, inner in value.items() if name not in order}


def _plain_fnv(value: int, data: bytes) -> int:
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


def _without_blank(value: int) -> int:
    return ((value * _FNV_PRIME_INVERSE) & _MASK) ^ 0x20


_START = _plain_fnv(_FNV_OFFSET, b"([]uint8)[")


@functools.cache
def _tokens() -> list[tuple[int, tuple[int, ...]]]:
    """Return for each byte the factor of its printed number with a space, and the offset by the hash's low byte.

    One step of FNV-1a changes the hash by an amount that depends only on its low byte.
    """
    return [_token(f"{byte} ".encode()) for byte in range(256)]


def _token(text: bytes) -> tuple[int, tuple[int, ...]]:
    factor = pow(_FNV_PRIME, len(text), 1 << 32)
    return factor, tuple((_plain_fnv(low, text) - low * factor) & _MASK for low in range(256))


def _hash(value: int, part: bytes) -> int:
    """Return the hash after the bytes' printed numbers, each followed by a space."""
    for number, piece in enumerate(_WORDS.split(part)):
        if number % 2:
            factor, offset = _of_words(piece, value & 0xFF)
            value = (value * factor + offset) & _MASK
        else:
            value = _bytewise(value, piece)
    return value


@functools.lru_cache(maxsize=1 << 14)
def _of_words(piece: bytes, low: int) -> tuple[int, int]:
    """Return (factor, offset): a hash with that low byte becomes ``hash * factor + offset`` after ``piece``."""
    factor = 1
    for byte in piece:
        factor = (factor * _tokens()[byte][0]) & _MASK
    return factor, (_bytewise(low, piece) - low * factor) & _MASK


def _bytewise(value: int, piece: bytes) -> int:
    for factor, offsets in map(_tokens().__getitem__, piece):
        value = (value * factor + offsets[value & 0xFF]) & _MASK
    return value
