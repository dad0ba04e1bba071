"""The faults that ``/faults`` requests: begin and list them, and check the cluster after them.

The server itself executes faults of requests, node agents execute faults of nodes, and the supervisor executes
faults of processes. The supervisor also checks the cluster after its faults, because they may kill this server.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import Any

import msgspec
from dra_shared.api.codec import decode
from dra_shared.api.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.faults.cases import Cases, Entry, Order, read
from dra_shared.faults.errors import FaultError
from dra_shared.faults.judging import Met
from dra_shared.faults.requests import RequestFault
from dra_shared.faults.story import Sample
from dra_shared.log import logger

from dra_apiserver.api import Api
from dra_apiserver.errors import GroupResource, StatusError, bad_request
from dra_apiserver.faults import Fault, Faults
from dra_apiserver.handlers.faultnodes import clear_nodes, count_of_node, end_of_node, strike_node
from dra_apiserver.handlers.faultprocesses import Supervisor
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.storage import Store


class Samples:
    """Reads the state of the cluster for checks. Each revision of an object is decoded only once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, dict[str, tuple[int, Any]]] = {}

    async def look(self) -> Sample:
        """Return the current state of the cluster."""
        return Sample(
            pods=self._of(PODS),
            claims=self._of(RESOURCE_CLAIMS),
            slices=self._of(RESOURCE_SLICES),
            nodes=self._of(NODES),
        )

    def _of(self, resource: Any) -> dict[str, Any]:
        before, now = self._known.get(resource.plural, {}), dict[str, tuple[int, Any]]()
        for key, record in self._store.collection((resource.group, resource.plural)).records.items():
            known = before.get(key)
            if known is None or known[0] != record.revision:
                known = record.revision, decode(resource, record.data)
            now[key] = known
        self._known[resource.plural] = now
        return {obj.metadata.uid: obj for _, obj in now.values()}


_log = logger(__name__)


class Register:
    """All faults of one server, and those of its supervisor."""

    def __init__(self, api: Api, faults: Faults) -> None:
        self._api = api
        self._faults = faults
        self._cases = Cases(Samples(api.store).look, api.clock, api.silent)
        self._supervisor = Supervisor(api.config)
        # The node agents that have faults, and the numbers of these faults there. The agent's address is stored
        # because the Node may be deleted before its fault ends.
        self._agents: dict[int, tuple[str, int]] = {}
        # The numbers of faults of requests.
        self._begun: dict[int, int] = {}
        self._held: set[int] = set()

    async def begin(self, body: bytes) -> Entry:
        """Begin a fault. Unless the body has ``check: false``, later check that the cluster recovers as expected.

        A fault of processes begins with :meth:`begin_held`.

        Raises:
            StatusError: 400, the body is not a fault; or the error of the node's agent or the supervisor.
        """
        try:
            order = read(body)
        except FaultError as error:
            raise bad_request(str(error)) from None
        if order.kind.where in ("process", "scheduling"):
            entry = await self._supervisor.prepare(body)
            self._held.add(entry.id)
            return entry
        # All faults share one sequence of numbers, because clients identify a fault only by its number.
        number = await self._cases.prepare(order, await self._supervisor.number())
        try:
            met = await self._strike(order, number)
        except BaseException:
            self._cases.drop(number)
            raise
        return await self._cases.begin(number, met)

    async def begin_held(self, number: int) -> None:
        """Begin a fault of processes after the response was sent, because it may kill this process.

        If the process has just ended, the fault cannot begin any more. It is then recorded as ended, because it
        is too late to reject the request.
        """
        if number not in self._held:
            return
        self._held.discard(number)
        try:
            await self._supervisor.begin(number)
        except StatusError as refusal:
            _log.warning("fault did not begin", number=number, error=str(refusal))
            with suppress(StatusError):
                await self._supervisor.end(number)

    async def list_active(self) -> list[Entry]:
        """Return the active faults, oldest first."""
        found = [*await self._cases.list_active(), *await self._supervisor.list_active()]
        return sorted(found, key=lambda one: one.id)

    async def get(self, number: int) -> Entry | None:
        """Return one fault, active or ended; None if it is unknown."""
        return await self._cases.get(number) or await self._supervisor.get(number)

    async def end(self, number: int) -> Entry | None:
        """End one fault if it is active, and return it; None if it is unknown.

        Raises:
            StatusError: the node's agent, or the supervisor, does not respond.
        """
        if await self._cases.get(number) is None:
            return await self._supervisor.end(number)
        if self._cases.end(number):
            if number in self._agents:
                await end_of_node(self._api, *self._agents[number])
            else:
                self._faults.end(self._begun[number])
        return await self._cases.get(number)

    async def clear(self) -> None:
        """End all faults.

        Raises:
            StatusError: a node's agent, or the supervisor, does not respond.
        """
        self._faults.clear()
        ended = self._cases.end()
        await clear_nodes(self._api, {self._agents[number][0] for number in ended if number in self._agents})
        self._agents.clear()
        self._begun.clear()
        await self._supervisor.clear()

    async def _strike(self, order: Order, number: int) -> Met:
        if order.kind.where == "node":
            self._agents[number] = await strike_node(self._api, order.node, order.wanted)
            return functools.partial(count_of_node, self._api, *self._agents[number])
        try:
            fault: Fault = msgspec.convert(order.wanted, order.kind.spec)
        except msgspec.ValidationError as error:
            raise bad_request(f"cannot read the fault: {error}") from None
        served = {name for kind in self._api.registry for name in _names(kind)}
        resources = fault.resources if isinstance(fault, RequestFault) else ()
        if unknown := sorted({*resources} - served):
            raise bad_request(f"there is no resource {unknown[0]!r}")
        begun = self._begun[number] = self._faults.begin(fault).id
        count = self._faults.count(begun)

        async def count_met() -> int | None:
            return count()

        return count_met


def _names(kind: Kind) -> tuple[str, str]:
    return kind.plural, str(GroupResource(kind.group, kind.plural))
