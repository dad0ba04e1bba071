"""A cluster whose services are processes: ``dralab up``, for as long as a context lasts."""

import asyncio
import atexit
import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from dra_kube.cluster import Cluster, Record
from dra_lab.forkserver import ADDRESS
from dra_lab.lifetime import PARENT
from dra_lab.starting import start_up, stop, up_words, wait_until_ready
from dra_lab.warm import Warm

from dra_testing.options import Options

#: What the clusters of this process after the first are forked from, once there is a second.
WARM: list[Warm] = []

_started = itertools.count()
_STOP_TIMEOUT = 30.0


class Processes:
    """``dralab up`` in ``data``; ready for pods when it is entered.

    Raises:
        UserError: it does not start; with its last words.
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
        """The addresses of the services that answer questions of their own."""
        return {name: service.url for name, service in Cluster(self.data).record().services.items()}

    async def __aenter__(self) -> Self:
        words = ["up", *arguments(self.options), "--data", str(self.data)]
        self._process = start_up(words, self._log, {**_warm(), PARENT: str(os.getpid())})
        try:
            self._record = await wait_until_ready(self._process, self.data, self._log)
        except BaseException:
            await stop(self._process, _STOP_TIMEOUT)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            await stop(self._process, _STOP_TIMEOUT)

    async def pause(self, seconds: float) -> None:
        """Let the services work for a moment."""
        await asyncio.sleep(seconds)


def _warm() -> Mapping[str, str]:
    """The variable that names the process which clusters are forked from; none for the first one.

    A process that starts one cluster alone does not need it, and would wait for it.
    """
    if not next(_started) or ADDRESS in os.environ or sys.platform != "linux":
        return {}
    if not WARM:
        WARM.append(Warm())
        atexit.register(WARM[0].close)
    return WARM[0].environment


def arguments(options: Options) -> list[str]:
    """The options as words for ``dralab up``."""
    return up_words(
        nodes=options.nodes,
        gpus=options.gpus,
        drivers=options.drivers or ("none",),
        version=options.version,
        gates=options.gates,
    )
