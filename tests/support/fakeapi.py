"""An API server in memory: the planner's client behind HTTP, with watches and a record of every request.

It knows no validation, no defaulting and no authorization. ``tests/tools/test_fakeapi.py`` compares its answers with
those of a real API server.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
from dra_apiserver.patch import json_patch, load_operations
from dra_node_agent.drivers.nvidia.computedomain.api import CLIQUES, COMPUTE_DOMAINS
from dra_scheduler.plan.memory import MemoryClient
from dra_shared.api import resources as _resources
from dra_shared.api.codec import convert, encode, to_builtins
from dra_shared.api.meta import Object, Status
from dra_shared.api.pod import Binding
from dra_shared.api.resources import Resource
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client, PatchType
from dra_shared.clock import Clock, FakeClock
from dra_shared.fieldselectors import parse_field_selector
from dra_shared.jsontypes import JsonObject
from dra_shared.selectors import parse_label_selector
from dra_shared.version import DEFAULT

Refusal = tuple[int, str, str]
"""Code, reason and message of a failure."""
_KNOWN: tuple[Resource[Any], ...] = (
    *(value for value in vars(_resources).values() if isinstance(value, Resource)),
    COMPUTE_DOMAINS,
    CLIQUES,
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Call:
    """One request."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    body: JsonObject
    content_type: str = ""
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Event:
    """One change of an object."""

    revision: int
    type: str
    resource: Resource[Any]
    old: JsonObject | None
    new: JsonObject


class _Memory(MemoryClient):
    """The planner's client, which also reports each change and gives names and uids that tests can predict."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.report: Callable[[str, Resource[Any], Object | None, Object], None]
        self.name_for: Callable[[str], str]

    def put(self, resource: Resource[Any], obj: Any) -> Any:
        old = self.find(resource, obj.key)
        if old is not None and obj.metadata.uid != old.metadata.uid:
            self.drop(resource, obj.key)
            old = None
        stored = super().put(resource, obj)
        self.report("ADDED" if old is None else "MODIFIED", resource, old, stored)
        return stored

    def drop(self, resource: Resource[Any], key: str) -> None:
        old = self.find(resource, key)
        super().drop(resource, key)
        if old is not None:
            meta = msgspec.structs.replace(old.metadata, resource_version=str(self.revision))
            self.report("DELETED", resource, old, msgspec.structs.replace(old, metadata=meta))

    def new_uid(self) -> str:
        return f"UID-{self.revision}"

    def new_name(self, prefix: str) -> str:
        return self.name_for(prefix)

    def _awaits_finalizers(self, obj: Object) -> bool:
        return bool(obj.metadata.finalizers)


class FakeApi(httpx.AsyncBaseTransport):
    """See the module's docstring.

    ``refuse`` may answer any request with (code, reason, message) instead. A write for which
    ``lost`` is true is executed, but its response is lost. ``admit`` may change the body of a create or an update.
    """

    def __init__(
        self, *objects: JsonObject, clock: Clock | None = None, kinds: tuple[Resource[Any], ...] = ()
    ) -> None:
        self.calls: list[Call] = []
        """The writes."""
        self.requests: list[tuple[str, str]] = []
        """The method and path of every request."""
        self.refuse: Callable[[Call], Refusal | None] = lambda call: None
        self.lost: Callable[[Call], bool] = lambda call: False
        self.admit: Callable[[JsonObject], JsonObject] = lambda body: body
        self.numbered: Callable[[str, int], str] = lambda prefix, taken: f"{prefix}{taken}"
        """The name for a generateName that so many objects have."""
        self.on_write: Callable[[str, str, JsonObject], None] = lambda event, resource, obj: None
        self._kinds = {(kind.group, kind.plural): kind for kind in (*_KNOWN, *kinds)}
        self._memory = _Memory(clock or FakeClock())
        self._memory.report = self._publish
        self._memory.name_for = self._next_name
        self._events: list[_Event] = []
        self._news: set[asyncio.Event] = set()
        for obj in objects:
            self.add(obj)

    def client(self) -> Client:
        """Return a client of this server."""
        return Client("http://fake", transport=self)

    @property
    def version(self) -> int:
        """Return the newest revision."""
        return self._memory.revision

    # Direct access, which watches and records do not distinguish from a client's.

    def add(self, obj: JsonObject, *, quietly: bool = False) -> JsonObject:
        """Store an object, or its new state, without recording a write. If quietly is set, no watch reports it."""
        kind = self._kind_of(obj)
        stored = copy.deepcopy(obj)
        meta = stored["metadata"]
        meta.setdefault("uid", f"{meta['name']}-uid")
        put = super(_Memory, self._memory).put if quietly else self._memory.put
        return _json(kind, put(kind, convert(kind, stored)))

    def put(self, resource: Resource[Any], obj: JsonObject) -> JsonObject:
        """Store an object of the resource, without recording a write."""
        return self.add({**obj, "kind": resource.kind, "apiVersion": resource.api_version})

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """Delete an object, without recording a write."""
        self._memory.drop(self._holder(resource, namespace, name), _key(namespace, name))

    def get(self, resource: str, namespace: str, name: str) -> JsonObject:
        """Return the object.

        Raises:
            KeyError: it does not exist.
        """
        kind = self._holder(resource, namespace, name)
        found: Any = self._memory.find(kind, _key(namespace, name))
        return _json(kind, found)

    def has(self, resource: str, namespace: str, name: str) -> bool:
        """True if the object exists."""
        return any(
            self._memory.find(kind, _key(namespace, name)) for kind in self._resources_by_plural(resource)
        )

    def of(self, resource: str) -> list[JsonObject]:
        """Return all objects of a resource, sorted by namespace and name."""
        found = [
            (kind, obj) for kind in self._resources_by_plural(resource) for obj in self._memory.objects(kind)
        ]
        found.sort(key=lambda pair: (pair[1].metadata.namespace, pair[1].metadata.name))
        return [_json(kind, obj) for kind, obj in found]

    def find(self, resource: Resource[Any], name: str, namespace: str | None = None) -> Any:
        """Return the typed object, or None."""
        return self._memory.find(resource, _key(namespace or "", name))

    def find_all(self, resource: Resource[Any]) -> list[Any]:
        """Return all typed objects of the resource, the oldest first."""
        return self._memory.objects(resource)

    @property
    def keys(self) -> set[tuple[str, str, str]]:
        """Return resource, namespace and name of every object."""
        return {
            (kind.plural, obj.metadata.namespace, obj.metadata.name)
            for kind in self._kinds.values()
            for obj in self._memory.objects(kind)
        }

    def writes(self, resource: str) -> list[Call]:
        """Return the writes of a resource."""
        return [call for call in self.calls if call.resource == resource]

    # Requests.

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((request.method, request.url.raw_path.decode()))
        content = await request.aread()
        await asyncio.sleep(0)
        before = len(self.calls)
        try:
            answer = await self._answer(request, content)
        except ApiError as error:
            answer = httpx.Response(error.code, json=_status_body(error.status))
        if any(self.lost(call) for call in self.calls[before:]):
            raise httpx.ReadTimeout("timed out")
        answer.request = request
        return answer

    async def _answer(self, request: httpx.Request, content: bytes) -> httpx.Response:
        if request.url.path == "/version":
            return httpx.Response(200, json={"major": str(DEFAULT.major), "minor": str(DEFAULT.minor)})
        group, resource, namespace, name, subresource = _parse(request.url.path)
        body: Any = json.loads(content) if content else {}
        params = dict(request.url.params)
        verb = _VERBS.get(request.method) or (
            "watch" if params.get("watch") in ("true", "1") else "get" if name else "list"
        )
        content_type = request.headers.get("content-type", "")
        recorded = copy.deepcopy(body)
        call = Call(verb, resource, subresource, namespace, name, recorded, content_type, params)
        if request.method in _VERBS:
            self.calls.append(call)
        refusal = self.refuse(call)
        if refusal is not None:
            return httpx.Response(refusal[0], json=_status(*refusal))
        kind = self._kinds.get((group, resource))
        if kind is None:
            message = "the server could not find the requested resource"
            return httpx.Response(404, json=_status(404, "NotFound", message))
        if verb == "watch":
            return httpx.Response(200, stream=_Stream(self._watch(kind, namespace, params)))
        if verb == "list":
            return self._list(kind, namespace, params)
        code, answer = await self._write(kind, call, body)
        return httpx.Response(code, json=answer)

    def _list(self, kind: Resource[Any], namespace: str, params: Mapping[str, str]) -> httpx.Response:
        items = (_json(kind, obj) for obj in self._memory.objects(kind))
        return httpx.Response(
            200,
            json={
                "kind": f"{kind.kind}List",
                "apiVersion": kind.api_version,
                "metadata": {"resourceVersion": str(self.version)},
                "items": sorted(filter(_selector(namespace, params), items), key=_place),
            },
        )

    async def _write(self, kind: Resource[Any], call: Call, body: Any) -> tuple[int, JsonObject]:
        """Answer a request that concerns one object, or the deletion of all."""
        memory, namespace = self._memory, call.namespace or None
        if call.verb == "get":
            return 200, _json(kind, await memory.get(kind, call.name, namespace))
        if call.verb == "create" and call.subresource:
            return await self._create_subresource(kind, call)
        if call.verb == "create":
            obj = convert(kind, self.admit(body))
            return 201, _json(kind, await memory.create(kind, obj, namespace))
        if call.verb == "update":
            # A body need not repeat the namespace of the path.
            body["metadata"].setdefault("namespace", call.namespace)
            obj = convert(kind, self.admit(body))
            subresource = "status" if call.subresource else None
            return 200, _json(kind, await memory.update(kind, obj, subresource=subresource))
        if call.verb == "patch":
            return 200, _json(kind, await self._patch(kind, call, body))
        return await self._delete(kind, call, body)

    async def _patch(self, kind: Resource[Any], call: Call, body: Any) -> Any:
        patch_type, namespace = PatchType(call.content_type), call.namespace or None
        subresource = call.subresource or None
        if patch_type is not PatchType.JSON:
            return await self._memory.patch(
                kind, call.name, body, namespace, patch_type=patch_type, subresource=subresource
            )
        old = _json(kind, await self._memory.get(kind, call.name, namespace))
        operations, _ = load_operations(json.dumps(body).encode(), strict=False)
        new = json_patch(old, operations)
        return await self._memory.update(kind, convert(kind, new), subresource=subresource)

    async def _delete(self, kind: Resource[Any], call: Call, body: JsonObject) -> tuple[int, JsonObject]:
        if not call.name:
            for obj in filter(_selector(call.namespace, call.params), self.of(kind.plural)):
                await self._memory.delete(
                    kind,
                    obj["metadata"]["name"],
                    obj["metadata"].get("namespace"),
                    uid=obj["metadata"]["uid"],
                )
            return 200, _status(200, "", "")
        conditions = body.get("preconditions", {})
        old = _json(kind, await self._memory.get(kind, call.name, call.namespace or None))
        await self._memory.delete(
            kind,
            call.name,
            call.namespace or None,
            uid=conditions.get("uid"),
            resource_version=conditions.get("resourceVersion"),
        )
        left = self._memory.find(kind, _key(call.namespace, call.name))
        if left is not None:
            return 200, _json(kind, left)
        if kind.kind == "Pod":
            return 200, old
        details = {"name": call.name, "kind": kind.plural, "uid": old["metadata"]["uid"]}
        if kind.group:
            details["group"] = kind.group
        return 200, {**_status(200, "", ""), "details": details}

    async def _create_subresource(self, kind: Resource[Any], call: Call) -> tuple[int, JsonObject]:
        if call.subresource == "token":
            await self._memory.get(kind, call.name, call.namespace)
            token = f"{call.name} in {call.body['spec']['boundObjectRef']['name']}"
            return 201, {"status": {"token": token}}
        body = msgspec.convert(call.body, Binding) if call.subresource == "binding" else call.body
        await self._memory.create_subresource(kind, call.name, call.subresource, body, call.namespace)
        return 201, _status(201, "", "")

    # Watches.

    def _publish(self, event: str, kind: Resource[Any], old: Object | None, new: Object) -> None:
        shown = _json(kind, new)
        before = None if old is None else _json(kind, old)
        self._events.append(_Event(self.version, event, kind, before, shown))
        for news in self._news:
            news.set()
        self.on_write(event, kind.plural, copy.deepcopy(shown))

    async def _watch(
        self, kind: Resource[Any], namespace: str, params: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        selects = _selector(namespace, params)
        since = int(params.get("resourceVersion") or "0")
        sent = len(self._events)
        if since:
            sent = next((n for n, event in enumerate(self._events) if event.revision > since), sent)
        else:
            for obj in filter(selects, (_json(kind, obj) for obj in self._memory.objects(kind))):
                yield _frame("ADDED", obj)
        news = asyncio.Event()
        self._news.add(news)
        try:
            while True:
                while sent < len(self._events):
                    event = self._events[sent]
                    sent += 1
                    if event.resource == kind and (frame := _frame_for(event, selects)):
                        yield frame
                news.clear()
                await news.wait()
        finally:
            self._news.discard(news)

    # Names.

    def _resources_by_plural(self, plural: str) -> list[Resource[Any]]:
        return [kind for kind in self._kinds.values() if kind.plural == plural]

    def _holder(self, plural: str, namespace: str, name: str) -> Resource[Any]:
        for kind in self._resources_by_plural(plural):
            if self._memory.find(kind, _key(namespace, name)) is not None:
                return kind
        raise KeyError((plural, namespace, name))

    def _kind_of(self, obj: JsonObject) -> Resource[Any]:
        kinds = [kind for kind in self._kinds.values() if kind.kind == obj["kind"]]
        group = obj.get("apiVersion", "").rpartition("/")[0]
        return next((kind for kind in kinds if kind.group == group), kinds[0])

    def _next_name(self, prefix: str) -> str:
        taken = sum(
            obj.metadata.generate_name == prefix
            for kind in self._kinds.values()
            for obj in self._memory.objects(kind)
        )
        return self.numbered(prefix, taken)


class _Stream(httpx.AsyncByteStream):
    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._frames


def _frame_for(event: _Event, selects: Callable[[JsonObject], bool]) -> bytes | None:
    """Return the event for a watcher of selected objects."""
    before = event.old is not None and selects(event.old)
    after = event.type != "DELETED" and selects(event.new)
    if not before and not after:
        return None
    if after:
        return _frame("MODIFIED" if before else "ADDED", event.new)
    # The last state that was selected, in the revision that changed it.
    last = copy.deepcopy(event.old or event.new)
    last["metadata"]["resourceVersion"] = event.new["metadata"]["resourceVersion"]
    return _frame("DELETED", last)


def _selector(namespace: str, params: Mapping[str, str]) -> Callable[[JsonObject], bool]:
    labels = parse_label_selector(params.get("labelSelector", ""))
    fields = parse_field_selector(params.get("fieldSelector", ""))

    def selects(obj: JsonObject) -> bool:
        def value_of(name: str) -> str:
            found: Any = obj
            for part in name.split("."):
                found = found.get(part, "") if isinstance(found, dict) else ""
            return str(found)

        meta = obj["metadata"]
        return (
            namespace in ("", meta.get("namespace"))
            and labels.matches(meta.get("labels", {}))
            and fields.matches(value_of)
        )

    return selects


def _json(kind: Resource[Any], obj: Object) -> JsonObject:
    value: JsonObject = json.loads(encode(kind, obj))
    return value


def _place(obj: JsonObject) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _parse(path: str) -> tuple[str, str, str, str, str]:
    """Return the group, resource, namespace, name and subresource of a path."""
    parts = path.strip("/").split("/")
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = [*parts, "", ""][:3]
    return group, resource, namespace, name, subresource


def _frame(event: str, obj: JsonObject) -> bytes:
    return json.dumps({"type": event, "object": obj}).encode() + b"\n"


def _status(code: int, reason: str, message: str) -> JsonObject:
    status = "Success" if code < 400 else "Failure"
    return _status_body(Status(status=status, code=code, reason=reason, message=message))


def _status_body(status: Status) -> JsonObject:
    return {"kind": status.kind, "apiVersion": status.api_version, **to_builtins(status)}
