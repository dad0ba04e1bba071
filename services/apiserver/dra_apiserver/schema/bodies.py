"""Decode regular bodies in one step, including all checks.

Most bodies are compact JSON of exactly their type. msgspec decodes these several times as fast as
:class:`~dra_apiserver.schema.reader.Reader` walks them. All other bodies are left to the reader, which also
reports their problems.
"""

import functools
from typing import Annotated, Any, TypedDict

import msgspec
import orjson

from dra_apiserver.schema.types import ListNode, MapNode, Node, Scalar, Struct
from dra_apiserver.schema.values import READERS, Malformed, WrongType

# Texts in a body for which the reader is used: values that it may drop, with and without a space before them,
# and escapes that change the length of a decoded text.
_DROPPED = (b'""', b"0", b"-0", b"false", b"null")
_ODD = (*(b'":' + value for value in _DROPPED), b"\\u00")
_ODD_SPACED = (*(b'": ' + value for value in _DROPPED), b'":  ')


def plain_object(node: Struct, body: bytes) -> dict[str, Any] | None:
    """Return the object of type ``node`` in ``body``; None if the reader has to decide."""
    decoder = _decoder(node) if node.native else None
    if decoder is None or is_spaced(body) or _has(body, _ODD) or (b'": ' in body and _has(body, _ODD_SPACED)):
        return None
    try:
        value: dict[str, Any] = decoder.decode(body)
        # Compare the number of keys: msgspec drops unknown and repeated keys. Colons after quotes cannot be
        # inside a string, because quotes in strings are escaped.
        whole = body.count(b'":') == orjson.dumps(value).count(b'":')
    except (msgspec.MsgspecError, orjson.JSONEncodeError, Malformed, RecursionError, UnicodeError, WrongType):
        return None
    return value if whole else None


def _has(body: bytes, odd: tuple[bytes, ...]) -> bool:
    for one in odd:  # noqa: SIM110 - a generator costs more than all the searches
        if one in body:
            return True
    return False


def is_spaced(body: bytes) -> bool:
    """True if white space may follow a quote."""
    # Searching for one byte is many times as fast as searching for two.
    return (b" " in body and b'" ' in body) or b"\n" in body or b"\t" in body or b"\r" in body


class _Anything(type):
    """A metaclass that makes every value an instance, so that msgspec accepts any result of a scalar's reader."""

    def __instancecheck__(cls, _: object) -> bool:
        return True


def _scalar(scalar: Scalar) -> Any:
    if scalar is Scalar.STRING:
        return str
    if scalar is Scalar.BOOL:
        return bool
    if scalar is Scalar.ANY:
        return Any
    if scalar in _BITS:
        most = (1 << (_BITS[scalar] - 1)) - 1
        return Annotated[int, msgspec.Meta(ge=-most - 1, le=most)]
    return _Anything(scalar.name, (), {"read": staticmethod(READERS[scalar])})


_BITS = {Scalar.INT32: 32, Scalar.INT64: 64}
_SCALARS = {scalar: _scalar(scalar) for scalar in Scalar}


def _read(kind: Any, value: Any) -> Any:
    return kind.read(value)


class _Unsuitable(Exception):
    """A type that msgspec does not support, because it contains itself."""


# The types of built-in objects are kept forever. There are as many as kinds in their versions.
@functools.cache
def _decoder(node: Struct) -> msgspec.json.Decoder[Any] | None:
    try:
        return msgspec.json.Decoder(_type(node, {}), dec_hook=_read)
    except _Unsuitable:
        return None


def _type(node: Node, known: dict[Struct, Any]) -> Any:
    if isinstance(node, Scalar):
        return _SCALARS[node]
    if isinstance(node, ListNode):
        return list[_type(node.item, known)]  # type: ignore[misc]  # built when it runs
    if isinstance(node, MapNode):
        return dict[str, _type(node.value, known)]  # type: ignore[misc]  # built when it runs
    if node not in known:
        known[node] = None
        members = {name: _type(member.node, known) for name, member in node.fields.items()}
        known[node] = TypedDict("Struct", members, total=False)  # type: ignore[operator]  # built when it runs
    if known[node] is None:
        raise _Unsuitable
    return known[node]
