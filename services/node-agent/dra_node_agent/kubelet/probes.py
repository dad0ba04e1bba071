"""Liveness, readiness and startup probes (pkg/kubelet/prober)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from dra_shared.api.container import Container, Probe
from dra_shared.clock import Clock

from dra_node_agent.runtime.base import Runtime, RuntimeFailure

STARTUP, READINESS, LIVENESS = "Startup", "Readiness", "Liveness"


@dataclass(frozen=True)
class ProbeFailure:
    """A failed probe. ``conclusive``: it has failed as many times in a row as its failure threshold."""

    kind: str
    message: str
    conclusive: bool


class Prober:
    """The probes of one running container. ``on_change`` is called when ``started`` or ``ready`` changes."""

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        container: Container,
        container_id: str,
        pod_ip: str,
        *,
        on_change: Callable[[], None],
        on_failure: Callable[[ProbeFailure], None],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._container = container
        self._id = container_id
        self._pod_ip = pod_ip
        self._on_change = on_change
        self._on_failure = on_failure
        self.started = container.startup_probe is None
        self.ready = container.readiness_probe is None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to probe."""
        if self._container.startup_probe is not None:
            self._run(STARTUP, self._container.startup_probe)
        else:
            self._start_others()

    def stop(self) -> None:
        """Stop probing."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def _start_others(self) -> None:
        if self._container.readiness_probe is not None:
            self._run(READINESS, self._container.readiness_probe)
        if self._container.liveness_probe is not None:
            self._run(LIVENESS, self._container.liveness_probe)

    def _run(self, kind: str, probe: Probe) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(self._loop(kind, probe)))

    async def _loop(self, kind: str, probe: Probe) -> None:
        await self._clock.sleep(probe.initial_delay_seconds or 0)
        period = probe.period_seconds or 10
        needed = {True: probe.success_threshold or 1, False: probe.failure_threshold or 3}
        last, run = None, 0
        while True:
            ok, output = await self._once(probe)
            run = run + 1 if ok == last else 1
            last = ok
            conclusive = run >= needed[ok]
            if not ok:
                self._on_failure(ProbeFailure(kind, f"{kind} probe failed: {output}", conclusive))
            if conclusive and self._conclude(kind, ok):
                return
            await self._clock.sleep(period)

    def _conclude(self, kind: str, ok: bool) -> bool:
        """Act on a conclusive result. Return True if the probe is finished."""
        if kind == STARTUP:
            if ok:
                self.started = True
                self._start_others()
                self._on_change()
            return True
        if kind == READINESS:
            if self.ready != ok:
                self.ready = ok
                self._on_change()
            return False
        return not ok

    async def _once(self, probe: Probe) -> tuple[bool, str]:
        timeout = float(probe.timeout_seconds or 1)
        try:
            if probe.exec is not None:
                code, output = await self._runtime.exec(self._id, probe.exec.command, timeout)
                return code == 0, output.decode(errors="replace")[:10240]
            return await self._runtime.probe(
                self._id, self._kind_of(probe), probe, self._pod_ip, self._container
            )
        except RuntimeFailure as error:
            return False, str(error)

    def _kind_of(self, probe: Probe) -> str:
        for kind, known in (
            ("startup", self._container.startup_probe),
            ("liveness", self._container.liveness_probe),
        ):
            if known is probe:
                return kind
        return "readiness"


def has_probes(container: Container) -> bool:
    """True if the container has any probe."""
    return any((container.startup_probe, container.readiness_probe, container.liveness_probe))
