"""What a client accepts, and how it is encoded (apiserver's `endpoints/handlers/negotiation`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from dra_shared.jsontext import dumps

from dra_apiserver import cbor
from dra_apiserver.errors import StatusError, not_acceptable
from dra_apiserver.protobuf import MEDIA_TYPE, status

#: What answers are written in, as upstream names it.
ANSWERED = ("application/json", "application/yaml", MEDIA_TYPE)
_STREAMED = ("application/json;stream=watch", f"{MEDIA_TYPE};stream=watch")
_YAML = frozenset({"application/yaml"})
_ANY = frozenset({"*/*", "application/*"})
# The parameters that ask for another type than an address has.
_CONVERSION = frozenset({"as", "g", "v"})
_TRANSFORMS = {
    ("Table", "meta.k8s.io"): "Table",
    ("PartialObjectMetadata", "meta.k8s.io"): "PartialObjectMetadata",
    ("PartialObjectMetadataList", "meta.k8s.io"): "PartialObjectMetadata",
}


class Accepted(NamedTuple):
    """What a client's Accept header asks for; `version` is the meta.k8s.io version of a Table or of metadata.

    `listed`: it names a list of metadata.
    """

    yaml: bool = False
    transform: str = ""
    media_type: str = "application/json"
    version: str = "v1"
    protobuf: bool = False
    cbor: bool = False
    listed: bool = False


def answered(with_cbor: bool) -> tuple[str, ...]:
    """What answers are written in, by a server that writes CBOR or does not."""
    return (*ANSWERED, cbor.MEDIA_TYPE) if with_cbor else ANSWERED


def _streamed(with_cbor: bool) -> tuple[str, ...]:
    return (*_STREAMED, cbor.SEQUENCE) if with_cbor else _STREAMED


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The media types with their parameters, the most wanted first (munnerz/goautoneg).

    What a client does not want (``q=0``) only comes last: there is nothing that upstream's library leaves out for that.
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
        # Upstream's order is none: what names a type goes before what names none, whatever the qualities say.
        # So it matters how Go sorts a few: each goes forward as long as it is before its neighbour.
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
    """See that the client takes one of the media types, whatever it wants in it (go-restful's routing).

    ``protobuf``: what is asked for has that form.

    Raises:
        StatusError: 406, it takes none of them.
    """
    named = {clause.partition(";")[0].strip() for clause in accept.split(",")} if accept else {"*/*"}
    if not protobuf:
        named.discard(MEDIA_TYPE)
    if "*/*" not in named and named.isdisjoint(produced):
        raise not_acceptable(_offered(accept, produced))


def _offered(accept: str, produced: Sequence[str]) -> str:
    """The media types that a refusal names: to who asks for protobuf, not that one again."""
    asked = MEDIA_TYPE in accept
    return ", ".join(name for name in produced if not (asked and name.startswith(MEDIA_TYPE)))


def negotiate_document(accept: str, with_cbor: bool = False) -> Accepted:
    """The first of the client's wishes that what has one form alone can meet (`DefaultEndpointRestrictions`).

    Raises:
        StatusError: 406, none can.
    """
    found = next(filter(None, (_served(*clause, with_cbor) for clause in _clauses(accept or "*/*"))), None)
    if found is None:
        raise _only(answered(with_cbor))
    return found


def negotiate_conversion(accept: str, wanted: Mapping[str, str], with_cbor: bool = False) -> Accepted | None:
    """The first wish for a document of another type, which `wanted` names; None where there is none."""
    for media, parameters in _clauses(accept):
        rest = {name: value for name, value in parameters.items() if name not in _CONVERSION}
        asked = {name: value for name, value in parameters.items() if name in _CONVERSION}
        if asked == wanted and (found := _served(media, rest, with_cbor)) is not None:
            return found
    return None


def choose(accept: str, offered: Mapping[str, str]) -> str | None:
    """What is offered under the media type of the first wish that can be met; None where none can."""
    for media, _ in _clauses(accept or "*/*"):
        kind, _, sub = media.partition("/")
        for name, given in offered.items():
            own_kind, _, own_sub = name.partition("/")
            if kind in ("*", own_kind) and sub in ("*", own_sub):
                return given
    return None


def _served(media: str, parameters: Mapping[str, str], with_cbor: bool) -> Accepted | None:
    """What one wish gets of what has one form alone; None where it can't be met."""
    if not _CONVERSION.isdisjoint(parameters) or parameters.get("sv"):
        return None
    stream = parameters.get("stream", "")
    if stream not in {"", "watch"} or (stream and media in _YAML):
        return None
    if media in _ANY:
        return Accepted()
    if media not in answered(with_cbor):
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
    """The first of the client's wishes that can be met, of a single answer, a list or a stream of events.

    ``protobuf``: what is asked for has that form. ``with_cbor``: the server writes CBOR. ``custom``: the objects are
    custom resources; no router looks at requests for them, and their metadata alone has the form of protobuf.

    Raises:
        StatusError: 406, none can.
    """
    if accept in {"", "*/*", "application/json"}:
        return Accepted()
    if not custom:
        produced = answered(with_cbor)
        if listing or streaming:
            produced += _streamed(with_cbor)
        check_produced(accept, produced, protobuf=protobuf)
    wishes = (_granted(*clause, protobuf, with_cbor, custom) for clause in _clauses(accept))
    found = next(filter(None, wishes), None)
    if found is None or (streaming and found.yaml):
        # The media type is right, what is to be in it isn't.
        raise _only(_streamed(with_cbor) if streaming else answered(with_cbor))
    return found


def _granted(
    media: str, parameters: dict[str, str], protobuf: bool, with_cbor: bool, custom: bool
) -> Accepted | None:
    """What one wish gets; None where it can't be met."""
    if parameters.get("stream", "") not in {"", "watch"} or (media in _YAML and parameters.get("stream")):
        return None
    if parameters.get("sv", "") not in {"", "v1"}:
        return None
    version = parameters.get("v", "")
    transform = _TRANSFORMS.get((parameters.get("as", ""), parameters.get("g", "")), "")
    converts = not _CONVERSION.isdisjoint(parameters)
    if converts and (not transform or version not in {"v1", "v1beta1"}):
        return None
    # Upstream has no message for tables.
    packed = media == MEDIA_TYPE and transform != "Table" and (protobuf or (custom and converts))
    binary = with_cbor and media == cbor.MEDIA_TYPE
    if not (media in _YAML or packed or binary or media == "application/json" or media in _ANY):
        return None
    media_type = "application/json" if media in _ANY else media
    listed = parameters.get("as") == "PartialObjectMetadataList"
    return Accepted(media in _YAML, transform, media_type, version or "v1", packed, binary, listed)


def encode_status(document: dict[str, Any], accepted: Accepted) -> bytes:
    """A Status in the form that the client wants."""
    return status(document) if accepted.protobuf else encode(document, accepted)


def encode(document: Any, accepted: Accepted) -> bytes:
    """A document that has no protobuf form in the form that the client wants."""
    if accepted.cbor:
        return cbor.encode(document)
    data = dumps(document)
    return to_yaml(data) if accepted.yaml else data


def to_yaml(data: bytes) -> bytes:
    """JSON as YAML."""
    import yaml

    return yaml.safe_dump(orjson.loads(data), allow_unicode=True).encode()
