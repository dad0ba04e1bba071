"""A cluster whose services are processes: ``dralab up``, for as long as a context lasts."""

import asyncio
import atexit
import contextlib
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
from dra_lab.warm import Warm
from dra_shared.errors import UserError

from dra_testing.options import Options

#: What the clusters of this process after the first are forked from, once there is a second.
WARM: list[Warm] = []

_started = itertools.count()
_STOP_TIMEOUT = 30.0
_POLL = 0.01


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
        self._process = self._start()
        try:
            # It ends by itself where it does not become ready.
            while not self._is_ready():
                if self._process.poll() is not None:
                    raise UserError(self._log.read_text(errors="replace").strip() or "dralab up ended")
                await asyncio.sleep(_POLL)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop()

    async def pause(self, seconds: float) -> None:
        """Let the services work for a moment."""
        await asyncio.sleep(seconds)

    def _start(self) -> subprocess.Popen[bytes]:
        """The process. asyncio does not start it: under uvloop that is a fork, where gRPC's handlers may crash."""
        with self._log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "dralab", "up", *arguments(self.options), "--data", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **_warm(), PARENT: str(os.getpid())},
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        cluster = Cluster(self.data)
        try:
            self._record = cluster.record()
        except UserError:
            return False
        return self._record.ready

    async def _stop(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, _STOP_TIMEOUT)
        finally:
            # Its services end with it: they watch a pipe that it holds.
            process.kill()
            process.wait()


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
    words = ["--relaxed", "--port", "0", "--nodes", str(options.nodes), "--gpus", options.gpus]
    words += ["--kubernetes-version", options.version]
    for driver in options.drivers or ("none",):
        words += ["--driver", driver]
    if options.gates:
        words += [
            "--feature-gates",
            ",".join(f"{name}={str(on).lower()}" for name, on in options.gates.items()),
        ]
    return words
