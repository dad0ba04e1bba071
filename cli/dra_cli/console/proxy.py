"""Hands requests for the Kubernetes API to the cluster, with the user's credentials, and WebSockets too."""

import contextlib
from collections.abc import AsyncIterator

import httpx
from dra_shared.client.rest import Client
from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from starlette.datastructures import URL

from dra_cli.console.relay import relay
from dra_cli.reader import Reader

_READS = frozenset({"GET", "HEAD"})
_METHODS = [*sorted(_READS), "POST", "PUT", "PATCH", "DELETE"]
_JSON = "application/json"
_TRY_AGAIN = 1013
#: How the path of a terminal ends.
EXEC = "/exec"


def router(client: Client, reader: Reader) -> APIRouter:
    """The paths of the Kubernetes API; ``reader`` has the same credentials, for terminals."""
    made = APIRouter(include_in_schema=False)

    async def passed(request: Request) -> Response:
        try:
            return await (_read if request.method in _READS else _written)(client, request)
        except (httpx.HTTPError, TimeoutError) as error:
            return PlainTextResponse(f"the cluster does not answer: {error}\n", status_code=502)

    async def socket(socket: WebSocket) -> None:
        await (relay(reader, socket) if socket.url.path.endswith(EXEC) else watched(socket))

    async def watched(socket: WebSocket) -> None:
        await socket.accept()
        code = _TRY_AGAIN
        with contextlib.suppress(WebSocketDisconnect, httpx.HTTPError):
            await _pass_events(client, socket)
            code = 1000
        # The browser may have left first.
        with contextlib.suppress(RuntimeError):
            await socket.close(code)

    # The last two are the past, of a server that remembers it.
    for path in ("/api", "/apis", "/version", "/at", "/history"):
        made.add_api_route(path, passed, methods=_METHODS)
        made.add_api_route(path + "/{rest:path}", passed, methods=_METHODS)
        made.add_api_websocket_route(path + "/{rest:path}", socket)
    return made


async def _read(client: Client, request: Request) -> Response:
    answer = await client.stream(
        request.method, _target(request.url), accept=request.headers.get("accept", _JSON)
    )

    async def body() -> AsyncIterator[bytes]:
        try:
            async for part in answer.aiter_bytes():
                yield part
        finally:
            await answer.aclose()

    kind = answer.headers.get("content-type", _JSON)
    return StreamingResponse(body(), status_code=answer.status_code, media_type=kind)


async def _written(client: Client, request: Request) -> Response:
    kind = request.headers.get("content-type", _JSON)
    answer = await client.raw(
        request.method, _target(request.url), content=await request.body(), content_type=kind
    )
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type", _JSON))


async def _pass_events(client: Client, socket: WebSocket) -> None:
    answer = await client.stream("GET", _target(socket.url))
    try:
        async for line in answer.aiter_lines():
            await socket.send_text(line)
    finally:
        await answer.aclose()


def _target(url: URL) -> str:
    return f"{url.path}?{url.query}" if url.query else url.path
