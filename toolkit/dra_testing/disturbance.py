"""A fault that a test has asked for: what Kubernetes promises then, and afterwards whether it was kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
import orjson
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.faults.catalog import PATH
from dra_shared.faults.promises import Verdict

_POLL = 0.05


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
        """What was kept of the promise, once it is over; nothing where nothing of it was tried.

        Raises:
            Broken: something was not.
        """
        found = await self.verdict()
        if found.broken:
            raise Broken("\n".join([f"{self.fault} promises: {self.promise}", *found.broken]))
        return found.kept


async def asked(client: Client, services: _Waits, body: dict[str, Any]) -> Disturbance:
    """Let the API server begin a fault, or have the node's agent or the supervisor begin it.

    Raises:
        UserError: there is no such fault, option, node, device or service.
    """
    response = await client.raw("POST", PATH, content=orjson.dumps(body))
    begun = orjson.loads(response.content)
    if response.status_code != 201:
        raise UserError(begun["message"])

    async def verdict() -> Verdict:
        while (seen := await _seen(client, begun["id"])) is None:
            await services.pause(_POLL)
        return seen

    return Disturbance(body["fault"], begun["what"], begun["promise"], verdict)


async def _seen(client: Client, number: int) -> Verdict | None:
    """What was kept; None while it is not over, or while the API server does not answer: it may be what was struck.

    Raises:
        UserError: the API server that watched it was restarted, and knows nothing of it.
    """
    try:
        response = await client.raw("GET", f"{PATH}/{number}")
    except (httpx.HTTPError, OSError, TimeoutError):
        return None
    seen = orjson.loads(response.content)
    if response.status_code == 404:
        raise UserError(f"what watched the fault was restarted: {seen['message']}")
    if response.status_code != 200 or seen["state"] != "over":
        return None
    return Verdict(seen.get("kept", []), seen.get("broken", []), seen.get("untried", []))
