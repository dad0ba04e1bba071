"""A small stand-in for the API server: objects by path, with versions, generated names and preconditions."""

import asyncio
import itertools
import json
import re
from typing import Any

import httpx
from dra_shared.client.rest import Client

Json = dict[str, Any]

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)


class FakeApi(httpx.AsyncBaseTransport):
    """See the module's docstring. A watch never says anything."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.writes: list[str] = []
        self.drop: set[str] = set()
        self.respell: dict[str, str] = {}
        self.fail = 0
        self.lists = 0
        self._version = itertools.count(1)

    def client(self) -> Client:
        return Client("http://fake", transport=self)

    def put(self, plural: str, obj: Json) -> Json:
        """Store an object as it is, with a new version."""
        meta = obj["metadata"]
        meta["resourceVersion"] = str(next(self._version))
        meta.setdefault("uid", f"uid-{meta['resourceVersion']}")
        self.objects[plural, meta.get("namespace", ""), meta["name"]] = obj
        return obj

    def of(self, plural: str) -> list[Json]:
        """The objects of a kind, by name."""
        return [obj for key, obj in sorted(self.objects.items()) if key[0] == plural]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if "watch" in request.url.params:
            await asyncio.Event().wait()
        if self.fail:
            self.fail -= 1
            return _status(500, "InternalError", "try again")
        content = await request.aread()
        for sent, stored in self.respell.items():
            content = content.replace(sent.encode(), stored.encode())
        match = _PATH.fullmatch(request.url.path)
        assert match is not None, request.url.path
        body = json.loads(content) if content else {}
        return self._answer(request.method, match["plural"], match["ns"] or "", match["name"], body)

    def _answer(
        self, method: str, plural: str, namespace: str, name: str | None, body: Json
    ) -> httpx.Response:
        if method == "GET" and name is None:
            self.lists += 1
            return httpx.Response(200, json={"metadata": {"resourceVersion": "9"}, "items": self.of(plural)})
        if method == "POST":
            meta = body["metadata"]
            if "name" not in meta:
                meta["name"] = f"{meta['generateName']}{next(self._version):05d}"
            self.writes.append(f"create {meta['name']}")
            return httpx.Response(201, json=self.put(plural, self._admit(body)))
        key = (plural, namespace, name or "")
        current = self.objects.get(key)
        if current is None:
            return _status(404, "NotFound", f'{plural} "{name}" not found')
        if method == "GET":
            return httpx.Response(200, json=current)
        self.writes.append(f"{'update' if method == 'PUT' else 'delete'} {name}")
        if method == "DELETE":
            del self.objects[key]
            return httpx.Response(200, json=current)
        if body["metadata"].get("resourceVersion") != current["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        return httpx.Response(200, json=self.put(plural, self._admit(body)))

    def _admit(self, body: Json) -> Json:
        for field in self.drop:
            body.get("spec", {}).pop(field, None)
        for device in body.get("spec", {}).get("devices", []):
            for field in self.drop:
                for part in (device, *device.get("consumesCounters", ())):
                    part.pop(field, None)
            for mapping in device.get("nodeAllocatableResourceMappings", {}).values():
                mapping.setdefault("allocationMultiplier", "1")
        return body


def _status(code: int, reason: str, message: str) -> httpx.Response:
    return httpx.Response(
        code,
        json={"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message},
    )
