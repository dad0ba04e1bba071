"""Inject faults into a running cluster of dralab, and end them.

Each fault is injected by the service that owns its target, at that service's ``/faults``: faults of requests
by the API server, faults of nodes by the node agents, and faults of processes by the supervisor. It ends
there by itself.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import httpx
import orjson
from dra_kube.cluster import Cluster
from dra_shared.client.rest import Client
from dra_shared.errors import UserError
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.places import OBSERVER, PATH

_SUPERVISOR = "supervisor"


class Struck:
    """A fault that was begun. It can be ended early, and the requests that it affected can be counted.

    Args:
        service: the node agent or the supervisor that injected the fault; empty for the API server.
        number: the fault's number at that service.
    """

    def __init__(self, striker: "Striker", service: str, number: int) -> None:
        self._striker = striker
        self._service = service
        self._path = f"{PATH}/{number}"

    async def count_affected(self) -> int | None:
        """Return the number of requests that the fault has affected, or None if they are not counted or the
        service has lost the fault.
        """
        found: int | None = (await self._ask("GET")).get("met")
        return found

    async def end(self) -> None:
        """End the fault if it is still active."""
        await self._ask("DELETE")

    async def _ask(self, method: str) -> Any:
        # A restarted service has lost its faults.
        try:
            async with self._striker.client(self._service) as client:
                response = await client.raw(method, self._path)
        except (httpx.HTTPError, OSError, TimeoutError):
            return {}
        return response.json() if response.status_code == 200 else {}


class Striker:
    """Injects faults into one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def strike(self, name: str, arguments: Mapping[str, Any]) -> Struck:
        """Begin a fault, and return without waiting for its end.

        Raises:
            UserError: the cluster does not run, has no target of that name, or refuses the fault.
        """
        match KINDS[name].where:
            case "process" | "scheduling":
                return await self._begin(_SUPERVISOR, "the supervisor", name, arguments)
            case "node":
                return await self._strike_node(name, arguments)
            case "requests":
                return await self._begin("", "the API server", name, arguments)

    async def active_faults(self) -> list[str]:
        """Return the names of the active faults."""
        found: list[str] = []
        supervisors = [_SUPERVISOR] if self._cluster.record().supervisor else []
        for service in (*supervisors, *self._agents(), ""):
            with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError):
                async with self.client(service) as client:
                    response = await client.raw("GET", PATH)
                if response.status_code == 200:
                    found += [one["fault"]["fault"] for one in response.json()["items"]]
        return sorted(set(found))

    def client(self, service: str) -> Client:
        """Return a client of a node agent, of the supervisor, or of the API server if ``service`` is empty.

        Raises:
            UserError: there is no such service.
        """
        if service == _SUPERVISOR:
            return self._supervisor()
        return self._service(service) if service else self._cluster.client(OBSERVER)

    async def _begin(self, service: str, who: str, name: str, arguments: Mapping[str, Any]) -> Struck:
        async with self.client(service) as client:
            return Struck(self, service, await _begin(client, who, name, arguments))

    def _supervisor(self) -> Client:
        record = self._cluster.record()
        if not record.supervisor:
            raise UserError("the cluster has no supervisor, which faults of processes need")
        return Client(record.supervisor, user_agent=OBSERVER, token=record.supervisor_token or None)

    async def clear(self) -> None:
        """End every fault.

        Raises:
            UserError: the cluster does not run, or its API server does not answer.
        """
        # The API server cannot answer while it is stopped.
        if self._cluster.record().supervisor:
            async with self._supervisor() as client:
                with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError):
                    await client.raw("DELETE", PATH)
        for agent in self._agents():
            async with self._service(agent) as client:
                # A service that was killed has no faults any more.
                with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError):
                    await client.raw("DELETE", PATH)
        async with self._cluster.client(OBSERVER) as client:
            try:
                await client.raw("DELETE", PATH)
            except (httpx.HTTPError, OSError, TimeoutError) as error:
                why = str(error) or type(error).__name__
                raise UserError(f"the API server does not answer: {why}") from error

    async def _strike_node(self, name: str, arguments: Mapping[str, Any]) -> Struck:
        """Inject the fault at the node agent that has the node."""
        body = orjson.dumps({"fault": name, **arguments})
        problem = "no node agent runs"
        for agent in self._agents():
            async with self._service(agent) as client:
                try:
                    response = await client.raw("POST", PATH, content=body)
                except (httpx.HTTPError, OSError, TimeoutError) as error:
                    problem = f"{agent} does not answer: {error}"
                    continue
            if response.status_code == 201:
                return Struck(self, agent, response.json()["id"])
            problem = response.json()["message"]
            if response.status_code != 404:
                break
        raise UserError(problem)

    def _agents(self) -> list[str]:
        return [name for name in self._cluster.record().services if name.startswith("node-agent")]

    def _service(self, name: str) -> Client:
        return self._cluster.service_client(name, OBSERVER)


async def _begin(client: Client, who: str, name: str, arguments: Mapping[str, Any]) -> int:
    """Begin a fault, and return its number.

    Raises:
        UserError: the fault is refused, or the service does not answer.
    """
    # The caller judges the promise, because the server may be down in a moment.
    body = orjson.dumps({"fault": name, "check": False, **arguments})
    try:
        response = await client.raw("POST", PATH, content=body)
    except (httpx.HTTPError, OSError, TimeoutError) as error:
        raise UserError(f"{who} does not answer: {error or type(error).__name__}") from error
    if response.status_code != 201:
        raise UserError(response.json().get("message") or response.text.strip())
    number: int = response.json()["id"]
    return number
