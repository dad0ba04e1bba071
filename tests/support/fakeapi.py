"""A stand-in for the API server: objects with versions, watches, and a record of every write.

It knows what the scheduler and the controllers rely on (optimistic locking, preconditions, status subresources, patches
of the lists that they patch, pods/binding, watches) and nothing of validation, defaulting or selectors.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from dra_shared.client.rest import Client

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Resource, namespace and name."""
_MERGE_KEYS = {"conditions": "type", "reservedFor": "uid"}


@dataclass(frozen=True)
class Call:
    """One write."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    body: Json
    content_type: str = ""
    params: dict[str, str] = field(default_factory=dict)


class FakeApi(httpx.AsyncBaseTransport):
    """See the module's docstring.

    ``refuse`` may answer a write with (code, reason, message) instead; a write that ``lost`` picks is done, but its
    answer never comes.
    """

    def __init__(self, *objects: Json) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.calls: list[Call] = []
        self.version = 0
        self.refuse: Callable[[Call], tuple[int, str, str] | None] = lambda call: None
        self.lost: Callable[[Call], bool] = lambda call: False
        self.numbered: Callable[[str, int], str] = lambda prefix, taken: f"{prefix}{taken}"
        """The name for a generateName that so many objects have had before."""
        self.on_write: Callable[[str, str, Json], None] = lambda event, resource, obj: None
        self._watchers: list[tuple[str, asyncio.Queue[bytes]]] = []
        for obj in objects:
            self.add(obj)

    def client(self) -> Client:
        return Client("http://fake", transport=self)

    def add(self, obj: Json) -> Json:
        """Put an object there, or a new state of one, without recording a write."""
        stored = copy.deepcopy(obj)
        meta = stored["metadata"]
        key = plural(obj["kind"]), meta.get("namespace", ""), meta["name"]
        meta.setdefault("uid", f"uid-{key[0]}-{meta.get('namespace', '')}-{meta['name']}")
        return self._put("MODIFIED" if key in self.objects else "ADDED", key, stored)

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """Take an object away, without recording a write."""
        obj = self.objects.pop((resource, namespace, name))
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self._publish("DELETED", resource, obj)

    def get(self, resource: str, namespace: str, name: str) -> Json:
        return self.objects[resource, namespace, name]

    def of(self, resource: str) -> list[Json]:
        """All objects of a resource."""
        return [obj for (kind, _, _), obj in sorted(self.objects.items()) if kind == resource]

    def writes(self, resource: str) -> list[Call]:
        """The writes of a resource."""
        return [call for call in self.calls if call.resource == resource]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.params.get("watch") == "true":
            return self._watch(request)
        await asyncio.sleep(0)
        before = len(self.calls)
        code, body = self._answer(request, await request.aread())
        if any(self.lost(call) for call in self.calls[before:]):
            raise httpx.ReadTimeout("timed out")
        return httpx.Response(code, json=body, request=request)

    def _watch(self, request: httpx.Request) -> httpx.Response:
        resource = _parse(request.url.path)[0]
        since = int(request.url.params.get("resourceVersion", "0"))
        events: asyncio.Queue[bytes] = asyncio.Queue()
        for obj in self.of(resource):
            if int(obj["metadata"]["resourceVersion"]) > since:
                events.put_nowait(_frame("ADDED", obj))
        self._watchers.append((resource, events))
        return httpx.Response(200, stream=_Stream(events), request=request)

    def _publish(self, event: str, resource: str, obj: Json) -> None:
        self.on_write(event, resource, obj)
        for watched, events in self._watchers:
            if watched == resource:
                events.put_nowait(_frame(event, obj))

    def _put(self, event: str, key: Key, obj: Json) -> Json:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = obj
        self._publish(event, key[0], obj)
        return copy.deepcopy(obj)

    def _answer(self, request: httpx.Request, content: bytes) -> tuple[int, Json]:
        resource, namespace, name, subresource = _parse(request.url.path)
        body: Json = json.loads(content) if content else {}
        if request.method == "GET" and not name:
            items = [obj for obj in self.of(resource) if namespace in ("", obj["metadata"].get("namespace"))]
            return 200, {"items": items, "metadata": {"resourceVersion": str(self.version)}}
        key = resource, namespace, name
        if request.method == "GET":
            return (200, self.objects[key]) if key in self.objects else _missing(resource, name)
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]
        content_type = request.headers.get("content-type", "")
        params = dict(request.url.params)
        call = Call(verb, resource, subresource, namespace, name, copy.deepcopy(body), content_type, params)
        self.calls.append(call)
        refusal = self.refuse(call)
        if refusal is not None:
            return refusal[0], _status(*refusal)
        if verb == "create" and not subresource:
            return 201, self._create(resource, namespace, body)
        if verb == "delete" and not name:
            for kind, inside, each in [key for key in self.objects if key[0] == resource]:
                self.remove(kind, inside, each)
            return 200, _status(200, "", "")
        if key not in self.objects:
            return _missing(resource, name)
        if subresource == "binding":
            return self._bind(key, body)
        if verb == "delete":
            return self._delete(key, body)
        if verb == "update":
            return self._update(key, subresource, body)
        return self._patch(key, body)

    def _bind(self, key: Key, body: Json) -> tuple[int, Json]:
        obj = copy.deepcopy(self.objects[key])
        obj["spec"]["nodeName"] = body["target"]["name"]
        self._put("MODIFIED", key, obj)
        return 201, _status(201, "", "")

    def _delete(self, key: Key, body: Json) -> tuple[int, Json]:
        uid = body.get("preconditions", {}).get("uid")
        if uid not in (None, self.objects[key]["metadata"]["uid"]):
            return 409, _status(409, "Conflict", f"the UID in the precondition ({uid}) is another")
        self.remove(*key)
        return 200, _status(200, "", "")

    def _update(self, key: Key, subresource: str, body: Json) -> tuple[int, Json]:
        obj = copy.deepcopy(self.objects[key])
        if body["metadata"].get("resourceVersion") not in ("", None, obj["metadata"]["resourceVersion"]):
            return _modified(key)
        new = {**obj, "status": body.get("status", {})} if subresource else {**body}
        if not subresource:
            new["status"] = obj.get("status", {})
        return 200, self._put("MODIFIED", key, new)

    def _patch(self, key: Key, body: Json) -> tuple[int, Json]:
        obj, meta = copy.deepcopy(self.objects[key]), body.pop("metadata", {})
        if meta.get("uid") not in (None, obj["metadata"]["uid"]):
            return 409, _status(409, "Conflict", "the UID in the precondition is another")
        if meta.get("resourceVersion") not in (None, obj["metadata"]["resourceVersion"]):
            return _modified(key)
        if "annotations" in meta:
            _merge(obj["metadata"].setdefault("annotations", {}), meta["annotations"])
        _merge(obj, body)
        return 200, self._put("MODIFIED", key, obj)

    def _create(self, resource: str, namespace: str, body: Json) -> Json:
        meta = body["metadata"]
        if namespace:
            meta["namespace"] = namespace
        if not meta.get("name"):
            taken = sum(
                obj["metadata"].get("generateName") == meta["generateName"] for obj in self.of(resource)
            )
            meta["name"] = self.numbered(meta["generateName"], taken)
        meta["uid"] = f"UID-{self.version}"
        return self._put("ADDED", (resource, namespace, meta["name"]), body)


def _modified(key: Key) -> tuple[int, Json]:
    text = f'Operation cannot be fulfilled on {key[0]} "{key[2]}": the object has been modified'
    return 409, _status(409, "Conflict", text)


class _Stream(httpx.AsyncByteStream):
    def __init__(self, events: asyncio.Queue[bytes]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._events.get()


def _merge(target: Json, patch: Json) -> None:
    for name, value in patch.items():
        if name.startswith("$setElementOrder/"):
            continue
        if value is None:
            target.pop(name, None)
        elif name in _MERGE_KEYS and isinstance(value, list):
            by = _MERGE_KEYS[name]
            kept = {entry[by]: entry for entry in target.get(name, [])}
            for entry in value:
                if entry.get("$patch") == "delete":
                    kept.pop(entry[by], None)
                else:
                    kept[entry[by]] = entry
            target[name] = list(kept.values())
            if not kept:
                del target[name]
        elif isinstance(value, dict):
            _merge(target.setdefault(name, {}), value)
        else:
            target[name] = value


def _parse(path: str) -> tuple[str, str, str, str]:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = [*parts, "", ""][:3]
    return resource, namespace, name, subresource


def plural(kind: str) -> str:
    """The resource that holds objects of that kind."""
    name = kind.lower()
    return (
        name.removesuffix("y") + "ies" if name.endswith("y") else name + ("es" if name.endswith("s") else "s")
    )


def _frame(event: str, obj: Json) -> bytes:
    return json.dumps({"type": event, "object": obj}).encode() + b"\n"


def _missing(resource: str, name: str) -> tuple[int, Json]:
    return 404, _status(404, "NotFound", f'{resource} "{name}" not found')


def _status(code: int, reason: str, message: str) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Success" if code < 400 else "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
