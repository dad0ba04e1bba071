"""Test the endpoints below ``/insight`` without a scheduler."""

from collections.abc import Mapping
from typing import Any

import httpx
from dra_apiserver.front import insight
from dra_shared.jsontypes import JsonObject
from dra_shared.mediatypes import CSV, HTML, JSON
from fastapi import FastAPI


async def test_plan_objects_get_defaults_before_they_reach_the_scheduler() -> None:
    asked: list[tuple[str, JsonObject | None]] = []

    async def ask(
        path: str, params: Mapping[str, int], body: JsonObject | None = None, media_type: str = JSON
    ) -> Any:
        asked.append((path, body))
        return {"nodes": ["a"]}

    async def complete(objects: list[JsonObject]) -> list[JsonObject]:
        return [{**each, "completed": True} for each in objects]

    app = FastAPI()
    app.include_router(insight.router(ask, complete))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
        answer = await client.post("/insight/plan/idle", json={"objects": [{}], "prefix": "a"})
        refused = await client.post("/insight/plan/idle", content="[]")
    assert answer.json() == {"nodes": ["a"]}
    assert asked == [("/plan/idle", {"objects": [{"completed": True}], "prefix": "a"})]
    assert refused.status_code == 422


async def test_fields_of_a_wrong_type_reach_the_scheduler_unchanged() -> None:
    bodies: list[JsonObject] = [
        {"objects": 5, "arrivals": [1], "types": {}, "changes": None},
        {"objects": [5], "arrivals": [{"at": 1}]},
    ]
    asked: list[JsonObject | None] = []

    async def ask(
        path: str, params: Mapping[str, int], body: JsonObject | None = None, media_type: str = JSON
    ) -> Any:
        asked.append(body)
        return {}

    async def complete(objects: list[JsonObject]) -> list[JsonObject]:
        return objects

    app = FastAPI()
    app.include_router(insight.router(ask, complete))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://front") as client:
        for body in bodies:
            assert (await client.post("/insight/plan/fit", json=body)).status_code == 200
        assert (await client.post("/insight/plan/fit", content=b'"\xff"')).status_code == 422
    assert asked == bodies


async def test_plan_is_answered_in_the_accepted_media_type() -> None:
    async def ask(
        path: str, params: Mapping[str, int], body: JsonObject | None = None, media_type: str = JSON
    ) -> Any:
        return {} if media_type == JSON else f"an answer as {media_type}"

    async def complete(objects: list[JsonObject]) -> list[JsonObject]:
        return objects

    app = FastAPI()
    app.include_router(insight.router(ask, complete))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://front") as client:
        for media_type in (HTML, CSV):
            answer = await client.post("/insight/plan/fit", json={}, headers={"Accept": media_type})
            assert answer.text == f"an answer as {media_type}"
            assert answer.headers["content-type"].startswith(media_type)
        assert (await client.post("/insight/plan/fit", json={})).json() == {}
