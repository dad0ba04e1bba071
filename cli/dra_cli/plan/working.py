"""Long work: progress on a terminal, and an interruption that keeps what was found."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from dra_scheduler.componentconfig.load import Loaded, load
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.gaps import gaps, gate_gaps
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.simulation import Simulation
from dra_shared.features import FeatureGates, read
from dra_shared.log import configure
from dra_shared.version import DEFAULT, Version, release

from dra_cli.errors import CommandError
from dra_cli.plan.running import UNKNOWN, Running, accepted

_EVERY = 0.5


class Progress:
    """Shows a number on a terminal; Ctrl-C has the work end with what it has, a second one at once."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._shown = not quiet and sys.stderr.isatty()
        self._next = time.monotonic() + _EVERY
        self._tries = 0
        self._stopped = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self._shown:
            os.write(sys.stderr.fileno(), b"\r\x1b[K")

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._stopped:
            raise KeyboardInterrupt
        self._stopped = True

    def running(self) -> bool:
        """Whether to go on."""
        self._tries += 1
        if self._shown and time.monotonic() > self._next:
            self.at(self._tries, "tried")
        return not self._stopped

    @property
    def going(self) -> bool:
        """Whether it was not interrupted."""
        return not self._stopped

    def at(self, count: int, what: str = "") -> None:
        """So many are done."""
        if self._shown and time.monotonic() > self._next:
            self._next = time.monotonic() + _EVERY
            os.write(sys.stderr.fileno(), f"\r\x1b[K{count} {what or self._what}".encode())


@dataclass(frozen=True)
class Settings:
    """How the scheduler runs: feature gates and version as its options take them, a KubeSchedulerConfiguration.

    What the options leave open is as the cluster has it. ``before`` is the cluster's version before a change of it.
    """

    gates: str = ""
    version: str = ""
    config: Path | None = None
    seed: int = 0
    cluster: Running = UNKNOWN
    before: Version | None = None

    @classmethod
    def of(cls, chosen: argparse.Namespace, cluster: Running) -> "Settings":
        """What a question's options say."""
        return cls(chosen.feature_gates, chosen.kubernetes_version, chosen.config, chosen.seed, cluster)

    def features(self) -> tuple[Version, dict[str, bool]]:
        """The version, and the feature gates that are set.

        Raises:
            CommandError: the version or a feature gate is malformed.
        """
        try:
            own = self.cluster.version or DEFAULT
            version = Version.parse(self.version) if self.version else own
            # Another version has other defaults: only what was set goes with the cluster.
            now = self.cluster.states() if version == own else self.cluster.gates
            wanted = accepted(now, version) | read(self.gates, version)
            text = ",".join(f"{name}={str(on).lower()}" for name, on in wanted.items())
            named = FeatureGates.parse(text, version)
        except ValueError as error:
            raise CommandError(str(error), 2) from error
        # A gate that stands for many, such as AllAlpha, sets those that it stands for.
        return version, {
            name: named.enabled(name)
            for name, gate in release(version).gates.items()
            if name in wanted or named.enabled(name) != gate.default
        }

    def changed_to(self, version: str) -> "Settings":
        """Return the settings after a change of the version; empty: it stays."""
        now = self.features()[0]
        if not version or Version.parse(version) == now:
            return self
        return replace(self, version=version, before=self.before or now)

    def gates_for(self, objects: Objects) -> FeatureGates:
        """Return the feature gates of a cluster that has these objects.

        After a change of the version, the gates that had to be set before are set.
        """
        version, chosen = self.features()
        if self.before is None:
            return objects.gates(chosen, version)
        needed = {need.gate: True for need in objects.needs(chosen, self.before)}
        return FeatureGates(version, **(accepted(needed, version) | chosen))


def simulation(
    objects: Objects, asked: Wanted | None, settings: Settings, running: Callable[[], bool]
) -> Simulation:
    """The scheduler with the world's objects; raises as :func:`new_simulation`."""
    world = new_simulation(objects, asked, settings)(running)
    world.load((resource, each.values()) for resource, each in objects)
    return world


def new_simulation(
    objects: Objects, asked: Wanted | None, settings: Settings
) -> Callable[[Callable[[], bool]], Simulation]:
    """Makes schedulers without objects for that world.

    Raises:
        CommandError: the version, a feature gate or the configuration is malformed.
    """
    configure("plan", "error", final=False)
    gates = settings.gates_for(objects if asked is None else asked.within(objects))
    loaded = _loaded(settings.config, gates) if settings.config is not None else None
    made = SchedulerConfig(gates=gates, loaded=loaded)
    return lambda running: Simulation(made, seed=settings.seed, running=running)


def _loaded(config: Path, gates: FeatureGates) -> Loaded:
    try:
        return load(config.read_text(), gates)
    except (OSError, ValueError) as error:
        raise CommandError(f"{config}: {error}") from error


def uncertain(objects: Objects, settings: Settings) -> list[str]:
    """Name what a world lacks and what is assumed of it."""
    return [*gaps(objects), *uncertain_gates(objects, settings)]


def uncertain_gates(objects: Objects, settings: Settings, *, asked: Wanted | None = None) -> list[str]:
    """Name the gates that count as on only because objects need them, with ``asked`` those of the question alone."""
    version, chosen = settings.features()
    found = objects.needed_gates()
    if asked is not None:
        found = {
            gate: holder
            for gate, holder in asked.within(Objects()).needed_gates().items()
            if gate not in found
        }
    return gate_gaps(found, chosen, version)
