"""Forward requests for the Kubernetes API to the cluster, with the user's credentials.

WebSockets are forwarded too.
"""

import contextlib
from collections.abc import AsyncIterator

import httpx
from dra_kube.reader import Reader
from dra_shared.client.rest import Client
from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from dra_lab.console.paths import NOT_PLAIN, forward_target, is_terminal
from dra_lab.console.relay import relay

_READS = frozenset({"GET", "HEAD"})
_METHODS = [*sorted(_READS), "POST", "PUT", "PATCH", "DELETE"]
_JSON = "application/json"
_TRY_AGAIN = 1013
_REFUSED = 1008


def router(client: Client, reader: Reader) -> APIRouter:
    """Return the router for the paths of the Kubernetes API. ``reader`` has the same credentials, for terminals."""
    made = APIRouter(include_in_schema=False)

    async def forward(request: Request) -> Response:
        target = forward_target(request.scope)
        if target is None:
            return PlainTextResponse(f"{NOT_PLAIN}\n", status_code=400)
        try:
            return await (_read if request.method in _READS else _write)(client, request, target)
        except (httpx.HTTPError, TimeoutError) as error:
            return PlainTextResponse(f"the cluster does not answer: {error}\n", status_code=502)

    async def socket(socket: WebSocket) -> None:
        target = forward_target(socket.scope)
        if target is None:
            await socket.close(_REFUSED, NOT_PLAIN)
        elif is_terminal(target.partition("?")[0]):
            await relay(reader, socket, target)
        else:
            await forward_watch(socket, target)

    async def forward_watch(socket: WebSocket, target: str) -> None:
        await socket.accept()
        code = _TRY_AGAIN
        with contextlib.suppress(WebSocketDisconnect, httpx.HTTPError):
            await _pass_events(client, socket, target)
            code = 1000
        # The browser may have closed the connection already.
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(code)

    # The last two paths read the past, from a server with a history.
    for path in ("/api", "/apis", "/version", "/at", "/history"):
        made.add_api_route(path, forward, methods=_METHODS)
        made.add_api_route(path + "/{rest:path}", forward, methods=_METHODS)
        made.add_api_websocket_route(path + "/{rest:path}", socket)
    return made


async def _read(client: Client, request: Request, target: str) -> Response:
    answer = await client.stream(request.method, target, accept=request.headers.get("accept", _JSON))

    async def body() -> AsyncIterator[bytes]:
        try:
            async for part in answer.aiter_bytes():
                yield part
        finally:
            await answer.aclose()

    kind = answer.headers.get("content-type", _JSON)
    return StreamingResponse(body(), status_code=answer.status_code, media_type=kind)


async def _write(client: Client, request: Request, target: str) -> Response:
    kind = request.headers.get("content-type", _JSON)
    answer = await client.raw(request.method, target, content=await request.body(), content_type=kind)
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type", _JSON))


async def _pass_events(client: Client, socket: WebSocket, target: str) -> None:
    answer = await client.stream("GET", target)
    try:
        async for line in answer.aiter_lines():
            await socket.send_text(line)
    finally:
        await answer.aclose()
