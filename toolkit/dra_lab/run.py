"""``up`` and ``down``: start and stop the processes of a cluster."""

import asyncio
import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
from dra_kube.cluster import Cluster, own_console
from dra_kube.progress import Progress
from dra_shared.errors import UserError

from dra_lab.clusteroptions import ClusterOptions
from dra_lab.forkserver import ForkServer
from dra_lab.lifetime import reason_to_stop, take_parent
from dra_lab.services import ClusterServices, Reporter
from dra_lab.starting import ready_record, start_up
from dra_lab.status import count_nodes

T = TypeVar("T")

_STOP_TIMEOUT = 30.0
_PROGRESS = "nodes ready"
_POLL = 0.02
_SHOW_EVERY = 0.5
_COUNTED_A_SECOND = 500


async def up(data: Path, options: ClusterOptions, forks: Sequence[ForkServer]) -> None:
    """Run a cluster until SIGINT or SIGTERM. ``forks`` start its services; the caller closes them."""
    began = time.monotonic()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    cluster = Cluster(data)
    report = Reporter()
    parent = take_parent()
    with cluster.locked():
        services = ClusterServices(cluster, options, report, forks)
        try:
            async with contextlib.AsyncExitStack() as stack:
                watching = asyncio.create_task(_stop_without_need(cluster, parent, stop, report))
                stack.callback(watching.cancel)
                with Progress(_PROGRESS, total(options)) as progress:
                    shown = asyncio.create_task(_show_nodes(cluster, progress))
                    stack.callback(shown.cancel)
                    server = await _unless_stopped(stop, stack.enter_async_context(services.run()))
                    shown.cancel()
                if server is not None:
                    report(f"ready in {time.monotonic() - began:.1f} s: {server}\n{_hints(cluster)}")
                await stop.wait()
                report("stopping")
        finally:
            cluster.forget()


async def _stop_without_need(
    cluster: Cluster, parent: int, stop: asyncio.Event, report: Callable[[str], None]
) -> None:
    """Set ``stop`` when the cluster's parent has ended or its directory is gone."""
    report(await reason_to_stop(cluster, parent))
    stop.set()


def _hints(cluster: Cluster) -> str:
    """Return the lines that say how to reach the cluster from a shell and from a browser."""
    kubeconfig = shlex.quote(str(cluster.kubeconfig))
    return f"export KUBECONFIG={kubeconfig}\nconsole: {own_console(cluster) or 'dralab console'}"


def total(options: ClusterOptions) -> int:
    """Return the number of nodes that the cluster starts with."""
    return sum(len(pool.nodes) for pool in options.pools)


async def _show_nodes(cluster: Cluster, progress: Progress) -> None:
    """Print the number of ready nodes as it grows."""
    while progress.is_long:
        await asyncio.sleep(_show_every(progress.total))
        with contextlib.suppress(UserError, httpx.HTTPError, OSError, ValueError, KeyError):
            progress.step(min(await _ready_nodes(cluster), progress.total))


def _show_every(nodes: int) -> float:
    """Return the seconds between two counts. Large clusters are counted less often, because lists of nodes are slow."""
    return max(_SHOW_EVERY, nodes / _COUNTED_A_SECOND)


async def _ready_nodes(cluster: Cluster) -> int:
    states = await count_nodes(cluster)
    return sum(number for state, number in states.items() if state.split(",")[0] == "Ready")


async def _unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of the work, or None if ``stop`` was set first, which cancels the work."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def detach(data: Path, arguments: list[str], nodes: int = 0) -> str:
    """Start ``dralab up`` in the background, and return its output once the cluster is ready.

    The process exits by itself if the cluster does not become ready.

    Raises:
        UserError: the process exited before that.
    """
    cluster = Cluster(data)
    with cluster.locked():
        log = cluster.logs / "up.log"
    attached = [argument for argument in arguments if argument not in ("--detach", "-d")]
    process = start_up(attached, log)
    progress, shown = Progress(_PROGRESS, nodes), time.monotonic()
    while True:
        if progress.is_long and time.monotonic() - shown > _show_every(nodes):
            with contextlib.suppress(UserError, httpx.HTTPError, OSError, ValueError, KeyError):
                progress.step(min(asyncio.run(_ready_nodes(cluster)), progress.total))
            shown = time.monotonic()
        if process.poll() is not None:
            words = log.read_text(errors="replace").strip().splitlines()
            raise UserError(
                words[-1].removeprefix("dralab: ") if words else f"up ended; see {log}",
                max(process.returncode, 1),
            )
        # The process prints the next steps just after its record says that it is ready.
        if ready_record(cluster) is not None and (text := log.read_text().strip()):
            progress.clear()
            # The outcome has been printed already.
            return "\n".join(line for line in text.splitlines() if not line.startswith(_PROGRESS))
        try:
            time.sleep(_POLL)
        except KeyboardInterrupt:
            process.terminate()
            raise


def down(data: Path) -> None:
    """Stop the cluster of ``data`` and wait until all its processes are gone.

    This also works while the cluster starts or stops, and if its directory was removed.

    Raises:
        UserError: no cluster runs there, or it does not stop.
    """
    cluster = Cluster(data)
    pid = cluster.holder() or cluster.record().pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT
    while cluster.is_running() or cluster.holder() == pid:
        if time.monotonic() > deadline:
            raise UserError(f"process {pid} does not stop; see {cluster.logs}")
        time.sleep(_POLL)
