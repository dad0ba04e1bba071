"""Short hashes of pod templates, for labels and names.

Mirrors ``ComputeHash`` in pkg/controller/controller_utils.go and ``HashControllerRevision`` in
pkg/controller/history/controller_history.go.
"""

from typing import Any

import msgspec
import orjson
from dra_shared.api.codec import to_builtins
from dra_shared.api.meta import Struct

# k8s.io/apimachinery/pkg/util/rand: without vowels and similar digits, so that hashes contain no words.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Struct, collisions: int | None) -> str:
    """Return the value of a ``pod-template-hash`` label.

    Upstream hashes a dump of the template that only Go can make, so its values differ. Nothing compares
    them, because an existing ReplicaSet is recognised by its template.
    """
    data = orjson.dumps(to_builtins(template), option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe_encode(str(_fnv32a(data)))


def revision_hash(data: Any, collisions: int) -> str:
    """Return the hash of a StatefulSet's revision. It equals upstream's: the data is encoded as Go does."""
    text = msgspec.json.encode(data, order="sorted")
    for character in b"<>&":
        text = text.replace(bytes((character,)), b"\\u%04x" % character)
    return safe_encode(str(_fnv32(text + str(collisions).encode())))


def safe_encode(text: str) -> str:
    """Return ``text`` in letters and digits that form no words."""
    return "".join(_SAFE[ord(character) % len(_SAFE)] for character in text)


def _fnv32(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return value


def _fnv32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
