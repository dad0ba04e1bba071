"""Select the encoding of a response that the client accepts (apiserver's `endpoints/handlers/negotiation`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from dra_shared.jsontext import dumps

from dra_apiserver import cbor
from dra_apiserver.errors import StatusError, not_acceptable
from dra_apiserver.protobuf import MEDIA_TYPE, status

#: The media types of responses, as upstream names them.
ANSWERED = ("application/json", "application/yaml", MEDIA_TYPE)
_STREAMED = ("application/json;stream=watch", f"{MEDIA_TYPE};stream=watch")
_YAML = frozenset({"application/yaml"})
_ANY = frozenset({"*/*", "application/*"})
# The parameters of a media type with which a client requests another kind, such as a Table.
_CONVERSION = frozenset({"as", "g", "v"})
_TRANSFORMS = {
    ("Table", "meta.k8s.io"): "Table",
    ("PartialObjectMetadata", "meta.k8s.io"): "PartialObjectMetadata",
    ("PartialObjectMetadataList", "meta.k8s.io"): "PartialObjectMetadata",
}


class Accepted(NamedTuple):
    """The parsed Accept header. `version` is the meta.k8s.io version of a Table or of metadata.

    `listed`: the client asks for PartialObjectMetadataList.
    """

    yaml: bool = False
    transform: str = ""
    media_type: str = "application/json"
    version: str = "v1"
    protobuf: bool = False
    cbor: bool = False
    listed: bool = False


def response_types(with_cbor: bool) -> tuple[str, ...]:
    """Return the media types of responses, of a server with or without CBOR."""
    return (*ANSWERED, cbor.MEDIA_TYPE) if with_cbor else ANSWERED


def _stream_types(with_cbor: bool) -> tuple[str, ...]:
    return (*_STREAMED, cbor.SEQUENCE) if with_cbor else _STREAMED


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types with their parameters, the most preferred first (munnerz/goautoneg).

    A media type with ``q=0`` is placed last but not excluded, as in upstream's library.
    """
    found: list[tuple[float, str, dict[str, str]]] = []
    for clause in accept.split(","):
        media, *rest = clause.strip(" ").split(";")
        kind, _, sub = (part.strip(" ") for part in media.partition("/"))
        if not (sub or kind == "*") or "/" in sub:
            continue
        quality, parameters = 1.0, {}
        for part in rest:
            name, _, value = part.partition("=")
            if not value or "=" in value:
                continue
            if name.strip(" ") == "q":
                quality = _quality(value)
            else:
                parameters[name.strip(" ")] = value.strip(" ")
        wanted = (quality, f"{kind}/{sub or '*'}", parameters)
        # Upstream's order is not transitive: clauses with a type precede those without, regardless of
        # quality. So Go's insertion sort for few items is reproduced: each item moves forward while it
        # precedes its neighbour.
        place = len(found)
        while place and _is_before(wanted, found[place - 1]):
            place -= 1
        found.insert(place, wanted)
    return [(media, parameters) for _, media, parameters in found]


def _quality(text: str) -> float:
    try:
        return float(text) if text.strip() == text else 0.0
    except ValueError:
        return 0.0


def _is_before(one: tuple[float, str, Any], other: tuple[float, str, Any]) -> bool:
    if one[0] > other[0]:
        return True
    (kind, _, sub), (its_kind, _, its_sub) = one[1].partition("/"), other[1].partition("/")
    return (kind != "*" and its_kind == "*") or (sub != "*" and its_sub == "*")


def check_produced(accept: str, produced: Sequence[str] = ANSWERED, *, protobuf: bool = False) -> None:
    """Check that the client accepts one of the media types, ignoring their parameters (go-restful's routing).

    ``protobuf``: the requested object has a protobuf form.

    Raises:
        StatusError: 406, it accepts none of them.
    """
    named = {clause.partition(";")[0].strip() for clause in accept.split(",")} if accept else {"*/*"}
    if not protobuf:
        named.discard(MEDIA_TYPE)
    if "*/*" not in named and named.isdisjoint(produced):
        raise not_acceptable(_list_offered(accept, produced))


def _list_offered(accept: str, produced: Sequence[str]) -> str:
    """Return the media types for an error. If the client asked for protobuf, it is left out of the list."""
    asked = MEDIA_TYPE in accept
    return ", ".join(name for name in produced if not (asked and name.startswith(MEDIA_TYPE)))


def negotiate_document(accept: str, with_cbor: bool = False) -> Accepted:
    """Return the first acceptable clause for a document with a single form (`DefaultEndpointRestrictions`).

    Raises:
        StatusError: 406, there is none.
    """
    found = next(
        filter(None, (_accept_document(*clause, with_cbor) for clause in _clauses(accept or "*/*"))), None
    )
    if found is None:
        raise _only(response_types(with_cbor))
    return found


def negotiate_conversion(accept: str, wanted: Mapping[str, str], with_cbor: bool = False) -> Accepted | None:
    """Return the first clause that asks for a document of the type ``wanted``, or None."""
    for media, parameters in _clauses(accept):
        rest = {name: value for name, value in parameters.items() if name not in _CONVERSION}
        asked = {name: value for name, value in parameters.items() if name in _CONVERSION}
        if asked == wanted and (found := _accept_document(media, rest, with_cbor)) is not None:
            return found
    return None


def choose(accept: str, offered: Mapping[str, str]) -> str | None:
    """Return the offered value for the media type of the first clause that matches one, or None."""
    for media, _ in _clauses(accept or "*/*"):
        kind, _, sub = media.partition("/")
        for name, given in offered.items():
            own_kind, _, own_sub = name.partition("/")
            if kind in ("*", own_kind) and sub in ("*", own_sub):
                return given
    return None


def _accept_document(media: str, parameters: Mapping[str, str], with_cbor: bool) -> Accepted | None:
    """Return the accepted form of a document with a single form for one clause; None if there is none."""
    if not _CONVERSION.isdisjoint(parameters) or parameters.get("sv"):
        return None
    stream = parameters.get("stream", "")
    if stream not in {"", "watch"} or (stream and media in _YAML):
        return None
    if media in _ANY:
        return Accepted()
    if media not in response_types(with_cbor):
        return None
    return Accepted(
        yaml=media in _YAML, media_type=media, protobuf=media == MEDIA_TYPE, cbor=media == cbor.MEDIA_TYPE
    )


def _only(offered: Sequence[str]) -> StatusError:
    text = f"only the following media types are accepted: {', '.join(offered)}"
    return StatusError(406, "NotAcceptable", text)


@functools.lru_cache(maxsize=512)
def negotiate(
    accept: str,
    listing: bool = False,
    streaming: bool = False,
    protobuf: bool = False,
    with_cbor: bool = False,
    custom: bool = False,
) -> Accepted:
    """Return the first acceptable clause for an object, a list or a stream of events.

    ``protobuf``: the requested object has a protobuf form. ``with_cbor``: the server supports CBOR.
    ``custom``: the objects are custom resources. No router checks requests for these, and only their metadata
    has a protobuf form.

    Raises:
        StatusError: 406, there is none.
    """
    if accept in {"", "*/*", "application/json"}:
        return Accepted()
    if not custom:
        produced = response_types(with_cbor)
        if listing or streaming:
            produced += _stream_types(with_cbor)
        check_produced(accept, produced, protobuf=protobuf)
    wishes = (_accept_object(*clause, protobuf, with_cbor, custom) for clause in _clauses(accept))
    found = next(filter(None, wishes), None)
    if found is None or (streaming and found.yaml):
        # The media type is acceptable, but its parameters are not.
        raise _only(_stream_types(with_cbor) if streaming else response_types(with_cbor))
    return found


def _accept_object(
    media: str, parameters: dict[str, str], protobuf: bool, with_cbor: bool, custom: bool
) -> Accepted | None:
    """Return the accepted form for one clause of the Accept header; None if the clause is not acceptable."""
    if parameters.get("stream", "") not in {"", "watch"} or (media in _YAML and parameters.get("stream")):
        return None
    if parameters.get("sv", "") not in {"", "v1"}:
        return None
    version = parameters.get("v", "")
    transform = _TRANSFORMS.get((parameters.get("as", ""), parameters.get("g", "")), "")
    converts = not _CONVERSION.isdisjoint(parameters)
    if converts and (not transform or version not in {"v1", "v1beta1"}):
        return None
    # Upstream has no protobuf message for tables.
    packed = media == MEDIA_TYPE and transform != "Table" and (protobuf or (custom and converts))
    binary = with_cbor and media == cbor.MEDIA_TYPE
    if not (media in _YAML or packed or binary or media == "application/json" or media in _ANY):
        return None
    media_type = "application/json" if media in _ANY else media
    listed = parameters.get("as") == "PartialObjectMetadataList"
    return Accepted(media in _YAML, transform, media_type, version or "v1", packed, binary, listed)


def encode_status(document: dict[str, Any], accepted: Accepted) -> bytes:
    """Encode a Status as the client accepts it."""
    return status(document) if accepted.protobuf else encode(document, accepted)


def encode(document: Any, accepted: Accepted) -> bytes:
    """Encode a document without protobuf form as the client accepts it."""
    if accepted.cbor:
        return cbor.encode(document)
    data = dumps(document)
    return to_yaml(data) if accepted.yaml else data


def to_yaml(data: bytes) -> bytes:
    """Convert JSON to YAML."""
    import yaml

    return yaml.safe_dump(orjson.loads(data), allow_unicode=True).encode()
