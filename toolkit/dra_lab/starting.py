"""Start a cluster: its services as children of this process, or ``dralab up`` as a separate process."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from dra_kube.cluster import Cluster, Record
from dra_shared.errors import UserError

from dra_lab.clusteroptions import ClusterOptions
from dra_lab.forkserver import ForkServer
from dra_lab.services import ClusterServices

_POLL = 0.01


@contextlib.asynccontextmanager
async def run_services(
    cluster: Cluster, options: ClusterOptions, report: Callable[[str], None], forks: Sequence[ForkServer] = ()
) -> AsyncIterator[str]:
    """Hold the cluster's directory and run its services until the context ends. Yield the API server's URL.

    Raises:
        UserError: another process runs the cluster, or a service does not become ready.
    """
    with cluster.locked():
        try:
            async with ClusterServices(cluster, options, report, forks).run() as server:
                yield server
        finally:
            cluster.forget()


def up_words(
    *,
    nodes: int,
    gpus: str,
    drivers: Sequence[str] = (),
    version: str = "",
    gates: Mapping[str, bool] | None = None,
    operators: Sequence[str] = (),
) -> list[str]:
    """Return the options of ``dralab up`` for a cluster that a program starts: relaxed durability, and any free
    port.
    """
    words = ["--relaxed", "--port", "0", "--nodes", str(nodes), "--gpus", gpus]
    if version:
        words += ["--kubernetes-version", version]
    for driver in drivers:
        words += ["--driver", driver]
    if gates:
        words += ["--feature-gates", ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())]
    if operators:
        words += ["--with", ",".join(operators)]
    return words


def start_up(
    words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start ``dralab`` with these arguments in a new session. Its output goes to ``log``.

    This does not use asyncio: uvloop would fork the process, and gRPC's fork handlers may crash.
    """
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "dralab", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )


def ready_record(cluster: Cluster) -> Record | None:
    """Return the record of a cluster that is ready, or None."""
    try:
        record = cluster.record()
    except UserError:
        return None
    return record if record.ready else None


async def wait_until_ready(process: subprocess.Popen[bytes], data: Path, log: Path) -> Record:
    """Wait until the cluster that the process runs is ready. Return its record.

    Raises:
        UserError: the process ended; the message has the end of its log.
    """
    cluster = Cluster(data)
    # No timeout: the process exits by itself if it does not become ready.
    while (record := ready_record(cluster)) is None:
        if process.poll() is not None:
            raise UserError(_last_words(log) or "dralab up ended")
        await asyncio.sleep(_POLL)
    return record


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace").strip()


async def stop(process: subprocess.Popen[bytes], timeout: float) -> None:
    """Stop the process. Its services stop too, because they watch a pipe that it holds open."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, timeout)
    finally:
        process.kill()
        process.wait()
