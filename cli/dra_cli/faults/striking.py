"""Makes faults happen to a running cluster of dralab, and undoes them.

Each is the work of who has what it strikes, at its ``/faults``, and ends there by itself: faults of requests are the
API server's, those of nodes the node agents', those of processes the supervisor's.
"""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import httpx
import orjson
from dra_shared.client.rest import Client
from dra_shared.faults.catalog import KINDS, OBSERVER, PATH
from dra_shared.faults.judging import Met, uncounted

from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError


class Striker:
    """Faults of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def strike(self, name: str, arguments: Mapping[str, Any]) -> Met:
        """Begin a fault; returns at once, what says how much it has met.

        Raises:
            CommandError: the cluster does not run, has nothing of that name, or refuses the fault.
        """
        match KINDS[name].where:
            case "process" | "scheduling":
                async with self._supervisor() as client:
                    await _begin(client, "the supervisor", name, arguments)
                return uncounted
            case "node":
                return await self._strike_node(name, arguments)
            case "requests":
                async with self._cluster.client(OBSERVER) as client:
                    begun = await _begin(client, "the API server", name, arguments)
                return functools.partial(self._met, "", begun)

    async def _met(self, agent: str, number: int) -> int | None:
        """How much a fault has met that the API server has, or a node agent; None where that is not counted."""
        async with self._service(agent) if agent else self._cluster.client(OBSERVER) as client:
            try:
                response = await client.raw("GET", f"{PATH}/{number}")
            except (httpx.HTTPError, OSError, TimeoutError):
                return None
        # A server that was restarted has no faults any more.
        found: int | None = response.json().get("met") if response.status_code == 200 else None
        return found

    def _supervisor(self) -> Client:
        record = self._cluster.record()
        if not record.supervisor:
            raise CommandError("the cluster has no supervisor, which faults of processes need")
        return Client(record.supervisor, user_agent=OBSERVER, token=record.supervisor_token or None)

    async def clear(self) -> None:
        """End every fault.

        Raises:
            CommandError: the cluster does not run, or its API server does not answer.
        """
        # The API server cannot answer while it stands still.
        if self._cluster.record().supervisor:
            async with self._supervisor() as client:
                with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError):
                    await client.raw("DELETE", PATH)
        for agent in self._agents():
            async with self._service(agent) as client:
                # One that was killed has no faults any more.
                with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError):
                    await client.raw("DELETE", PATH)
        async with self._cluster.client(OBSERVER) as client:
            try:
                await client.raw("DELETE", PATH)
            except (httpx.HTTPError, OSError, TimeoutError) as error:
                why = str(error) or type(error).__name__
                raise CommandError(f"the API server does not answer: {why}") from error

    async def _strike_node(self, name: str, arguments: Mapping[str, Any]) -> Met:
        """Of several node agents the one that has the node takes it."""
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
                return functools.partial(self._met, agent, response.json()["id"])
            problem = response.json()["message"]
            if response.status_code != 404:
                break
        raise CommandError(problem)

    def _agents(self) -> list[str]:
        return [name for name in self._cluster.record().services if name.startswith("node-agent")]

    def _service(self, name: str) -> Client:
        return self._cluster.service_client(name, OBSERVER)


async def _begin(client: Client, who: str, name: str, arguments: Mapping[str, Any]) -> int:
    """Begin a fault; gives its number.

    Raises:
        CommandError: it is refused, or there is no answer.
    """
    # Who strikes judges: the server may be down in a moment.
    body = orjson.dumps({"fault": name, "check": False, **arguments})
    try:
        response = await client.raw("POST", PATH, content=body)
    except (httpx.HTTPError, OSError, TimeoutError) as error:
        raise CommandError(f"{who} does not answer: {error or type(error).__name__}") from error
    if response.status_code != 201:
        raise CommandError(response.json().get("message") or response.text.strip())
    number: int = response.json()["id"]
    return number
