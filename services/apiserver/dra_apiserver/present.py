"""How stored objects look to a client: its version, as objects, Tables or metadata only, in JSON or YAML."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from dra_shared.clock import Clock

from dra_apiserver.conversion import convert
from dra_apiserver.errors import StatusError, bad_request, invalid, not_acceptable
from dra_apiserver.registry import KindInfo
from dra_apiserver.storage import Record

JsonObject = dict[str, Any]

_AVAILABLE = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_YAML = frozenset({"application/yaml"})
_TRANSFORMS = {
    ("Table", "meta.k8s.io"): "Table",
    ("PartialObjectMetadata", "meta.k8s.io"): "PartialObjectMetadata",
    ("PartialObjectMetadataList", "meta.k8s.io"): "PartialObjectMetadata",
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a client's Accept header asks for; `version` is the meta.k8s.io version of a Table or of metadata."""

    yaml: bool = False
    transform: str = ""
    media_type: str = "application/json"
    version: str = "v1"


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The media types with their parameters, the most wanted first."""
    found = []
    for clause in accept.split(","):
        media, *rest = [part.strip() for part in clause.split(";")]
        parameters = dict(part.partition("=")[::2] for part in rest)
        try:
            quality = float(parameters.get("q", 1))
        except ValueError:
            quality = 1.0
        found.append((quality, media, parameters))
    found.sort(key=lambda one: -one[0])
    return [(media, parameters) for _, media, parameters in found]


@functools.lru_cache(maxsize=512)
def negotiate(accept: str) -> Accepted:
    """The first of the client's wishes that can be met.

    Raises:
        StatusError: 406, none can.
    """
    if accept in {"", "*/*", "application/json"}:
        return Accepted()
    known = False
    for media, parameters in _clauses(accept):
        if media in {"application/json", "*/*"}:
            yaml = False
        elif media in _YAML:
            yaml = True
        else:
            known = known or media == "application/vnd.kubernetes.protobuf"
            continue
        known = True
        kind, version = parameters.get("as", ""), parameters.get("v", "")
        transform = _TRANSFORMS.get((kind, parameters.get("g", "")), "")
        if kind and (not transform or version not in {"v1", "v1beta1"}):
            continue
        media_type = "application/yaml" if yaml else "application/json"
        return Accepted(yaml, transform, media_type, version if kind else "v1")
    if known:
        # The media type is right, what is to be in it isn't.
        text = f"only the following media types are accepted: {_AVAILABLE}"
        raise StatusError(406, "NotAcceptable", text)
    raise not_acceptable(_AVAILABLE)


def canonical(obj: JsonObject) -> JsonObject:
    """The object with kind, apiVersion and metadata first, as every stored object has them."""
    head = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": obj["metadata"]}
    head.update((key, value) for key, value in obj.items() if key not in head)
    return head


def encode(document: Any, accepted: Accepted) -> bytes:
    """A document in the form that the client wants."""
    data = orjson.dumps(document)
    return to_yaml(data) if accepted.yaml else data


def to_yaml(data: bytes) -> bytes:
    """JSON as YAML."""
    import yaml

    return yaml.safe_dump(orjson.loads(data), allow_unicode=True).encode()


class Presenter:
    """Renders one kind in one version for one kind of wish; cheap where the stored bytes already are the answer."""

    def __init__(
        self, kind: KindInfo, version: str, accepted: Accepted, include_object: str, clock: Clock
    ) -> None:
        self.kind = kind
        self.version = version
        self.accepted = accepted
        self.include_object = include_object or "Metadata"
        if self.include_object not in {"None", "Metadata", "Object"}:
            wanted = "must be 'Metadata', 'Object', 'None', or empty"
            problem = invalid("includeObject", include_object, wanted)
            raise bad_request(f"Unable to convert to Table as requested: {problem}")
        self._clock = clock
        self._same = kind.storage == (kind.group, kind.plural) and version == kind.storage_version
        head = f'{{"kind":"{kind.kind}","apiVersion":"{kind.storage_api_version}",'
        self._skip = len(head)
        self.key = (version, kind.group, accepted, self.include_object)
        self.plain = self._same and not accepted.transform

    def decoded(self, data: bytes) -> JsonObject:
        """A stored object in the client's version."""
        obj: JsonObject = orjson.loads(data)
        return obj if self._same else convert(self.kind, obj, self.version)

    def json(self, data: bytes) -> bytes:
        """A stored object's JSON for the client."""
        if self.plain:
            return data
        obj = self.decoded(data)
        if not self.accepted.transform:
            return orjson.dumps(canonical(obj))
        if self.accepted.transform == "Table":
            return orjson.dumps(
                self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
            )
        from dra_apiserver.tables import partial_metadata

        return orjson.dumps(self._versioned(partial_metadata(obj)))

    def one(self, data: bytes) -> bytes:
        """The body that answers a request for one object."""
        shown = self.json(data)
        return to_yaml(shown) if self.accepted.yaml else shown

    def _table(self, items: list[JsonObject], metadata: JsonObject, headers: bool = True) -> JsonObject:
        from dra_apiserver.tables import table

        made = table(
            self.kind,
            self.version,
            items,
            metadata=metadata,
            include_object=self.include_object,
            now=self._clock.now(),
            headers=headers,
        )
        if self.include_object == "Metadata":
            for row in made.get("rows") or ():
                self._versioned(row["object"])
        return self._versioned(made)

    def _versioned(self, shown: JsonObject) -> JsonObject:
        if self.accepted.version != "v1":
            shown["apiVersion"] = f"meta.k8s.io/{self.accepted.version}"
        return shown

    def page(self, records: Sequence[Record]) -> bytes:
        """The end of a plain list's body: its items."""
        if not records:
            return b',"items":[]}'
        skip = self._skip
        parts = [record.data[skip:] for record in records]
        parts[0] = b',"items":[{' + parts[0]
        parts[-1] += b"]}"
        return b",{".join(parts)

    def listing(self, records: Sequence[Record], metadata: JsonObject, page: bytes | None = None) -> bytes:
        """The body that answers a list; `page`, where it is known already, is what `page` makes of the records."""
        if self.plain:
            # As upstream's typed lists, items don't repeat kind and apiVersion.
            head = orjson.dumps(
                {
                    "kind": self.kind.list_kind,
                    "apiVersion": self.kind.storage_api_version,
                    "metadata": metadata,
                }
            )
            body = b"".join((head[:-1], page if page is not None else self.page(records)))
            return to_yaml(body) if self.accepted.yaml else body
        objects = [self.decoded(record.data) for record in records]
        if self.accepted.transform == "Table":
            return encode(self._table(objects, metadata), self.accepted)
        if self.accepted.transform:
            from dra_apiserver.tables import partial_metadata_list

            listed = partial_metadata_list(objects, metadata)
            for item in listed["items"]:
                if "apiVersion" in item:
                    self._versioned(item)
            return encode(self._versioned(listed), self.accepted)
        items_ = [
            {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}} for obj in objects
        ]
        document = {
            "kind": self.kind.list_kind,
            "apiVersion": self.kind.api_version(self.version),
            "metadata": metadata,
            "items": items_,
        }
        return encode(document, self.accepted)

    def event(self, type: str, data: bytes) -> bytes:
        """One line of a watch."""
        shown = self.json(data)
        return b"".join((b'{"type":"', type.encode(), b'","object":', shown, b"}\n"))

    def bookmark(self, revision: int, initial_end: bool = False) -> bytes:
        """The line that tells a watcher how far it has come."""
        metadata: JsonObject = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: JsonObject
        match self.accepted.transform:
            case "Table":
                obj = self._table([], {"resourceVersion": str(revision)}, headers=False)
                if initial_end:
                    obj["rows"] = []
            case "PartialObjectMetadata":
                obj = {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": f"meta.k8s.io/{self.accepted.version}",
                    "metadata": metadata,
                }
            case _:
                obj = {
                    "kind": self.kind.kind,
                    "apiVersion": self.kind.api_version(self.version),
                    "metadata": metadata,
                }
        return orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n"
