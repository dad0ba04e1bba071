"""A cluster whose services are processes: ``dralab up`` for the duration of a context."""

import asyncio
import atexit
import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from dra_kube.cluster import Cluster, Record
from dra_lab.forkserver import ADDRESS
from dra_lab.lifetime import PARENT
from dra_lab.starting import start_up, stop, up_words, wait_until_ready
from dra_lab.warm import Warm

from dra_testing.options import Options

#: The process that has imported the services. Later clusters are forked from it. The list is empty until the second
#: cluster of this process starts.
WARM: list[Warm] = []

_started = itertools.count()
_STOP_TIMEOUT = 30.0


class Processes:
    """``dralab up`` in the directory ``data``. When the context is entered, the cluster is ready for pods.

    Raises:
        UserError: the cluster does not start. The message has the end of its log.
    """

    def __init__(self, options: Options, data: Path) -> None:
        self.options = options
        self.data = data
        self._process: subprocess.Popen[bytes] | None = None
        self._record: Record
        self._log = data / "up.log"

    @property
    def url(self) -> str:
        """The API server's address."""
        return self._record.server

    @property
    def urls(self) -> dict[str, str]:
        """The addresses of the scheduler and the node agent."""
        return {name: service.url for name, service in Cluster(self.data).record().services.items()}

    async def __aenter__(self) -> Self:
        words = ["up", *arguments(self.options), "--data", str(self.data)]
        self._process = start_up(words, self._log, {**_warm_environment(), PARENT: str(os.getpid())})
        try:
            self._record = await wait_until_ready(self._process, self.data, self._log)
        except BaseException:
            await stop(self._process, _STOP_TIMEOUT)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None:
            await stop(self._process, _STOP_TIMEOUT)

    async def pause(self, seconds: float) -> None:
        """Sleep, so that the services can work."""
        await asyncio.sleep(seconds)


def _warm_environment() -> Mapping[str, str]:
    """Return the environment variable that names the process to fork from; empty for the first cluster.

    A process that starts only one cluster does not need it, and would have to wait for it.
    """
    if not next(_started) or ADDRESS in os.environ or sys.platform != "linux":
        return {}
    if not WARM:
        WARM.append(Warm())
        atexit.register(WARM[0].close)
    return WARM[0].environment


def arguments(options: Options) -> list[str]:
    """Return the options as arguments of ``dralab up``."""
    return up_words(
        nodes=options.nodes,
        gpus=options.gpus,
        drivers=options.drivers or ("none",),
        version=options.version,
        gates=options.gates,
        operators=options.operators,
    )
