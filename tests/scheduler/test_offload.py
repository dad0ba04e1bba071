"""Long searches run in a thread while the event loop continues."""

import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from dra_scheduler.allocator import Allocator
from dra_scheduler.allocator.features import Features
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plugins.dynamicresources import nodefilter
from dra_scheduler.plugins.dynamicresources.expressions import compile_all
from dra_scheduler.scheduler import Scheduler
from dra_scheduler.wiring import new_scheduler
from dra_shared.clock import FakeClock

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.support.fakeapi import FakeApi
from tests.support.waiting import until


def _node_of(api: FakeApi, name: str) -> Any:
    return api.get("pods", "default", name)["spec"].get("nodeName")


class _Held:
    """Blocks searches in threads until they may continue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        self.searches = 0
        allocate = Allocator.allocate

        def block(allocator: Allocator, *args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                self.searches += 1
                while not self.go_on.wait(0.001):
                    kwargs["check"]()
            return allocate(allocator, *args, **kwargs)

        monkeypatch.setattr(Allocator, "allocate", block)
        # No search is quick enough.
        monkeypatch.setattr(nodefilter, "_OFFLOAD_AFTER", -1.0)


@pytest.fixture
def blocked_searches(monkeypatch: pytest.MonkeyPatch) -> _Held:
    return _Held(monkeypatch)


def _scheduler(api: FakeApi, clock: FakeClock) -> Scheduler:
    config = SchedulerConfig(health_port=None)
    return new_scheduler(config, client=api.client(), clock=clock, rng=random.Random(1))


def _api() -> FakeApi:
    return FakeApi(node_json("a"), class_json(), slice_json("a", 2), claim_json("c"), claim_json("d"))


async def test_watch_events_are_handled_during_a_long_search(blocked_searches: _Held) -> None:
    api = _api()
    async with _scheduler(api, FakeClock()) as scheduler:
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: blocked_searches.searches)
        api.add(node_json("b"))
        await until(lambda: scheduler.cache.node("b"))
        assert _node_of(api, "p") is None
        blocked_searches.go_on.set()
        await until(lambda: _node_of(api, "p") == "a")


async def test_a_search_is_repeated_if_its_input_changed_meanwhile(blocked_searches: _Held) -> None:
    api = _api()
    async with _scheduler(api, FakeClock()) as scheduler:
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: blocked_searches.searches)
        api.add(slice_json("a", 1))
        await until(lambda: [len(piece.spec.devices) for piece in scheduler.manager.slices.list()] == [1])
        blocked_searches.go_on.set()
        await until(lambda: _node_of(api, "p") == "a")
        assert blocked_searches.searches > 1


async def test_the_time_limit_of_an_allocation_applies_in_the_thread(blocked_searches: _Held) -> None:
    api = _api()
    clock = FakeClock()
    async with _scheduler(api, clock) as scheduler:
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: blocked_searches.searches)
        await clock.advance(11)
        await until(
            lambda: (entry := scheduler.queue.get("uid-p")) is not None and "timed out" in entry.message
        )
        blocked_searches.go_on.set()


async def test_deleting_the_pod_or_stopping_the_scheduler_stops_the_search(blocked_searches: _Held) -> None:
    api = _api()
    async with _scheduler(api, FakeClock()) as scheduler:
        api.add(pod_json("p", claims={"gpu": "c"}))
        await until(lambda: blocked_searches.searches == 1)
        api.remove("pods", "default", "p")
        await until(lambda: scheduler.queue.get("uid-p") is None)
        api.add(pod_json("q", claims={"gpu": "d"}))
        await until(lambda: blocked_searches.searches == 2)
    assert not blocked_searches.go_on.is_set()


async def test_long_selectors_are_compiled_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def record_thread(expressions: Sequence[str], features: Features) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        compile_all(expressions, features)

    monkeypatch.setattr(nodefilter, "compile_all", record_thread)
    long = " || ".join(f'device.driver == "driver-{number}"' for number in range(200)) + " || true"
    api = _api()
    claim = claim_json("long")
    claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": long}}]
    api.add(claim)
    async with _scheduler(api, FakeClock()):
        api.add(pod_json("short", claims={"gpu": "c"}))
        await until(lambda: _node_of(api, "short"))
        assert threads == []
        api.add(pod_json("p", claims={"gpu": "long"}))
        await until(lambda: _node_of(api, "p"))
        assert threads == [False]
