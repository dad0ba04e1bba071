"""The node agent's ``/faults``: POST starts a fault, GET lists active faults or shows one, DELETE ends all or one."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from dra_shared.faults.board import FaultBoard
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.errors import FaultError, UnknownNode
from dra_shared.faults.nodes import NodeFault, NodeKind
from dra_shared.faults.places import PATH
from dra_shared.numerals import integer, is_digits

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class _Named(msgspec.Struct):
    fault: str


class FaultRoutes:
    """Serves a board of faults, like the API server's ``/faults``."""

    def __init__(self, board: FaultBoard[NodeFault]) -> None:
        self._board = board

    def routes(self) -> "Mapping[str, Callable[[Any], Awaitable[Any]]]":
        """Return the endpoints by method and path."""
        return {
            f"POST {PATH}": self._begin,
            f"GET {PATH}": self._list,
            f"GET {PATH}/{{number}}": self._get,
            f"DELETE {PATH}": self._clear,
            f"DELETE {PATH}/{{number}}": self._end,
        }

    async def _begin(self, request: "Request") -> "Response":
        try:
            return _json(await self._board.begin(_decode(await request.body())), 201)
        except msgspec.DecodeError as error:
            return _json({"message": f"cannot read the fault: {error}"}, 400)
        except FaultError as error:
            return _json({"message": str(error)}, 404 if isinstance(error, UnknownNode) else 400)

    async def _list(self, _: "Request") -> "Response":
        return _json({"items": self._board.list()}, 200)

    async def _get(self, request: "Request") -> "Response":
        number = request.path_params["number"]
        found = self._board.get(integer(number)) if is_digits(number) else None
        if found is None:
            return _json({"message": f"there is no fault {number}, or its result is no longer kept"}, 404)
        return _json(found, 200)

    async def _end(self, request: "Request") -> "Response":
        number = request.path_params["number"]
        if is_digits(number):
            await self._board.end(integer(number))
        return await self._get(request)

    async def _clear(self, _: "Request") -> "Response":
        await self._board.clear()
        return _json({"items": []}, 200)


def _decode(body: bytes) -> NodeFault:
    """Decode a fault by its kind's fields."""
    kind = KINDS.get(msgspec.json.decode(body, type=_Named).fault)
    spec: type[NodeFault] = kind.spec if isinstance(kind, NodeKind) else NodeFault
    return msgspec.json.decode(body, type=spec)


def _json(value: Any, status: int) -> "Response":
    from starlette.responses import Response

    return Response(msgspec.json.encode(value), status, media_type="application/json")
