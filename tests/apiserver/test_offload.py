"""Test that long work runs in a thread and that its result counts only if nothing changed meanwhile."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from dra_apiserver.longwrites import MUCH
from dra_apiserver.offload import Offload, wait_for
from dra_apiserver.response import Presenter
from dra_apiserver.rest.create import before_create
from dra_apiserver.rest.update import before_update
from dra_apiserver.server import ApiServer
from dra_apiserver.watch import Selection

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"content-type": "application/merge-patch+json"}


def config_map(name: str, size: int = 0) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * size}}


class _Spy:
    """Records the threads in which a function runs. It can first run a coroutine on the event loop."""

    def __init__(
        self, function: Callable[..., Any], meanwhile: Callable[[], Awaitable[Any]] | None = None
    ) -> None:
        self._function = function
        self._meanwhile = meanwhile
        self._loop = asyncio.get_running_loop()
        self.apart: list[bool] = []

    def __call__(self, *arguments: Any) -> Any:
        self.apart.append(threading.current_thread() is not threading.main_thread())
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            asyncio.run_coroutine_threadsafe(_await(meanwhile), self._loop).result(30)
        return self._function(*arguments)


async def _await(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


async def test_large_objects_are_processed_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    created, updated = _Spy(before_create), _Spy(before_update)
    monkeypatch.setattr("dra_apiserver.rest.store.before_create", created)
    monkeypatch.setattr("dra_apiserver.rest.store.before_update", updated)
    assert (await client.post(CONFIG_MAPS, json=config_map("small"))).status_code == 201
    large = await client.post(CONFIG_MAPS, json=config_map("large", MUCH))
    assert large.status_code == 201
    for name in ("small", "large"):
        patch = {"metadata": {"labels": {"a": "b"}}}
        assert (await client.patch(f"{CONFIG_MAPS}/{name}", json=patch, headers=MERGE)).status_code == 200
    answer = await client.put(f"{CONFIG_MAPS}/large", json=config_map("large", MUCH + 1))
    assert answer.status_code == 200
    assert created.apart == [False, True]
    assert updated.apart == [False, True, True]


async def test_a_selector_that_is_long_is_compiled_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = _Spy(before_create)
    monkeypatch.setattr("dra_apiserver.rest.store.before_create", created)
    expression = " || ".join(f'device.driver == "driver-{number}"' for number in range(200))
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "long"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    answer = await client.post("/apis/resource.k8s.io/v1/deviceclasses", json=body)
    assert answer.status_code == 201
    assert created.apart == [True]


async def test_a_change_computed_in_a_thread_is_repeated_after_a_concurrent_write(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{CONFIG_MAPS}/large"
    await client.post(CONFIG_MAPS, json=config_map("large", MUCH))

    async def rival() -> None:
        patch = {"metadata": {"labels": {"rival": "was-first"}}}
        assert (await client.patch(url, json=patch, headers=MERGE)).status_code == 200

    updated = _Spy(before_update, rival)
    monkeypatch.setattr("dra_apiserver.rest.store.before_update", updated)
    answer = await client.patch(url, json={"metadata": {"labels": {"mine": "too"}}}, headers=MERGE)
    assert answer.status_code == 200
    assert answer.json()["metadata"]["labels"] == {"rival": "was-first", "mine": "too"}
    assert len(updated.apart) == 3


async def test_other_requests_are_served_while_webhooks_are_called(
    server: ApiServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{CONFIG_MAPS}/small"
    await client.post(CONFIG_MAPS, json=config_map("small"))

    async def rival() -> None:
        assert (await client.get(url)).status_code == 200

    monkeypatch.setattr(server.api.dynamic, "calls", lambda resource: True)
    updated = _Spy(before_update, rival)
    monkeypatch.setattr("dra_apiserver.rest.store.before_update", updated)
    answer = await client.patch(url, json={"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert answer.status_code == 200
    assert updated.apart == [True]


async def test_a_long_create_does_not_exceed_a_quota_that_was_filled_meanwhile(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"count/configmaps": "1"}},
    }
    assert (await client.post("/api/v1/namespaces/default/resourcequotas", json=quota)).status_code == 201
    names = [one["metadata"]["name"] for one in (await client.get(CONFIG_MAPS)).json()["items"]]
    for name in names:
        await client.delete(f"{CONFIG_MAPS}/{name}")

    async def rival() -> None:
        assert (await client.post(CONFIG_MAPS, json=config_map("rival"))).status_code == 201

    created = _Spy(before_create, rival)
    monkeypatch.setattr("dra_apiserver.rest.store.before_create", created)
    answer = await client.post(CONFIG_MAPS, json=config_map("large", MUCH))
    assert answer.status_code == 403
    assert "exceeded quota: few" in answer.json()["message"]


async def test_offloaded_work_that_waits_does_not_block_the_threads() -> None:
    apart = Offload()
    gate = asyncio.Event()

    async def wait_for_gate() -> str:
        await gate.wait()
        return "open"

    waiting = [asyncio.create_task(apart.run(lambda: wait_for(wait_for_gate()))) for _ in range(5)]
    # More tasks wait than may run at once, and this one still runs.
    assert await apart.run(lambda: "done") == "done"
    gate.set()
    assert await asyncio.gather(*waiting) == ["open"] * 5


async def test_errors_in_the_thread_are_raised() -> None:
    def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await Offload().run(fail)


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/yaml",
        "application/json",
    ],
)
async def test_long_lists_are_equal_if_encoded_in_a_thread_or_in_parts(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    for number in range(7):
        body = config_map(f"map-{number}")
        body["metadata"]["labels"] = {"odd": str(number % 2)}
        assert (await client.post(CONFIG_MAPS, json=body)).status_code == 201
    answers = []
    for many, part in ((1000, 200), (3, 2)):
        monkeypatch.setattr("dra_apiserver.handlers.get._MANY", many)
        monkeypatch.setattr("dra_apiserver.response._PART", part)
        for query in ("", "?labelSelector=odd%3D1", "?limit=5"):
            answer = await client.get(f"{CONFIG_MAPS}{query}", headers={"accept": accept})
            assert answer.status_code == 200
            # Between two requests, the displayed ages may grow by a second.
            answers.append(re.sub(r"\"\d+s\"", "age", answer.text))
    assert answers[:3] == answers[3:]


async def test_many_objects_are_selected_and_shown_in_a_thread(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_apiserver.handlers.get._MANY", 2)
    filtered, listed = _Spy(Selection.filter), _Spy(Presenter.listing)
    monkeypatch.setattr(Selection, "filter", lambda *arguments: filtered(*arguments))
    monkeypatch.setattr(Presenter, "listing", lambda *arguments: listed(*arguments))
    for number in range(4):
        await client.post(CONFIG_MAPS, json=config_map(f"map-{number}"))
    headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    answer = await client.get(f"{CONFIG_MAPS}?labelSelector=!absent", headers=headers)
    assert len(answer.json()["rows"]) >= 4
    assert filtered.apart == [True]
    assert listed.apart == [True]


async def test_very_long_responses_are_not_indented(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_apiserver.http._PRETTY_UP_TO", 10_000)
    await client.post(CONFIG_MAPS, json=config_map("short"))
    await client.post(CONFIG_MAPS, json=config_map("long", 10_000))
    short, long = [(await client.get(f"{CONFIG_MAPS}/{name}?pretty=true")).text for name in ("short", "long")]
    assert short.startswith("{\n  ")
    assert long.startswith('{"')
