"""Present stored objects to clients (apiserver's `endpoints/handlers/response.go`).

In the client's version; as objects, Tables or metadata only; in JSON, YAML, protobuf or CBOR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import orjson
from dra_shared.clock import Clock
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver import cbor, protobuf
from dra_apiserver.conversion import convert
from dra_apiserver.errors import StatusError, bad_request, invalid
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.negotiation import Accepted, to_yaml
from dra_apiserver.schema.packages import internal_package, package_name
from dra_apiserver.storage import Record
from dra_apiserver.storage.records import canonical

# The number of objects that are encoded in one call.
_PART = 200


def _without_type(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}}


def _encode_list(document: JsonObject, key: str, parts: Iterable[list[JsonObject]]) -> bytes:
    """Encode a list's JSON part by part, because other threads cannot run while a part is encoded."""
    head = dumps({name: value for name, value in document.items() if name != key})
    items = b",".join(dumps(part)[1:-1] for part in parts if part)
    return b'%b,"%b":[%b]}' % (head[:-1], key.encode(), items)


def message_name(kind: Kind, version: str) -> str:
    """Return the protobuf message of a kind's objects, empty if there is none, as for custom resources."""
    name = f"{package_name(kind.group, version)}.{kind.kind}"
    packed = kind.types.has_messages if kind.types.schemas else protobuf.is_known(name)
    return name if packed else ""


def other_metadata(kind: Kind, listing: bool) -> StatusError:
    """Return the 406 for a client that asks for one object's metadata on a list, or the other way round."""
    package, name = internal_package(kind.group), kind.list_kind if listing else kind.kind
    if kind.types.schemas:
        package, name = "unstructured", "UnstructuredList" if listing else "Unstructured"
    wanted, found = "PartialObjectMetadata", "a list"
    if not listing:
        wanted, found = "PartialObjectMetadataList", "not a list"
    text = f"you requested {wanted}, but the requested object is {found} (*{package}.{name})"
    return StatusError(406, "NotAcceptable", text)


class Presenter:
    """Presents one kind in one version as one client accepts it.

    Presenting is cheap if the stored bytes can be sent unchanged.
    """

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
        self._same = (
            kind.storage == (kind.group, kind.plural)
            and version == kind.storage_version
            and kind.persistence is None
        )
        head = f'{{"kind":"{kind.kind}","apiVersion":"{kind.storage_api_version}",'
        self._skip = len(head)
        self.key = (version, kind.group, accepted, self.include_object)
        self.plain = self._same and not accepted.transform and not accepted.protobuf and not accepted.cbor
        #: True if a response has the stored bytes unchanged.
        self.quick = self.plain and not accepted.yaml
        #: Whether objects are converted by a webhook, see `prepare`.
        self.waits = kind.persistence is not None and kind.persistence.waits
        self._message = f"{protobuf.META}.PartialObjectMetadata"
        if accepted.protobuf and not accepted.transform:
            self._message = message_name(kind, version)
        #: The protobuf message whose fields distinguish bytes and floats from texts and numbers; "" if the
        #: response is not in CBOR.
        self._typed = message_name(kind, version) if accepted.cbor and not accepted.transform else ""

    def decode(self, data: bytes) -> JsonObject:
        """Return a stored object in the client's version."""
        obj = self._load(data)
        return obj if self._same else convert(self.kind, obj, self.version)

    def _load(self, data: bytes) -> JsonObject:
        persistence = self.kind.persistence
        obj: JsonObject = orjson.loads(data) if persistence is None else persistence.decode(data)
        return obj

    async def prepare(self, stored: Iterable[bytes], fresh: bool = False) -> None:
        """Convert stored objects, so that presenting them need not wait for a webhook.

        Raises:
            StatusError: 500, the webhook failed.
        """
        if self.waits:
            assert self.kind.persistence is not None
            await self.kind.persistence.fetch(stored, fresh)

    def json(self, data: bytes) -> bytes:
        """Return a stored object's JSON for the client."""
        if self.plain:
            return data
        obj = self.decode(data)
        if not self.accepted.transform:
            return dumps(canonical(obj))
        if self.accepted.transform == "Table":
            return dumps(self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}))
        from dra_apiserver.tables import partial_metadata

        return dumps(self._set_version(partial_metadata(obj)))

    def one(self, data: bytes) -> bytes:
        """Return the response body for a request for one object."""
        if self.accepted.protobuf:
            return self._wire(data)
        if self.accepted.cbor:
            return self._binary(data)
        shown = self.json(data)
        return to_yaml(shown) if self.accepted.yaml else shown

    def _binary(self, data: bytes) -> bytes:
        if self.accepted.transform:
            return cbor.encode(orjson.loads(self.json(data)))
        return cbor.encode(cbor.mark(self._typed, self.decode(data)))

    def _encode_protobuf(self, data: bytes) -> bytes:
        """Return a stored object's message."""
        obj = self.decode(data)
        if not self.accepted.transform:
            return protobuf.message(self._message, obj)
        from dra_apiserver.tables import partial_metadata

        return protobuf.message(self._message, partial_metadata(obj))

    def _wire(self, data: bytes) -> bytes:
        return protobuf.envelope(*self._type, self._encode_protobuf(data))

    @property
    def _type(self) -> tuple[str, str]:
        """Return apiVersion and kind of an object for protobuf, whose messages lack them."""
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
                self._set_version(row["object"])
        return self._set_version(made)

    def _set_version(self, shown: JsonObject) -> JsonObject:
        if self.accepted.version != "v1":
            shown["apiVersion"] = f"meta.k8s.io/{self.accepted.version}"
        return shown

    def page(self, records: Sequence[Record]) -> bytes:
        """Return the items of a plain list, as the end of its body."""
        if not records:
            return b',"items":[]}'
        skip = self._skip
        parts = [record.data[skip:] for record in records]
        parts[0] = b',"items":[{' + parts[0]
        parts[-1] += b"]}"
        return b",{".join(parts)

    def listing(self, records: Sequence[Record], metadata: JsonObject, page: bytes | None = None) -> bytes:
        """Return the response body for a list.

        `page` is the result of `page` for the records, if it is known already.
        """
        if self.accepted.protobuf:
            api_version, kind = self._type
            items = [self._encode_protobuf(record.data) for record in records]
            listed = f"{kind}List" if self.accepted.transform else self.kind.list_kind
            return protobuf.envelope(api_version, listed, protobuf.encode_list(metadata, items))
        if self.plain:
            # As in upstream's typed lists, items omit kind and apiVersion.
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
            shown([self.decode(record.data) for record in records[start : start + step]])
            for start in range(0, len(records), step)
        )
        if self.accepted.cbor:
            document[key] = [cbor.mark(self._typed, item) for part in parts for item in part]
            return cbor.encode(document)
        body = _encode_list(document, key, parts)
        return to_yaml(body) if self.accepted.yaml else body

    def _list_of(
        self, metadata: JsonObject
    ) -> tuple[JsonObject, str, Callable[[list[JsonObject]], list[JsonObject]]]:
        """Return a list without its items, the name of the items in it, and a function that converts objects to
        items.
        """
        if self.accepted.transform == "Table":
            return self._table([], metadata), "rows", lambda objects: self._table(objects, {})["rows"] or []
        if self.accepted.transform:
            from dra_apiserver.tables import partial_metadata_list

            def without_rest(objects: list[JsonObject]) -> list[JsonObject]:
                items: list[JsonObject] = partial_metadata_list(objects, {})["items"]
                return [self._set_version(item) if "apiVersion" in item else item for item in items]

            return self._set_version(partial_metadata_list([], metadata)), "items", without_rest
        document = {
            "kind": self.kind.list_kind,
            "apiVersion": self.kind.api_version(self.version),
            "metadata": metadata,
            "items": [],
        }
        return document, "items", lambda objects: [_without_type(obj) for obj in objects]

    @property
    def _in_order(self) -> bool:
        """True if objects are presented in the order in which they are listed."""
        printers = self.kind.printers
        printer = printers.get(self.version) or printers.get("")
        return self.accepted.transform != "Table" or printer is None or printer.sort_key is None

    def event(self, type: str, data: bytes) -> bytes:
        """Return one line of a watch, or one frame."""
        if self.accepted.protobuf:
            return protobuf.event(type, self._wire(data))
        if self.accepted.cbor:
            return cbor.event(type, self._binary(data))
        shown = self.json(data)
        return b"".join((b'{"type":"', type.encode(), b'","object":', shown, b"}\n"))

    def bookmark(self, revision: int, initial_end: bool = False) -> bytes:
        """Return the bookmark, a line or a frame, with the current revision."""
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
        return self._encode_event("BOOKMARK", obj)

    def _encode_event(self, type: str, obj: JsonObject) -> bytes:
        if self.accepted.cbor:
            return cbor.event(type, cbor.encode(obj))
        return dumps({"type": type, "object": obj}) + b"\n"

    def error(self, status: JsonObject) -> bytes:
        """Return the ERROR event, a line or a frame, that ends a watch with a Status."""
        if self.accepted.protobuf:
            return protobuf.event("ERROR", protobuf.status(status))
        return self._encode_event("ERROR", status)
