"""Test the events that a recorder writes."""

import asyncio
import json
import random
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest
from dra_shared.api.pod import ObjectReference
from dra_shared.client.events import Recorder
from dra_shared.client.rest import Client
from dra_shared.clock import FakeClock, settle
from structlog.testing import capture_logs

_POD = ObjectReference(api_version="v1", kind="Pod", namespace="default", name="p", uid="u")


class _Constant(random.Random):
    """A random generator that always returns the same number."""

    def randrange(self, *_: object) -> int:
        return 999


class _Sink(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict[str, object]]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        self.calls.append((request.method, request.url.path, body))
        return httpx.Response(200, json=body, request=request)


async def _record(series: bool) -> _Sink:
    sink = _Sink()
    clock = FakeClock(datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
    async with Client("http://test", transport=sink) as client:
        recorder = Recorder(client, "c", host="h", clock=clock, rng=random.Random(1), series=series)
        for reason in ("Pulling", "Pulled", "Pulled"):
            recorder.event(_POD, "Normal", reason, "image", "Pull")
            await clock.advance(0.000001)
        await recorder.flush()
    return sink


async def test_event_names_sort_by_time() -> None:
    sink = await _record(series=False)
    posted: list[Any] = [body for method, _, body in sink.calls if method == "POST"]
    names = [body["metadata"]["name"] for body in posted]
    assert len(names) == 2
    assert names == sorted(names)
    assert all(name.startswith("p.") and len(name) == 2 + 16 for name in names)


@pytest.mark.parametrize("series", [False, True])
async def test_events_of_the_same_microsecond_have_different_names(series: bool) -> None:
    sink = _Sink()
    async with Client("http://test", transport=sink) as client:
        recorder = Recorder(client, "c", clock=FakeClock(), rng=_Constant(), series=series)
        for number in range(20):
            recorder.event(_POD, "Normal", f"Reason{number}", "text", "Act")
        await recorder.flush()
    names = [body["metadata"]["name"] for _, _, body in sink.calls]  # type: ignore[index]  # JSON
    assert len({*names}) == 20
    assert names == sorted(names)


async def test_a_repeated_event_raises_the_count_of_the_first_one() -> None:
    sink = await _record(series=False)
    method, path, body = sink.calls[-1]
    assert (method, path.rpartition("/")[0]) == ("PATCH", "/api/v1/namespaces/default/events")
    assert body == {"count": 2, "lastTimestamp": "2026-01-02T03:04:05Z"}


async def test_repeated_events_of_the_scheduler_are_written_as_a_series() -> None:
    sink = await _record(series=True)
    _, path, body = sink.calls[0]
    assert path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert {key: value for key, value in body.items() if key != "metadata"} == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "action": "Pull",
        "eventTime": "2026-01-02T03:04:05.678901Z",
        "note": "image",
        "reason": "Pulling",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "u"},
        "reportingController": "c",
        "reportingInstance": "c-h",
        "type": "Normal",
    }
    assert sink.calls[-1][2] == {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:05.678903Z"}}


async def test_a_series_is_about_one_revision_of_its_object() -> None:
    sink = _Sink()
    async with Client("http://test", transport=sink) as client:
        recorder = Recorder(client, "c", host="h", clock=FakeClock(), rng=random.Random(1), series=True)
        for revision, message in (("1", "no room"), ("1", "no GPU"), ("2", "no GPU")):
            of = msgspec.structs.replace(_POD, resource_version=revision)
            recorder.event(of, "Warning", "FailedScheduling", message, "Scheduling")
        await recorder.flush()
    assert sorted(method for method, _, _ in sink.calls) == ["PATCH", "POST", "POST"]


class _Slow(_Sink):
    """A transport that answers when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        await self.answer.wait()
        return response


@pytest.mark.parametrize(("series", "at_once"), [(False, 1), (True, 2)])
async def test_events_written_as_series_are_sent_in_parallel(series: bool, at_once: int) -> None:
    """Check that an event of a series is sent without waiting for the answers to others.

    The scheduler's events once lagged minutes behind its pods for this reason.
    """
    sink = _Slow()
    async with Client("http://test", transport=sink) as client:
        recorder = Recorder(client, "c", clock=FakeClock(), rng=random.Random(1), series=series)
        for reason in ("Pulling", "Pulled", "Pulled"):
            recorder.event(_POD, "Normal", reason, "image", "Pull")
        await settle()
        waiting = len(sink.calls)
        sink.answer.set()
        await recorder.flush()
    assert waiting == at_once
    assert sorted(method for method, _, _ in sink.calls) == ["PATCH", "POST", "POST"]


class _Refusing(httpx.AsyncBaseTransport):
    def __init__(self, code: int, reason: str, cause: str) -> None:
        self._status = {
            "kind": "Status",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "details": {"causes": [{"reason": cause}]},
        }

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(int(str(self._status["code"])), json=self._status, request=request)


@pytest.mark.parametrize(
    ("code", "reason", "cause", "level"),
    [
        (403, "Forbidden", "NamespaceTerminating", "debug"),
        (404, "NotFound", "", "debug"),
        (403, "Forbidden", "", "info"),
    ],
)
async def test_events_of_a_terminating_namespace_are_dropped_without_error(
    code: int, reason: str, cause: str, level: str
) -> None:
    with capture_logs() as logs:
        async with Client("http://test", transport=_Refusing(code, reason, cause)) as client:
            recorder = Recorder(client, "c", clock=FakeClock())
            recorder.event(_POD, "Normal", "Killing", "it")
            await recorder.flush()
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("event dropped", level)]


class _Unreachable(_Sink):
    """Fails the given number of requests. With ``lost``, these reach the server and only their responses are lost."""

    def __init__(self, failures: int, *, lost: bool = False) -> None:
        super().__init__()
        self.failures = failures
        self._lost = lost

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.failures:
            self.failures -= 1
            if self._lost:
                await super().handle_async_request(request)
            raise httpx.ConnectError("nobody is there")
        return await super().handle_async_request(request)


@pytest.mark.parametrize("series", [False, True])
async def test_event_is_written_again_if_the_server_cannot_be_reached(series: bool) -> None:
    sink, clock = _Unreachable(2), FakeClock()
    async with Client("http://test", transport=sink) as client:
        recorder = Recorder(client, "c", clock=clock, rng=random.Random(1), series=series)
        recorder.event(_POD, "Normal", "Pulled", "it", "Pull")
        await clock.advance(9)
        assert sink.calls == []
        await clock.advance(11)
        await recorder.flush()
    assert [method for method, _, _ in sink.calls] == ["POST"]


async def test_event_whose_answer_was_lost_keeps_its_name() -> None:
    sink, clock = _Unreachable(1, lost=True), FakeClock()
    async with Client("http://test", transport=sink) as client:
        recorder = Recorder(client, "c", clock=clock)
        recorder.event(_POD, "Normal", "Pulled", "it")
        await clock.advance(10)
        await recorder.flush()
    bodies: list[Any] = [body for _, _, body in sink.calls]
    first, second = (body["metadata"]["name"] for body in bodies)
    assert first == second


async def test_event_is_dropped_after_twelve_tries() -> None:
    sink, clock = _Unreachable(12), FakeClock()
    with capture_logs() as logs:
        async with Client("http://test", transport=sink) as client:
            recorder = Recorder(client, "c", clock=clock)
            recorder.event(_POD, "Normal", "Pulled", "it")
            await clock.advance(120)
            await recorder.flush()
    assert (sink.failures, sink.calls) == (0, [])
    assert [entry["event"] for entry in logs] == ["event dropped"]


async def _speak(*messages: str, gap: float = 1.0) -> list[tuple[str, dict[str, object]]]:
    """Return what a recorder writes for these messages of one reason, ``gap`` seconds apart."""
    sink, clock = _Sink(), FakeClock()
    async with Client("http://test", transport=sink) as client:
        recorder = Recorder(client, "c", host="h", clock=clock, rng=random.Random(1))
        for message in messages:
            recorder.event(_POD, "Warning", "FailedCreate", message)
            await recorder.flush()
            await clock.advance(gap)
    return [(method, body) for method, _, body in sink.calls]


async def test_the_tenth_and_all_later_similar_events_are_combined() -> None:
    calls = await _speak(*(f"no {number}" for number in range(12)))
    assert [body.get("message") for _, body in calls] == [
        *(f"no {number}" for number in range(9)),
        *(f"(combined from similar events): no {number}" for number in (9, 10, 11)),
    ]
    assert [method for method, _ in calls] == ["POST"] * 10 + ["PATCH"] * 2
    assert [body["count"] for _, body in calls[-3:]] == [1, 2, 3]
    combined = calls[9][1]
    assert combined["source"] == {"component": "c", "host": "h"}
    assert "reportingComponent" not in combined or combined["reportingComponent"] == ""


async def test_similar_events_are_not_combined_if_they_are_rare() -> None:
    calls = await _speak(*(f"no {number}" for number in range(12)), gap=601.0)
    assert [body["message"] for _, body in calls] == [f"no {number}" for number in range(12)]


async def test_repeated_events_are_written_at_a_limited_rate() -> None:
    calls = await _speak(*["no"] * 400)
    # 25 at once, and then one every five minutes. Its count includes those in between.
    assert [body["count"] for _, body in calls] == [*range(1, 26), 301]
