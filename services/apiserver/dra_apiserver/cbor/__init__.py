"""Objects in CBOR (RFC 8949), compatible with apimachinery's ``runtime/serializer/cbor``.

Requires the gate ``CBORServingAndStorage``. The storage format is still JSON.
"""

from dra_apiserver.cbor.encoder import SELF_DESCRIBED, encode, event
from dra_apiserver.cbor.errors import CborError, IllFormed
from dra_apiserver.cbor.marks import mark
from dra_apiserver.cbor.reader import decode

GATE = "CBORServingAndStorage"
MEDIA_TYPE = "application/cbor"
SEQUENCE = "application/cbor-seq"

__all__ = [
    "GATE",
    "MEDIA_TYPE",
    "SELF_DESCRIBED",
    "SEQUENCE",
    "CborError",
    "IllFormed",
    "decode",
    "encode",
    "event",
    "mark",
]
