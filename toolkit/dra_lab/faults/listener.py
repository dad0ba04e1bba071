"""The supervisor's ``/faults``: faults of the services' processes. The API server and ``dralab fault`` call it.

POST begins a fault, or with ``?held=true`` prepares one that ``POST /faults/NUMBER`` begins. GET returns the
active faults, or one by its number. DELETE ends all faults, or one. ``POST /faults/numbers`` reserves the
next number. The server only listens on the loopback address.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
from dra_kube.cluster import Cluster
from dra_shared.client.errors import ApiError
from dra_shared.clock import SystemClock
from dra_shared.errors import UserError
from dra_shared.faults.board import FaultBoard
from dra_shared.faults.errors import FaultError
from dra_shared.faults.places import PATH
from dra_shared.guard import Guard
from dra_shared.listening import listening_socket
from dra_shared.numerals import integer, is_digits

from dra_lab.supervisor import ServiceSpec, Supervisor

if TYPE_CHECKING:
    from dra_shared.faults.cases import Order
    from dra_shared.faults.processes import ProcessFault
    from dra_shared.faults.story import Sample
    from starlette.requests import Request
    from starlette.responses import Response

    from dra_lab.faults.processes import ProcessFaults

_HOST = "127.0.0.1"
_PATIENCE = 5.0
_UNREADABLE = (ApiError, UserError, httpx.HTTPError, OSError, TimeoutError)


class FaultListener:
    """The server of ``/faults``.

    It listens from its creation, and responds during :meth:`serve`. Requests need the ``token``, if there is
    one.

    The HTTP server is created at the first request, because most clusters never get one.
    """

    def __init__(self, cluster: Cluster, token: str = "") -> None:
        self._cluster = cluster
        self._token = token
        self._socket = listening_socket(_HOST, 0)
        self.url = f"http://{_HOST}:{self._socket.getsockname()[1]}"
        """The URL."""

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    @contextlib.asynccontextmanager
    async def serve(
        self, supervisor: Supervisor, scheduler: Callable[[], ServiceSpec | None]
    ) -> AsyncIterator[None]:
        """Accept faults of the supervisor's processes for the block. At the end all are undone."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        asked = asyncio.Event()
        loop.add_reader(self._socket, asked.set)
        task = asyncio.create_task(self._serve(asked, over, supervisor, scheduler))
        try:
            yield
        finally:
            over.set()
            if not asked.is_set():
                loop.remove_reader(self._socket)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _serve(
        self,
        asked: asyncio.Event,
        over: asyncio.Event,
        supervisor: Supervisor,
        scheduler: Callable[[], ServiceSpec | None],
    ) -> None:
        await asked.wait()
        asyncio.get_running_loop().remove_reader(self._socket)
        from dra_shared.service import HealthServer

        from dra_lab.faults.processes import ProcessFaults

        desk = _Desk(self._cluster, ProcessFaults(supervisor, scheduler))
        guard = Guard(token=self._token)
        try:
            async with HealthServer(_HOST, 0, {}, desk.routes(), guard=guard, listener=self._socket):
                await over.wait()
        finally:
            await desk.close()


class _Desk:
    """Handles requests for faults, and judges the faults afterwards."""

    def __init__(self, cluster: Cluster, faults: "ProcessFaults") -> None:
        from dra_shared.faults.cases import Cases

        from dra_lab.faults.story import Sampler

        self._sampler = Sampler(cluster)
        self._faults = faults
        self._clock = SystemClock()
        self._board: FaultBoard[ProcessFault] = FaultBoard(self._clock, faults.strikes())
        # Maps the numbers that clients know to the board's.
        self._begun: dict[int, int] = {}
        self._judges: set[asyncio.Future[None]] = set()
        self._cases = Cases(self._look, self._clock, self._judges, _UNREADABLE, faults.away)

    def routes(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        """Return the endpoints by method and path."""
        return {
            f"POST {PATH}": self._post,
            f"POST {PATH}/numbers": self._number,
            f"POST {PATH}/{{number}}": self._start,
            f"GET {PATH}": self._list,
            f"GET {PATH}/{{number}}": self._get,
            f"DELETE {PATH}": self._clear,
            f"DELETE {PATH}/{{number}}": self._end,
        }

    async def close(self) -> None:
        """End all faults without judging them."""
        await self._board.clear()
        for judge in self._judges:
            judge.cancel()
        await asyncio.gather(*self._judges, return_exceptions=True)

    async def _post(self, request: "Request") -> "Response":
        from dra_shared.faults.cases import read

        try:
            order = read(await request.body())
            self._faults.check(_fault(order))
            number = await self._cases.prepare(order)
            if request.query_params.get("held") == "true":
                return _json(await self._cases.get(number), 201)
            return _json(await self._begin(number, order), 201)
        except FaultError as error:
            return _json({"message": str(error)}, 400)
        except _UNREADABLE as error:
            return _json({"message": f"the cluster cannot be read: {error or type(error).__name__}"}, 400)

    async def _start(self, request: "Request") -> "Response":
        number = _number_in_path(request)
        order = self._cases.order(number)
        if order is None:
            return _json({"message": f"there is no pending fault {number}"}, 404)
        try:
            return _json(await self._begin(number, order), 200)
        except FaultError as error:
            return _json({"message": str(error)}, 400)

    async def _begin(self, number: int, order: "Order") -> Any:
        try:
            begun = self._begun[number] = (await self._board.begin(_fault(order))).id
        except BaseException:
            self._cases.drop(number)
            raise
        entry = await self._cases.begin(number)
        if entry.state != "working":
            # The fault was ended before it had begun.
            await self._board.end(begun)
        return entry

    async def _number(self, _: "Request") -> "Response":
        return _json({"number": self._cases.number()}, 200)

    async def _list(self, _: "Request") -> "Response":
        return _json({"items": await self._cases.list_active()}, 200)

    async def _get(self, request: "Request") -> "Response":
        number = _number_in_path(request)
        found = await self._cases.get(number)
        if found is None:
            return _json({"message": f"there is no fault {number}, or its result is no longer kept"}, 404)
        return _json(found, 200)

    async def _end(self, request: "Request") -> "Response":
        number = _number_in_path(request)
        self._cases.withdraw(number)
        if self._cases.end(number):
            await self._board.end(self._begun[number])
        return await self._get(request)

    async def _clear(self, _: "Request") -> "Response":
        # A fault that was accepted but has not begun is cancelled.
        self._cases.withdraw()
        await self._board.clear()
        self._begun.clear()
        self._cases.end()
        return _json({"items": []}, 200)

    async def _look(self) -> "Sample":
        # A stopped server does not reject requests; it does not answer at all.
        async with asyncio.timeout(_PATIENCE):
            return await self._sampler.sample()


def _fault(order: "Order") -> "ProcessFault":
    if order.kind.where not in ("process", "scheduling"):
        raise FaultError(f"{order.kind.name} is not of processes")
    try:
        fault: ProcessFault = msgspec.convert(order.wanted, order.kind.spec)
        return fault
    except msgspec.ValidationError as error:
        raise FaultError(f"cannot read the fault: {error}") from None


def _number_in_path(request: "Request") -> int:
    """Return the number in the path; 0, which no fault has, if the path has no number."""
    text = request.path_params["number"]
    return integer(text) if is_digits(text) else 0


def _json(value: Any, status: int) -> "Response":
    from starlette.responses import Response

    return Response(msgspec.json.encode(value), status, media_type="application/json")
