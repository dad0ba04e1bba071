"""Run a cluster for the duration of a command: it is started before the command and stopped after it."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dra_kube.cluster import Cluster
from dra_shared.errors import UserError

from dra_lab.clusteroptions import ClusterOptions
from dra_lab.forkserver import ForkServer, fork_servers
from dra_lab.starting import run_services

# The exit codes of shells for a program that does not exist, and for one that cannot be run.
_NOT_FOUND, _NOT_RUN = 127, 126


def around(options: ClusterOptions, data: Path | None, command: Sequence[str]) -> int:
    """Run the command with ``KUBECONFIG`` and ``DRALAB_DATA`` set. Return its exit code, 128 and more for a signal.

    The cluster's directory is deleted at the end, unless ``data`` names one.

    Raises:
        UserError: the cluster does not start, or the command does not exist.
    """
    with contextlib.ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dralab-run-")))
        forks = [stack.enter_context(contextlib.closing(server)) for server in fork_servers()]
        return asyncio.run(_around(Cluster(folder), options, command, forks))


async def _around(
    cluster: Cluster, options: ClusterOptions, command: Sequence[str], forks: Sequence[ForkServer]
) -> int:
    async with run_services(cluster, options, _quiet, forks):
        environment = {"KUBECONFIG": str(cluster.kubeconfig), "DRALAB_DATA": str(cluster.data)}
        return await run(command, environment)


async def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command with these additional environment variables. Return its exit code, 128 and more for a signal.

    Raises:
        UserError: the command does not exist, or cannot be run.
    """
    try:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **environment})
    except FileNotFoundError as error:
        raise UserError(f"{command[0]}: command not found", _NOT_FOUND) from error
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}", _NOT_RUN) from error
    loop = asyncio.get_running_loop()
    # Ignore Ctrl-C: the command gets it, too, because it is in the terminal's process group, and decides how to end.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, process.send_signal, number)
    code = await process.wait()
    return 128 - code if code < 0 else code


def _quiet(_: str) -> None:
    """Print nothing, because the output belongs to the command."""
