"""JSON as Go's encoding/json writes it, and the checksum that the kubelet's checkpoint manager takes of it.

A checkpoint's checksum covers its bytes, which a Go driver encodes again from its structs when it reads the file. To
be valid for both, ours must have the same bytes: struct fields in Go's order, HTML characters escaped.
"""

import functools
import hashlib
from typing import Any

import msgspec
from dra_shared.api.resource import ResourceClaimStatus

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_FNV_PRIME_INVERSE = pow(_FNV_PRIME, -1, 1 << 32)
_MASK = 0xFFFFFFFF
_SEAM = b'"status":'
# Claims on all nodes of a process, each with a few pieces; the pieces themselves would take many times as much memory.
_MOST_MAPS = 1 << 16
_SHORT, _MIDDLE = bytes(range(10)), bytes(range(10, 100))
_maps: dict[tuple[bytes, int], tuple[int, int]] = {}

# Field order of k8s.io/api/resource/v1 (types.go); a name leads to the order inside it.
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
    """``value`` (dicts in the order of their struct, lists, scalars) as compact JSON with Go's escapes."""
    text = msgspec.json.encode(value).decode()
    for character, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"), ("\u2028", "\\u2028")):
        text = text.replace(character, escape)
    return text.replace("\u2029", "\\u2029").encode()


def claim_status(status: ResourceClaimStatus) -> dict[str, Any]:
    """A claim's status as plain data in the order of Go's struct."""
    ordered: dict[str, Any] = _ordered(msgspec.to_builtins(status), _STATUS)
    return ordered


def checksum(data: bytes) -> int:
    """The checksum of a checkpoint's JSON: FNV-1a over how go-spew prints a byte slice.

    One step of FNV-1a changes the hash by an amount that depends on its low byte alone, so a run of bytes is an
    affine map for each low byte that it starts with. Checkpoints repeat their claims from write to write: the
    maps of such pieces are kept.
    """
    value = _plain_fnv(_FNV_OFFSET, b"([]uint8)[")
    pieces = data.split(_SEAM)
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        factor, offset = _affine(piece if last else piece + _SEAM, value & 0xFF)
        value = (value * factor + offset) & _MASK
    # The last number is followed by the bracket, not by the blank that its token carries.
    return _plain_fnv(_without_blank(value) if data else value, b"]")


def _ordered(value: Any, order: dict[str, Any]) -> Any:
    if isinstance(value, list | tuple):
        return [_ordered(item, order) for item in value]
    if not isinstance(value, dict):
        return value
    known = {
        name: _ordered(value[name], inner) if inner else value[name]
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


@functools.cache
def _tokens() -> list[tuple[int, tuple[int, ...]]]:
    """For each byte the factor of its printed number with its blank, and the offset by the low byte it starts with."""
    return [_token(f"{byte} ".encode()) for byte in range(256)]


def _token(text: bytes) -> tuple[int, tuple[int, ...]]:
    factor = pow(_FNV_PRIME, len(text), 1 << 32)
    return factor, tuple((_plain_fnv(low, text) - low * factor) & _MASK for low in range(256))


def _affine(piece: bytes, low: int) -> tuple[int, int]:
    """(factor, offset) such that a hash with that low byte becomes ``hash * factor + offset`` after ``piece``."""
    key = hashlib.blake2b(piece, digest_size=16).digest(), low
    known = _maps.get(key)
    if known is None:
        known = _maps[key] = _computed(piece, low)
        if len(_maps) > _MOST_MAPS:
            del _maps[next(iter(_maps))]
    return known


def _computed(piece: bytes, low: int) -> tuple[int, int]:
    tokens, value = _tokens(), low
    for byte in piece:
        step, offsets = tokens[byte]
        value = (value * step + offsets[value & 0xFF]) & _MASK
    # Each number has a blank, and one, two or three digits.
    printed = (
        2 * len(piece) + len(piece.translate(None, _SHORT)) + len(piece.translate(None, _SHORT + _MIDDLE))
    )
    factor = pow(_FNV_PRIME, printed, 1 << 32)
    return factor, (value - low * factor) & _MASK
