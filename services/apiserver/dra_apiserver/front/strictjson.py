"""Routes whose bodies are JSON as Go and orjson read it.

Python's own decoder accepts lone surrogates. An answer that repeats one, as the one for an invalid body does, cannot be
encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute


class _Request(Request):
    async def json(self) -> Any:
        return orjson.loads(await self.body())


class StrictJsonRoute(APIRoute):
    """A route that answers 422 to a body that is not JSON, or not text."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(_Request(request.scope, request.receive))
            except RequestValidationError as error:
                raise RequestValidationError([_shown(one) for one in error.errors()]) from error

        return answer


def _shown(error: dict[str, Any]) -> dict[str, Any]:
    """Return an error that can be encoded: the body of another content type is bytes."""
    found = error.get("input")
    return error | {"input": found.decode(errors="replace")} if isinstance(found, bytes) else error
