"""Makes faults happen to a running cluster of dralab, and undoes them.

Faults of requests are the API server's own work (``/faults``) and end there by themselves. A shell that waits continues
a process that was stopped, also where this program is killed meanwhile; the cluster's supervisor starts a killed one
again.
"""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import orjson
from dra_shared.client.rest import Client
from dra_shared.faults.catalog import API_SERVER, KINDS, PATH

from dra_cli.cluster import Cluster
from dra_cli.errors import CommandError

_SECOND = "second-scheduler.pid"
_GATE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="[A-Z]*"\} ([01])', re.MULTILINE)


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
        match KINDS[name].where:
            case "process":
                self._signal(name, arguments)
            case "scheduling":
                await self._second_scheduler(float(arguments["seconds"]))
            case "node":
                await self._strike_node(name, arguments)
            case "requests":
                await self._strike_requests(name, arguments)

    async def _strike_requests(self, name: str, arguments: Mapping[str, Any]) -> None:
        # Who strikes judges: the server may be down in a moment.
        body = orjson.dumps({"fault": name, "check": False, **arguments})
        async with self._cluster.client("dralab-fault") as client:
            try:
                response = await client.raw("POST", PATH, content=body)
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
        self._end_second_scheduler()
        for agent in self._agents():
            async with self._service(agent) as client:
                # One that was killed has no faults any more.
                with contextlib.suppress(httpx.HTTPError, OSError, TimeoutError):
                    await client.raw("DELETE", PATH)
        async with self._cluster.client("dralab-fault") as client:
            try:
                await client.raw("DELETE", PATH)
            except (httpx.HTTPError, OSError, TimeoutError) as error:
                raise CommandError(f"the API server does not answer: {error}") from error

    async def _strike_node(self, name: str, arguments: Mapping[str, Any]) -> None:
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
                return
            problem = response.json()["message"]
        raise CommandError(problem)

    def _agents(self) -> list[str]:
        return [name for name in self._cluster.record().services if name.startswith("node-agent")]

    def _service(self, name: str) -> Client:
        record = self._cluster.record()
        return Client(record.services[name].url, user_agent="dralab-fault", token=record.token)

    async def _second_scheduler(self, seconds: float) -> None:
        """Started below `timeout`, which ends it when its time is over, also where this program is killed."""
        log = self._cluster.logs / "second-scheduler.log"
        words = [sys.executable, "-m", "dra_scheduler.main", "--kubeconfig", str(self._cluster.kubeconfig)]
        words += await self._versions()
        pid = await asyncio.to_thread(
            _spawn, ["timeout", "--signal=TERM", "--kill-after=5", str(seconds), *words], log
        )
        (self._cluster.data / _SECOND).write_text(str(pid))

    async def _versions(self) -> list[str]:
        """The flags for the Kubernetes and the gates that the cluster follows.

        Raises:
            CommandError: the API server does not say.
        """
        async with self._cluster.client("dralab-fault") as client:
            try:
                version = (await client.raw("GET", "/version")).json()
                metrics = (await client.raw("GET", "/metrics")).text
            except (httpx.HTTPError, OSError, TimeoutError, ValueError) as error:
                raise CommandError(f"the API server does not answer: {error}") from error
        if "minor" not in version:
            raise CommandError(f"the API server does not say its version: {version.get('message', '')}")
        gates = [f"{name}={'true' if on == '1' else 'false'}" for name, on in _GATE.findall(metrics)]
        number = f"{version['major']}.{version['minor'].rstrip('+')}"
        return ["--kubernetes-version", number, "--feature-gates", ",".join(gates)]

    def _end_second_scheduler(self) -> None:
        file = self._cluster.data / _SECOND
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            file.unlink()
            if "dra_scheduler" in Path(f"/proc/{pid}/cmdline").read_text():
                _send(pid, signal.SIGTERM)

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


def _spawn(words: list[str], log: Path) -> int:
    """Start a program that outlives this one; gives its process id."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    # Its end is init's to notice: this program may be gone by then.
    process.returncode = 0
    return process.pid
