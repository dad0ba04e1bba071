"""Information that ``dralab explain`` adds from the API server."""

from typing import Any
from urllib.parse import parse_qs

import httpx
from dra_shared.client.rest import Client
from dra_worlds.surroundings import lines, surroundings

_NAMESPACE = "/api/v1/namespaces/space"


def _event(reason: str, message: str, seen: str, **fields: Any) -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": seen, **fields}


class _Api(httpx.AsyncBaseTransport):
    """Responds by path: 404 to unknown paths, and 403 to those in ``denied``."""

    def __init__(self, objects: dict[str, Any], denied: str = "") -> None:
        self._objects = objects
        self._denied = denied
        self.selectors: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.selectors += parse_qs(request.url.query.decode()).get("fieldSelector", [])
        if self._denied and self._denied in path:
            return httpx.Response(403, json={"kind": "Status"})
        found = self._objects.get(path)
        return httpx.Response(404 if found is None else 200, json=found or {"kind": "Status"})


async def _ask(api: _Api) -> dict[str, Any]:
    async with Client("http://fake", transport=api) as client:
        return await surroundings(client, "space", "p")


def _pod(*templates: str, made: tuple[str, ...] = ()) -> dict[str, Any]:
    claims = [{"name": name, "resourceClaimTemplateName": name} for name in templates]
    statuses = [{"name": name, "resourceClaimName": "c"} for name in made]
    return {"spec": {"resourceClaims": claims}, "status": {"resourceClaimStatuses": statuses}}


async def test_missing_claim_templates_are_named() -> None:
    templates = "/apis/resource.k8s.io/v1/namespaces/space/resourceclaimtemplates"
    api = _Api(
        {f"{_NAMESPACE}/pods/p": _pod("there", "gone", "old", made=("old",)), f"{templates}/there": {"a": 1}}
    )
    found = await _ask(api)
    assert found == {"missing": ["ResourceClaimTemplate space/gone"]}
    assert lines(found) == ["  ResourceClaimTemplate space/gone does not exist"]


async def test_the_newest_warning_of_each_reason_is_shown() -> None:
    events = [
        _event("FailedPrepareDynamicResources", "old", "2026-01-01T00:00:01Z"),
        _event("FailedScheduling", "known", "2026-01-01T00:00:09Z"),
        _event("FailedPrepareDynamicResources", "new", "2026-01-01T00:00:03Z", count=7),
        {"reason": "Series", "eventTime": "2026-01-01T00:00:00Z", "message": "m", "series": {"count": 2}},
    ]
    api = _Api({f"{_NAMESPACE}/events": {"items": events}})
    assert lines(await _ask(api)) == [
        "  event FailedPrepareDynamicResources: new (7 times)",
        "  event Series: m (2 times)",
    ]
    assert api.selectors == ["involvedObject.kind=Pod,involvedObject.name=p,type=Warning"]


async def test_objects_without_permission_are_left_out() -> None:
    assert await _ask(_Api({f"{_NAMESPACE}/pods/p": _pod("gone")}, denied="/")) == {}
