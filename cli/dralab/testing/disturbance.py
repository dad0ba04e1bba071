"""A fault that a test has asked for: what Kubernetes promises then, and afterwards whether it was kept."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
import orjson
from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError
from dra_cli.faults.story import Sampler
from dra_cli.faults.striking import Striker
from dra_shared.client.errors import ApiError
from dra_shared.client.rest import Client
from dra_shared.clock import SystemClock
from dra_shared.faults.catalog import KINDS, PATH, Kind
from dra_shared.faults.judging import Judge, Verdict
from dra_shared.faults.story import Sample, Story

_POLL = 0.02
_PATIENCE = 5.0
_UNREADABLE = (ApiError, CommandError, httpx.HTTPError, OSError, TimeoutError)


class Broken(AssertionError):
    """A promise was not kept; the message has a line for each breach."""


class _Waits(Protocol):
    async def pause(self, seconds: float) -> None: ...


@dataclass
class Disturbance:
    """One fault, which ends by itself.

    Args:
        fault: its name.
        what: what it does.
        promise: what Kubernetes promises to those who live through it.
    """

    fault: str
    what: str
    promise: str
    _verdict: Callable[[], Awaitable[Verdict]] = field(repr=False)

    async def verdict(self) -> Verdict:
        """Wait until it is over and the cluster at rest: what was kept of the promise, and what was not."""
        return await self._verdict()

    async def kept(self) -> list[str]:
        """What was kept of the promise, once it is over.

        Raises:
            Broken: something was not.
        """
        found = await self.verdict()
        if found.broken:
            raise Broken("\n".join([f"{self.fault} promises: {self.promise}", *found.broken]))
        return found.kept


async def asked(client: Client, services: _Waits, body: dict[str, Any]) -> Disturbance:
    """Let the API server begin a fault of its requests or of a node.

    Raises:
        CommandError: there is no such fault, option, node or device.
    """
    response = await client.raw("POST", PATH, content=orjson.dumps(body))
    begun = orjson.loads(response.content)
    if response.status_code != 201:
        raise CommandError(begun["message"])

    async def verdict() -> Verdict:
        while True:
            seen = orjson.loads((await client.raw("GET", f"{PATH}/{begun['id']}")).content)
            if seen["state"] == "over":
                return Verdict(seen.get("kept", []), seen.get("broken", []))
            await services.pause(_POLL)

    return Disturbance(body["fault"], begun["what"], begun["promise"], verdict)


class Processes:
    """Faults of the processes of a cluster: they stand still, are killed, or there is a second scheduler."""

    def __init__(self, cluster: Cluster) -> None:
        self._sampler = Sampler(cluster)
        self._striker = Striker(cluster)
        self._over: list[asyncio.Event] = []

    async def begin(self, name: str, seconds: float, options: dict[str, Any]) -> Disturbance:
        """Let it happen from now on.

        Raises:
            CommandError: there is no such service.
        """
        kind, over = KINDS[name], asyncio.Event()
        story = Story(name, 0.0 if name == "kill" else seconds)
        judge = Judge(story, self._look, SystemClock(), _UNREADABLE)
        await judge.before()
        await self._striker.strike(name, {"seconds": seconds, **options})
        self._over.append(over)
        return _watched(kind, judge.verdict(over))

    async def _look(self) -> Sample:
        # A server that stands still does not refuse; it says nothing.
        async with asyncio.timeout(_PATIENCE):
            return await self._sampler.sample()

    async def clear(self) -> None:
        """Let every process go on."""
        for over in self._over:
            over.set()
        self._over.clear()
        await self._striker.clear()


def _watched(kind: Kind, work: Coroutine[Any, Any, Verdict]) -> Disturbance:
    task = asyncio.create_task(work)

    async def verdict() -> Verdict:
        return await asyncio.shield(task)

    return Disturbance(kind.name, kind.what, kind.promise, verdict)
