"""A stand-in for the API server, for tests that compare the exact requests a controller makes.

It keeps objects as plain dicts and records every write. It knows nothing of validation, versions or watches.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from dra_shared.client.rest import Client

Json = dict[str, Any]


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
    """See the module's docstring."""

    def __init__(self, *objects: Json) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.calls: list[Call] = []
        self.refuse: Callable[[Call], tuple[int, str, str] | None] = lambda call: None
        """Code, reason and message of the error for a write that is to fail."""
        for obj in objects:
            self.add(obj)

    def client(self) -> Client:
        return Client("http://fake", transport=self)

    def add(self, obj: Json) -> None:
        """Put an object there, without recording a write."""
        meta = obj["metadata"]
        self.objects[_plural(obj["kind"]), meta.get("namespace", ""), meta["name"]] = copy.deepcopy(obj)

    def of(self, resource: str) -> list[Json]:
        """All objects of a resource."""
        return [obj for (plural, _, _), obj in sorted(self.objects.items()) if plural == resource]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        code, body = self._answer(request, await request.aread())
        return httpx.Response(code, json=body, request=request)

    def _answer(self, request: httpx.Request, content: bytes) -> tuple[int, Json]:
        resource, namespace, name, subresource = _parse(request.url.path)
        body: Json = json.loads(content) if content else {}
        verb = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[
            request.method
        ]
        if verb == "get" and not name:
            items = [
                obj for obj in self.of(resource) if namespace in ("", obj["metadata"].get("namespace", ""))
            ]
            return 200, {"items": items, "metadata": {"resourceVersion": "1"}}
        if verb != "get":
            call = Call(
                verb,
                resource,
                subresource,
                namespace,
                name,
                body,
                request.headers.get("content-type", ""),
                dict(request.url.params),
            )
            self.calls.append(call)
            refusal = self.refuse(call)
            if refusal is not None:
                return refusal[0], _status(*refusal)
        if verb == "create":
            return 201, self._create(resource, namespace, body)
        obj = self.objects.get((resource, namespace, name))
        if obj is None:
            return 404, _status(404, "NotFound", f'{resource} "{name}" not found')
        if verb == "get":
            return 200, obj
        if verb == "delete":
            uid = body.get("preconditions", {}).get("uid")
            if uid is not None and uid != obj["metadata"].get("uid"):
                return 409, _status(409, "Conflict", f"the UID in the precondition ({uid}) is another")
            del self.objects[resource, namespace, name]
            return 200, _status(200, "", "")
        changed = copy.deepcopy(obj)
        if verb == "update":
            changed = body
        else:
            _merge(changed, {key: value for key, value in body.items() if key != "metadata"})
        if subresource:
            changed = {**obj, subresource: changed[subresource]}
        self.objects[resource, namespace, name] = changed
        return 200, changed

    def _create(self, resource: str, namespace: str, body: Json) -> Json:
        meta = body["metadata"]
        if namespace:
            meta["namespace"] = namespace
        if not meta.get("name"):
            # As in upstream's tests: a number where the API server appends random characters.
            number = sum(
                obj["metadata"].get("generateName") == meta["generateName"] for obj in self.of(resource)
            )
            meta["name"] = f"{meta['generateName']}-{number + 1}"
        self.objects[resource, namespace, meta["name"]] = body
        return body


def _merge(target: Json, patch: Json) -> None:
    for key, value in patch.items():
        if key == "conditions":
            kept = {entry["type"]: entry for entry in target.get(key, [])}
            kept.update({entry["type"]: entry for entry in value})
            target[key] = list(kept.values())
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _parse(path: str) -> tuple[str, str, str, str]:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = [*parts, "", ""][:3]
    return resource, namespace, name, subresource


def _plural(kind: str) -> str:
    return kind.lower() + ("es" if kind.endswith("s") else "s")


def _status(code: int, reason: str, message: str) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Success" if code < 400 else "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
