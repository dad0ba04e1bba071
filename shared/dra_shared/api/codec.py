"""Encode and decode typed API objects as JSON."""

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from dra_shared.api.meta import ListMeta, Object, Struct, Unread
from dra_shared.api.resources import Resource

T = TypeVar("T", bound=Object)

_encoder = msgspec.json.Encoder()
_OPAQUE = ("parameters", "data", "fieldsV1")


class ObjectList(Struct, Generic[T]):
    """The response to a list request."""

    items: tuple[T, ...] = ()
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)

    @property
    def resource_version(self) -> str:
        """The revision at which the list was taken. A watch continues from it."""
        return self.metadata.resource_version


@functools.cache
def reader(kind: Any) -> Callable[[bytes], Any]:
    """Return a decoder of JSON as ``kind`` that treats null as absent.

    Go writes an empty list as null if a field lacks ``omitempty``.

    Raises:
        msgspec.DecodeError: (by the decoder) the JSON is malformed, or a field is of another type.
    """
    strict = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> Any:
        try:
            return strict(data)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(msgspec.json.decode(data)), kind)

    return read


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        # Nulls inside opaque parameters and raw extensions are kept, because they have a meaning there.
        return {
            key: item if key in _OPAQUE else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def decode(resource: Resource[T], data: bytes) -> T:
    """Return one object of ``resource`` from its JSON.

    Raises:
        msgspec.DecodeError: the JSON is malformed or a field is of another type.
    """
    if resource.type is Unread:
        return resource.type()
    decoded: T = reader(resource.type)(data)
    return decoded


def decode_list(resource: Resource[T], data: bytes) -> ObjectList[T]:
    """Return a list of objects of ``resource`` from its JSON. Raises the errors of :func:`decode`."""
    decoded: ObjectList[T] = reader(ObjectList[resource.type])(data)  # type: ignore[name-defined]  # known when it runs
    return decoded


def convert(resource: Resource[T], value: Any) -> T:
    """Return the typed form of an object that is already decoded to dicts and lists. Null is treated as absent.

    Raises:
        msgspec.ValidationError: a field is of another type than ``resource`` says.
    """
    try:
        return msgspec.convert(value, resource.type)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(value), resource.type)


def to_builtins(value: Struct) -> Any:
    """Return ``value`` as dicts and lists with the API's field names, for patches and comparisons."""
    return msgspec.to_builtins(value)


def encode(resource: Resource[T], obj: T) -> bytes:
    """Return the JSON of ``obj``, with the ``apiVersion`` and ``kind`` of ``resource``."""
    if obj.kind != resource.kind or obj.api_version != resource.api_version:
        obj = msgspec.structs.replace(obj, api_version=resource.api_version, kind=resource.kind)
    return _encoder.encode(obj)
