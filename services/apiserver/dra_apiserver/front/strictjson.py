"""Routes that parse JSON bodies like Go and orjson.

Python's own decoder accepts lone surrogates. A response that repeats one, such as the error for an invalid
body, cannot be encoded.
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
    """A route that responds with 422 to a body that is not JSON, or not text."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(_Request(request.scope, request.receive))
            except RequestValidationError as error:
                raise RequestValidationError([_make_encodable(one) for one in error.errors()]) from error

        return answer


def _make_encodable(error: dict[str, Any]) -> dict[str, Any]:
    """Return an error that can be encoded. The body of another content type is bytes."""
    found = error.get("input")
    return error | {"input": found.decode(errors="replace")} if isinstance(found, bytes) else error
