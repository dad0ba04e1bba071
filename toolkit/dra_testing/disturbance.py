"""An injected fault: the promise that Kubernetes makes for it, and later the verdict on the promise."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
import orjson
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.faults.places import PATH
from dra_shared.faults.promises import Verdict

_POLL = 0.05


class Broken(AssertionError):
    """A promise was broken. The message has a line for each breach."""


class _Waits(Protocol):
    async def pause(self, seconds: float) -> None: ...


@dataclass
class Disturbance:
    """An injected fault, which ends by itself.

    Args:
        fault: the fault's name.
        what: a description of the fault.
        promise: the promise that Kubernetes makes for this fault.
    """

    fault: str
    what: str
    promise: str
    _verdict: Callable[[], Awaitable[Verdict]] = field(repr=False)

    async def verdict(self) -> Verdict:
        """Wait until the fault is over and the cluster has settled, and return the verdict on the promise."""
        return await self._verdict()

    async def check(self) -> list[str]:
        """Wait until the fault is over, and return the parts of the promise that were kept.

        The result is empty if nothing tested the promise.

        Raises:
            Broken: a part was broken.
        """
        found = await self.verdict()
        if found.broken:
            raise Broken("\n".join([f"{self.fault} promises: {self.promise}", *found.broken]))
        return found.kept


async def inject(client: Client, services: _Waits, body: dict[str, Any]) -> Disturbance:
    """Inject a fault: the API server begins it, or has the node's agent or the supervisor begin it.

    Raises:
        UserError: there is no such fault, option, node, device or service.
    """
    response = await client.raw("POST", PATH, content=orjson.dumps(body))
    begun = orjson.loads(response.content)
    if response.status_code != 201:
        raise UserError(begun["message"])

    async def verdict() -> Verdict:
        while (seen := await _read_verdict(client, begun["id"])) is None:
            await services.pause(_POLL)
        return seen

    return Disturbance(body["fault"], begun["what"], begun["promise"], verdict)


async def _read_verdict(client: Client, number: int) -> Verdict | None:
    """Return the verdict, or None if the fault is not over or the API server does not answer.

    The API server itself may be the target of the fault.

    Raises:
        UserError: the API server that observed the fault was restarted, and has lost it.
    """
    try:
        response = await client.raw("GET", f"{PATH}/{number}")
    except (httpx.HTTPError, OSError, TimeoutError):
        return None
    seen = orjson.loads(response.content)
    if response.status_code == 404:
        raise UserError(f"the process that watched the fault was restarted: {seen['message']}")
    if response.status_code != 200 or seen["state"] != "over":
        return None
    return Verdict(seen.get("kept", []), seen.get("broken", []), seen.get("untried", []))
