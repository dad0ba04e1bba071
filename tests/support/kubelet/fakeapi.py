"""An API server in memory, as much of it as a kubelet talks to."""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import httpx
from dra_shared.api.codec import convert
from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.client.rest import Client

Json = dict[str, Any]


class FakeApi(httpx.AsyncBaseTransport):
    """Objects by path. ``on_change`` is called with the path and the object (None once deleted) after each write."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.failing: Callable[[str, str], int | None] = lambda method, path: None
        self.on_change: Callable[[str, Json | None], None] = lambda path, obj: None
        self._versions = itertools.count(1)

    def client(self) -> Client:
        """A client of this server."""
        return Client("http://api", transport=self)

    def put(self, resource: Resource[Any], obj: Json) -> Json:
        """Store an object as it is, with a uid and version where it has none."""
        meta = obj.setdefault("metadata", {})
        meta.setdefault("uid", f"{meta['name']}-uid")
        meta["resourceVersion"] = str(next(self._versions))
        path = resource.path(meta.get("namespace"), meta["name"])
        self.objects[path] = obj
        self.on_change(path, obj)
        return obj

    def get(self, resource: Resource[Any], name: str, namespace: str | None = None) -> Any:
        """The typed object, or None."""
        obj = self.objects.get(resource.path(namespace, name))
        return None if obj is None else convert(resource, obj)

    def list(self, resource: Resource[Any]) -> list[Any]:
        """All objects of the resource."""
        suffix = f"/{resource.plural}/"
        found: list[Object] = [convert(resource, obj) for path, obj in self.objects.items() if suffix in path]
        return found

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path, method = request.url.path, request.method
        self.requests.append((method, str(request.url.raw_path, "ascii")))
        await asyncio.sleep(0)
        code = self.failing(method, path)
        if code is not None:
            return _status(code, "InternalError", "made to fail")
        body = json.loads(request.content) if request.content else {}
        match method:
            case "GET":
                return self._found(path)
            case "POST":
                return self._create(path, body)
            case "PUT":
                return self._replace(path.removesuffix("/status"), body)
            case "PATCH":
                return self._patch(path.removesuffix("/status"), body)
            case "DELETE":
                return self._delete(path, body)
        return _status(405, "MethodNotAllowed", method)

    def _found(self, path: str) -> httpx.Response:
        obj = self.objects.get(path)
        return _missing(path) if obj is None else httpx.Response(200, json=obj)

    def _create(self, path: str, body: Json) -> httpx.Response:
        if path.endswith("/token"):
            account, bound = path.removesuffix("/token"), body["spec"]["boundObjectRef"]
            if account not in self.objects:
                return _missing(account)
            token = f"{account.rpartition('/')[2]} in {bound['name']}"
            return httpx.Response(201, json={"status": {"token": token}})
        name = body["metadata"]["name"]
        full = f"{path}/{name}"
        if full in self.objects:
            return _status(409, "AlreadyExists", f"{name} already exists")
        return self._store(full, body, 201)

    def _replace(self, path: str, body: Json) -> httpx.Response:
        return self._store(path, body) if path in self.objects else _missing(path)

    def _patch(self, path: str, body: Json) -> httpx.Response:
        if path not in self.objects:
            return _missing(path)
        old = self.objects[path]
        if (uid := body.get("metadata", {}).get("uid")) and uid != old["metadata"]["uid"]:
            return _status(409, "Conflict", "Precondition failed: UID in precondition")
        return self._store(path, _merged(old, body))

    def _delete(self, path: str, body: Json) -> httpx.Response:
        obj = self.objects.get(path)
        if obj is None:
            return httpx.Response(200, json={}) if path.endswith("s") else _missing(path)
        uid = body.get("preconditions", {}).get("uid")
        if uid is not None and uid != obj["metadata"]["uid"]:
            return _status(409, "Conflict", "Precondition failed: UID in precondition")
        del self.objects[path]
        self.on_change(path, None)
        return httpx.Response(200, json=obj)

    def _store(self, path: str, obj: Json, code: int = 200) -> httpx.Response:
        meta = obj["metadata"] = {"uid": f"{obj['metadata']['name']}-uid", **obj["metadata"]}
        meta["resourceVersion"] = str(next(self._versions))
        self.objects[path] = obj
        self.on_change(path, obj)
        return httpx.Response(code, json=obj)


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    result = dict(old)
    for key, value in patch.items():
        if key.startswith("$setElementOrder/"):
            continue
        if value is None:
            result.pop(key, None)
        elif key == "conditions":
            known = {entry["type"]: entry for entry in result.get(key, [])}
            for entry in value:
                known[entry["type"]] = _merged(known.get(entry["type"], {}), entry)
            result[key] = list(known.values())
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _missing(path: str) -> httpx.Response:
    *_, plural, name = path.split("/")
    group = path.split("/")[2] if path.startswith("/apis/") else ""
    return _status(404, "NotFound", f'{plural}{"." + group if group else ""} "{name}" not found')


def _status(code: int, reason: str, message: str) -> httpx.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return httpx.Response(code, json=body)
