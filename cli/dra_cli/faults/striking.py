"""Makes faults happen to a running cluster of dralab, and undoes them.

Faults of requests are the API server's own work (``/faults``) and end there by themselves. A shell that waits continues
a process that was stopped, also where this program is killed meanwhile; the cluster's supervisor starts a killed one
again.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError
from dra_cli.faults.catalog import API_SERVER, KINDS

_PATH = "/faults"


class Striker:
    """Faults of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stopped: set[int] = set()

    async def strike(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Begin a fault; returns at once.

        Raises:
            CommandError: the cluster does not run, has no such service, or refuses the fault.
        """
        if KINDS[name].of_process:
            self._signal(name, arguments)
            return
        async with self._cluster.client("dralab-fault") as client:
            try:
                response = await client.raw("POST", _PATH, content=orjson.dumps({"fault": name, **arguments}))
            except (httpx.HTTPError, OSError, TimeoutError) as error:
                raise CommandError(f"the API server does not answer: {error}") from error
        if response.status_code != 201:
            raise CommandError(response.json().get("message") or response.text.strip())

    async def clear(self) -> None:
        """End every fault of requests, and continue every process that stands still.

        Raises:
            CommandError: the cluster does not run, or its API server does not answer.
        """
        # The API server first: it cannot answer while it stands still.
        pids = [service.pid for service in self._cluster.record().services.values()]
        for pid in {*pids, *self._stopped}:
            _send(pid, signal.SIGCONT)
        self._stopped.clear()
        async with self._cluster.client("dralab-fault") as client:
            try:
                await client.raw("DELETE", _PATH)
            except (httpx.HTTPError, OSError, TimeoutError) as error:
                raise CommandError(f"the API server does not answer: {error}") from error

    def _signal(self, name: str, arguments: Mapping[str, Any]) -> None:
        service = arguments.get("service", API_SERVER)
        services = self._cluster.record().services
        if service not in services:
            raise CommandError(f"there is no service {service!r}: choose {', '.join(services)}", 2)
        pid = services[service].pid
        if name == "kill":
            _send(pid, signal.SIGKILL)
            return
        seconds = float(arguments["seconds"])
        # In the background of a shell that ends at once: its parent is init from then on.
        waiting = f"(sleep {seconds}; kill -CONT {pid}) &"
        quiet = subprocess.DEVNULL
        subprocess.run(
            ["sh", "-c", waiting], start_new_session=True, check=True, stdin=quiet, stdout=quiet, stderr=quiet
        )
        self._stopped.add(pid)
        _send(pid, signal.SIGSTOP)


def _send(pid: int, number: signal.Signals) -> None:
    # A process that was killed meanwhile has a successor, which runs.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
