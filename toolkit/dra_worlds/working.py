"""Long work: show progress on a terminal, and keep the result so far after an interruption."""

import functools
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.plan.setup import Setup, chosen_gates
from dra_scheduler.plugins.profiles import load
from dra_shared.boundedfiles import read_text
from dra_shared.errors import UserError
from dra_shared.features import FeatureGates
from dra_shared.log import configure
from dra_shared.version import DEFAULT, Version

from dra_worlds.running import UNKNOWN, Running

_EVERY = 0.5


class Progress:
    """Shows a number on a terminal. The first Ctrl-C ends the work with its result so far, the second one at once."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._shown = not quiet and sys.stderr.isatty()
        self._next = time.monotonic() + _EVERY
        self._tries = 0
        self._stopped = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self._shown:
            os.write(sys.stderr.fileno(), b"\r\x1b[K")

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._stopped:
            raise KeyboardInterrupt
        self._stopped = True

    def goes_on(self) -> bool:
        """Return True to continue, False after an interruption. Each call counts as one step of the progress."""
        self._tries += 1
        if self._shown and time.monotonic() > self._next:
            self.at(self._tries, "tried")
        return not self._stopped

    def at(self, count: int, what: str = "") -> None:
        """Show that so many steps are done."""
        if self._shown and time.monotonic() > self._next:
            self._next = time.monotonic() + _EVERY
            os.write(sys.stderr.fileno(), f"\r\x1b[K{count} {what or self._what}".encode())


@dataclass(frozen=True)
class Settings:
    """The scheduler's settings: feature gates and version in the syntax of its options, a KubeSchedulerConfiguration.

    Settings that are not given are the cluster's. ``before`` has the settings before a change of the version.
    """

    gates: str = ""
    version: str = ""
    config: Path | None = None
    seed: int = 0
    cluster: Running = UNKNOWN
    before: "Settings | None" = None

    def features(self) -> tuple[Version, dict[str, bool]]:
        """Return the version, and the feature gates that are set.

        Raises:
            UserError: the version or a feature gate is malformed.
        """
        try:
            own = self.cluster.version or DEFAULT
            version = Version.parse(self.version) if self.version else own
            # Defaults differ between versions, so only gates that were set explicitly are kept for another version.
            now = self.cluster.states() if version == own else self.cluster.gates
            return version, chosen_gates(now, self.gates, version)
        except ValueError as error:
            raise UserError(str(error), 2) from error

    def changed_to(self, version: str) -> "Settings":
        """Return the settings after a change of the version. If ``version`` is empty, nothing changes."""
        if not version or Version.parse(version) == self.features()[0]:
            return self
        return replace(self, version=version, before=self.before or self)

    def setup(self) -> Setup:
        """Return these settings for the planner. Raises the errors of :meth:`features`."""
        configure("plan", "error", final=False)
        version, gates = self.features()
        read = None if self.config is None else functools.partial(_load_config, self.config)
        before = self.before.setup() if self.before is not None else None
        return Setup(version, gates, load=read, seed=self.seed, before=before)


def _load_config(config: Path, gates: FeatureGates) -> Loaded:
    try:
        return load(read_text(config), gates)
    except (OSError, ValueError) as error:
        raise UserError(f"{config}: {error}") from error
