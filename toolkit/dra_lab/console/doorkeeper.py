"""Accept requests only from the browser that has opened the console's address, which contains a secret key.

Other users of this machine do not know the key, and other web pages cannot send requests with it.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dra_shared.guard import Guard

from dra_lab.console.paths import NOT_PLAIN, acts_in_pod, plain_path

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_COOKIE = "dralab-console"
_READS = frozenset({"GET", "HEAD"})


class Doorkeeper:
    """An ASGI application that protects another one.

    The address with ``?key=…`` sets a cookie in the browser. Requests without the cookie are rejected.
    Requests from a page of another origin are rejected too, as the API server does. Unless ``writes`` is set,
    only reads are allowed, and ``POST /insight/…``, which asks a question.
    """

    def __init__(self, application: Application, key: str, writes: bool) -> None:
        self._application = application
        self._key = key
        self._writes = writes
        self._guard = Guard()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        method = scope.get("method", "GET")
        refusal = self._guard.refusal(method, headers)
        if refusal is not None:
            await _answer(scope, send, 403, refusal)
        elif self._is_key(_key_in_cookie(headers)):
            await self._pass(scope, receive, send, method)
        elif self._has_key(scope):
            cookie = f"{_COOKIE}={self._key}; HttpOnly; SameSite=Strict; Path=/"
            # Keep the rest of the query for the page, such as the moment that it shows.
            rest = urlencode({name: value for name, value in _query(scope).items() if name != "key"})
            page = f"/console/{'?' if rest else ''}{rest}"
            await _answer(
                scope, send, 303, "", [(b"location", page.encode()), (b"set-cookie", cookie.encode())]
            )
        else:
            await _answer(scope, send, 401, "open the address that `dralab console` printed")

    async def _pass(self, scope: Scope, receive: Receive, send: Send, method: str) -> None:
        path = plain_path(scope)
        if path is None:
            await _answer(scope, send, 400, NOT_PLAIN)
            return
        asks = path.startswith("/insight/")
        # The request is a GET, but the user's input in an exec session can change things.
        terminal = scope["type"] == "websocket" and acts_in_pod(path)
        if (method in _READS and not terminal) or asks or self._writes:
            await self._application(scope, receive, send)
        else:
            await _answer(scope, send, 403, "the console is read only; start it with --write")

    def _has_key(self, scope: Scope) -> bool:
        return scope["type"] == "http" and self._is_key(_query(scope).get("key", ""))

    def _is_key(self, text: str) -> bool:
        # compare_digest accepts only ASCII texts.
        return hmac.compare_digest(text.encode(errors="replace"), self._key.encode())


def _query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1")))


def _key_in_cookie(headers: dict[bytes, bytes]) -> str:
    """Return the key in the cookie. Other servers of this machine may have cookies of any form."""
    for cookie in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == _COOKIE:
            return value
    return ""


async def _answer(
    scope: Scope, send: Send, code: int, text: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": text})
        return
    plain = (b"content-type", b"text/plain; charset=utf-8")
    await send({"type": "http.response.start", "status": code, "headers": [plain, *(headers or ())]})
    await send({"type": "http.response.body", "body": f"{text}\n".encode() if text else b""})
