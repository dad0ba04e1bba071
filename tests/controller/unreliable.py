"""A network between controllers and API server that loses, repeats, delays and reorders watch events."""

import random
from collections.abc import AsyncIterator

import httpx
from dra_shared.client.transport import HttpTransport


class UnreliableTransport(httpx.AsyncBaseTransport):
    """Passes requests on, and disturbs or cuts off watches.

    Some writes succeed although the client observes a broken connection.
    """

    def __init__(self, seed: int) -> None:
        self._inner = HttpTransport()
        self._rng = random.Random(seed)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if request.url.params.get("watch") == "true" and response.status_code == 200:
            stream = _Mangled(response, self._rng)
            return httpx.Response(200, headers=response.headers, stream=stream, request=request)
        if request.method != "GET" and self._rng.random() < 0.1:
            await response.aread()
            raise httpx.RemoteProtocolError("the answer got lost", request=request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Mangled(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, rng: random.Random) -> None:
        self._response = response
        self._rng = rng

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        held: list[bytes] = []
        async for chunk in self._response.aiter_bytes():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                match self._rng.choices(("pass", "drop", "repeat", "hold", "cut"), (60, 12, 12, 12, 4))[0]:
                    case "drop":
                        continue
                    case "repeat":
                        yield line + b"\n" + line + b"\n"
                    case "hold":
                        held.append(line)
                        continue
                    case "cut":
                        return
                    case _:
                        yield line + b"\n"
                while held and self._rng.random() < 0.5:
                    yield held.pop(self._rng.randrange(len(held))) + b"\n"

    async def aclose(self) -> None:
        await self._response.aclose()
