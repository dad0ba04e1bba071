import asyncio
import random
from typing import Any

import orjson
from dra_shared.api.resources import CONFIG_MAPS
from dra_shared.client.informer import Informer
from dra_shared.client.rest import Client
from dra_shared.clock import FakeClock
from structlog.testing import capture_logs

from tests.shared.client.fake_server import CHUNKED, chunk, reply, serve


def _object(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid or name, "resourceVersion": str(version)},
    }


def _list(version: int, *items: dict[str, Any]) -> bytes:
    return reply(orjson.dumps({"metadata": {"resourceVersion": str(version)}, "items": list(items)}))


def _event(kind: str, obj: dict[str, Any]) -> bytes:
    return chunk(orjson.dumps({"type": kind, "object": obj}) + b"\n")


class _Script:
    """Answers list requests from ``lists`` and watch requests from ``watches``, and records the requests."""

    def __init__(self, lists: list[bytes], watches: list[bytes]) -> None:
        self.lists, self.watches = lists, watches
        self.asked: list[str] = []
        self.exhausted = asyncio.Event()

    async def __call__(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        target = request.split(b" ")[1].decode()
        watch = "watch=true" in target
        self.asked.append(target)
        answers = self.watches if watch else self.lists
        if not answers:
            self.exhausted.set()
            await asyncio.Event().wait()
        writer.write(CHUNKED + answers.pop(0) + b"0\r\n\r\n" if watch else answers.pop(0))


class _Hurried(FakeClock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def _notifications(script: _Script) -> list[str]:
    notified: list[str] = []
    async with serve(script) as url, Client(url) as client:
        informer = Informer(client, CONFIG_MAPS, clock=_Hurried(), rng=random.Random(1))
        informer.add_handler(
            lambda obj: notified.append(f"add {obj.metadata.name}@{obj.metadata.resource_version}"),
            lambda old, new: notified.append(
                f"update {old.metadata.resource_version}->{new.metadata.resource_version}"
            ),
            lambda obj: notified.append(f"delete {obj.metadata.uid}"),
        )
        run = asyncio.create_task(informer.run())
        await script.exhausted.wait()
        notified.append(",".join(sorted(informer.store.keys())))
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    return notified


async def test_an_informer_lists_then_watches_and_resumes() -> None:
    script = _Script(
        [_list(5, _object("a", 3))],
        [
            _event("ADDED", _object("b", 6)) + _event("MODIFIED", _object("a", 7)),
            _event("BOOKMARK", _object("", 9)),
            _event("DELETED", _object("b", 10)),
        ],
    )
    assert await _notifications(script) == ["add a@3", "add b@6", "update 3->7", "delete b", "ns/a"]
    versions = [part for ask in script.asked[1:] for part in ask.split("&") if "resourceVersion=" in part]
    assert versions == ["resourceVersion=5", "resourceVersion=7", "resourceVersion=9", "resourceVersion=10"]


async def test_an_informer_lists_again_after_an_expired_revision() -> None:
    expired = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}
    script = _Script(
        [_list(5, _object("a", 3), _object("b", 4)), _list(20, _object("b", 15), _object("c", 12))],
        [_event("ERROR", expired)],
    )
    assert await _notifications(script) == [
        "add a@3",
        "add b@4",
        "update 4->15",
        "add c@12",
        "delete a",
        "ns/b,ns/c",
    ]


async def test_a_kind_that_is_not_served_is_reported_once() -> None:
    refused = reply(orjson.dumps({"kind": "Status", "code": 404, "reason": "NotFound"}), "404 Not Found")
    script = _Script([refused, refused, _list(5, _object("a", 3))], [])
    with capture_logs() as logs:
        assert await _notifications(script) == ["add a@3", "ns/a"]
    assert [(entry["event"], entry["resource"]) for entry in logs] == [
        ("waiting for a kind that the API server does not serve", "configmaps")
    ]


async def test_a_recreated_object_is_reported_as_deleted_and_added() -> None:
    script = _Script(
        [_list(5, _object("a", 3, "old"))],
        [_event("MODIFIED", _object("a", 8, "new"))],
    )
    assert await _notifications(script) == ["add a@3", "delete old", "add a@8", "ns/a"]


async def test_an_object_that_was_recreated_unobserved_is_reported_as_deleted() -> None:
    """Check that handlers are notified of the deletion of the first object."""
    script = _Script(
        [_list(5, _object("a", 3, uid="first"))], [_event("DELETED", _object("a", 9, uid="second"))]
    )
    assert await _notifications(script) == ["add a@3", "delete first", ""]


async def test_other_handlers_are_called_if_one_raises() -> None:
    script = _Script([_list(5, _object("a", 3), _object("b", 4))], [])
    seen: list[str] = []

    def fails(obj: Any) -> None:
        raise RuntimeError("handler bug")

    async with serve(script) as url, Client(url) as client:
        informer = Informer(client, CONFIG_MAPS, clock=FakeClock())
        informer.add_handler(fails)
        informer.add_handler(lambda obj: seen.append(obj.key))
        run = asyncio.create_task(informer.run())
        await script.exhausted.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    assert seen == ["ns/a", "ns/b"]
