"""Delay every request and watch of our HTTP client at random (``--delays SEED``).

Informers lag and writes of two clients overtake each other, as on a busy machine. A test that
fails only with delays relies on an order that is not guaranteed, or shows that a service does.

Delays are real seconds, because the services that they slow down are real. Only clients of the test process and
its forks are delayed.
"""

import asyncio
import random
from collections.abc import AsyncIterator

import httpx
import pytest
from dra_shared.client.transport import HttpTransport, Origin

# Most calls wait a little, so that they overtake each other. Few wait long, so that something else happens meanwhile.
_SHORT, _LONG = 0.02, 0.3
_SHORT_SHARE, _LONG_SHARE = 0.5, 0.03

Headers = list[tuple[bytes, bytes]]

_EXCHANGE, _STREAM = HttpTransport.exchange, HttpTransport.stream


class Delays:
    """Random delays, the same sequence for each seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def draw(self) -> float:
        """Return the seconds that the next call waits."""
        chance = self._random.random()
        if chance < _LONG_SHARE:
            return self._random.uniform(_SHORT, _LONG)
        return self._random.uniform(0, _SHORT) if chance < _LONG_SHARE + _SHORT_SHARE else 0.0

    async def wait(self) -> None:
        """Wait for a random time."""
        if seconds := self.draw():
            await asyncio.sleep(seconds)


class _DelayedBody(httpx.AsyncByteStream):
    def __init__(self, body: httpx.AsyncByteStream, delays: Delays) -> None:
        self._body = body
        self._delays = delays

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            await self._delays.wait()
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


def delay_clients(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Delay requests before they are sent and responses before they are read, until the patch is undone.

    Meanwhile the delays of an earlier call, such as those of the whole run, do not apply.
    """
    delays = Delays(seed)

    async def delayed_exchange(
        self: HttpTransport, origin: Origin, method: str, data: bytes, *, timeout: float
    ) -> tuple[int, bytes]:
        await delays.wait()
        answer = await _EXCHANGE(self, origin, method, data, timeout=timeout)
        await delays.wait()
        return answer

    async def delayed_stream(
        self: HttpTransport, origin: Origin, method: str, data: bytes, request: httpx.Request | None = None
    ) -> tuple[int, Headers, httpx.AsyncByteStream]:
        await delays.wait()
        status, headers, body = await _STREAM(self, origin, method, data, request)
        return status, headers, _DelayedBody(body, delays)

    patch.setattr(HttpTransport, "exchange", delayed_exchange)
    patch.setattr(HttpTransport, "stream", delayed_stream)
