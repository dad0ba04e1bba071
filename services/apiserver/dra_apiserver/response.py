"""How stored objects look to a client (apiserver's `endpoints/handlers/response.go`).

In its version; as objects, Tables or metadata only; in JSON, YAML, protobuf or CBOR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
from dra_shared.clock import Clock
from dra_shared.jsontext import dumps

from dra_apiserver import cbor, protobuf
from dra_apiserver.conversion import convert
from dra_apiserver.errors import StatusError, bad_request, invalid
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.negotiation import Accepted, to_yaml
from dra_apiserver.schema.packages import internal_package, package_name
from dra_apiserver.storage import Record
from dra_apiserver.storage.records import canonical

JsonObject = dict[str, Any]

# Objects that are encoded at once.
_PART = 200


def _untyped(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}}


def _joined(document: JsonObject, key: str, parts: Iterable[list[JsonObject]]) -> bytes:
    """A list's JSON, part by part: while one is encoded, no other thread runs."""
    head = dumps({name: value for name, value in document.items() if name != key})
    items = b",".join(dumps(part)[1:-1] for part in parts if part)
    return b'%b,"%b":[%b]}' % (head[:-1], key.encode(), items)


def message_name(kind: Kind, version: str) -> str:
    """The protobuf message of a kind's objects; empty where there is none, as of custom resources."""
    name = f"{package_name(kind.group, version)}.{kind.kind}"
    packed = kind.types.has_messages if kind.types.schemas else protobuf.known(name)
    return name if packed else ""


def other_metadata(kind: Kind, listing: bool) -> StatusError:
    """The 406 for who asks for metadata of one object where there is a list, or the other way round."""
    package, name = internal_package(kind.group), kind.list_kind if listing else kind.kind
    if kind.types.schemas:
        package, name = "unstructured", "UnstructuredList" if listing else "Unstructured"
    wanted, found = "PartialObjectMetadata", "a list"
    if not listing:
        wanted, found = "PartialObjectMetadataList", "not a list"
    text = f"you requested {wanted}, but the requested object is {found} (*{package}.{name})"
    return StatusError(406, "NotAcceptable", text)


class Presenter:
    """Renders one kind in one version for one kind of wish; cheap where the stored bytes already are the answer."""

    def __init__(
        self, kind: Kind, version: str, accepted: Accepted, include_object: str, clock: Clock
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
        self.plain = self._same and not accepted.transform and not accepted.protobuf and not accepted.cbor
        #: Whether the answer is what is stored, byte for byte.
        self.quick = self.plain and not accepted.yaml
        self._message = f"{protobuf.META}.PartialObjectMetadata"
        if accepted.protobuf and not accepted.transform:
            self._message = message_name(kind, version)
        #: Whose fields tell bytes and floats from texts and numbers; "" where there are none.
        self._typed = message_name(kind, version) if accepted.cbor and not accepted.transform else ""

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
            return dumps(canonical(obj))
        if self.accepted.transform == "Table":
            return dumps(self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}))
        from dra_apiserver.tables import partial_metadata

        return dumps(self._versioned(partial_metadata(obj)))

    def one(self, data: bytes) -> bytes:
        """The body that answers a request for one object."""
        if self.accepted.protobuf:
            return self._wire(data)
        if self.accepted.cbor:
            return self._binary(data)
        shown = self.json(data)
        return to_yaml(shown) if self.accepted.yaml else shown

    def _binary(self, data: bytes) -> bytes:
        if self.accepted.transform:
            return cbor.encode(orjson.loads(self.json(data)))
        return cbor.encode(cbor.marked(self._typed, self.decoded(data)))

    def _packed(self, data: bytes) -> bytes:
        """A stored object's message."""
        obj = self.decoded(data)
        if not self.accepted.transform:
            return protobuf.message(self._message, obj)
        from dra_apiserver.tables import partial_metadata

        return protobuf.message(self._message, partial_metadata(obj))

    def _wire(self, data: bytes) -> bytes:
        return protobuf.envelope(*self._type, self._packed(data))

    @property
    def _type(self) -> tuple[str, str]:
        """apiVersion and kind of an object in protobuf, which are not in its message."""
        if self.accepted.transform:
            return f"meta.k8s.io/{self.accepted.version}", "PartialObjectMetadata"
        return self.kind.api_version(self.version), self.kind.kind

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
        if self.accepted.protobuf:
            api_version, kind = self._type
            items = [self._packed(record.data) for record in records]
            listed = f"{kind}List" if self.accepted.transform else self.kind.list_kind
            return protobuf.envelope(api_version, listed, protobuf.listed(metadata, items))
        if self.plain:
            # As upstream's typed lists, items don't repeat kind and apiVersion.
            head = dumps(
                {
                    "kind": self.kind.list_kind,
                    "apiVersion": self.kind.storage_api_version,
                    "metadata": metadata,
                }
            )
            body = b"".join((head[:-1], page if page is not None else self.page(records)))
            return to_yaml(body) if self.accepted.yaml else body
        document, key, shown = self._list_of(metadata)
        step = _PART if self._in_order else max(len(records), 1)
        parts = (
            shown([self.decoded(record.data) for record in records[start : start + step]])
            for start in range(0, len(records), step)
        )
        if self.accepted.cbor:
            document[key] = [cbor.marked(self._typed, item) for part in parts for item in part]
            return cbor.encode(document)
        body = _joined(document, key, parts)
        return to_yaml(body) if self.accepted.yaml else body

    def _list_of(
        self, metadata: JsonObject
    ) -> tuple[JsonObject, str, Callable[[list[JsonObject]], list[JsonObject]]]:
        """A list without its items, what they are called in it, and how objects become items."""
        if self.accepted.transform == "Table":
            return self._table([], metadata), "rows", lambda objects: self._table(objects, {})["rows"] or []
        if self.accepted.transform:
            from dra_apiserver.tables import partial_metadata_list

            def without_rest(objects: list[JsonObject]) -> list[JsonObject]:
                items: list[JsonObject] = partial_metadata_list(objects, {})["items"]
                return [self._versioned(item) if "apiVersion" in item else item for item in items]

            return self._versioned(partial_metadata_list([], metadata)), "items", without_rest
        document = {
            "kind": self.kind.list_kind,
            "apiVersion": self.kind.api_version(self.version),
            "metadata": metadata,
            "items": [],
        }
        return document, "items", lambda objects: [_untyped(obj) for obj in objects]

    @property
    def _in_order(self) -> bool:
        """Whether objects are shown in the order in which they are listed."""
        printers = self.kind.printers
        printer = printers.get(self.version) or printers.get("")
        return self.accepted.transform != "Table" or printer is None or printer.sort_key is None

    def event(self, type: str, data: bytes) -> bytes:
        """One line of a watch, or one frame."""
        if self.accepted.protobuf:
            return protobuf.event(type, self._wire(data))
        if self.accepted.cbor:
            return cbor.event(type, self._binary(data))
        shown = self.json(data)
        return b"".join((b'{"type":"', type.encode(), b'","object":', shown, b"}\n"))

    def bookmark(self, revision: int, initial_end: bool = False) -> bytes:
        """The line, or frame, that tells a watcher how far it has come."""
        metadata: JsonObject = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self.accepted.protobuf:
            shown = protobuf.message(self._message, {"metadata": metadata})
            return protobuf.event("BOOKMARK", protobuf.envelope(*self._type, shown))
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
        return self._encoded("BOOKMARK", obj)

    def _encoded(self, type: str, obj: JsonObject) -> bytes:
        if self.accepted.cbor:
            return cbor.event(type, cbor.encode(obj))
        return dumps({"type": type, "object": obj}) + b"\n"

    def error(self, status: JsonObject) -> bytes:
        """The line, or frame, that ends a watch with a failure's Status."""
        if self.accepted.protobuf:
            return protobuf.event("ERROR", protobuf.status(status))
        return self._encoded("ERROR", status)
