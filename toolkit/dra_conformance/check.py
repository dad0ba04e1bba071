"""Checks: each tests one promise, a requirement of the contract between kubelet, API server and DRA driver."""

import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dra_shared.version import VERSIONS, Version, release

if TYPE_CHECKING:
    from dra_conformance.session import Session

Try = Callable[["Session"], Awaitable[None]]


class Breach(Exception):
    """The driver breaks the promise; the message says what the driver did."""


class NotOffered(Exception):
    """The driver lacks the feature that the promise is about, or the suite lacks an option that the check needs."""


class NotShown(NotOffered):
    """The driver's behaviour makes it impossible to test the promise. In a strict run this counts as a breach."""


class Unmet(Exception):
    """The check cannot be run, because something failed that another check reports."""


class Stage(enum.IntEnum):
    """When a check runs. The stages run in this order; stages that end the driver come last."""

    START = 0
    """Right after the first start: checks of the registration and the slices."""
    BACKGROUND = 1
    """During the next stage: checks that take long and do not disturb others."""
    CALLS = 2
    """Checks that prepare and unprepare claims."""
    OUTAGE = 3
    """Checks in which the API server fails or the kubelet restarts."""
    RESTART = 4
    """Checks that kill, stop and start the driver."""
    END = 5
    """Checks of everything that was recorded during the run."""


@dataclass(frozen=True)
class Check:
    """A check of one promise.

    Args:
        id: ``area.name``.
        title: a short form of the promise.
        promise: the exact promise.
        source: where upstream documents the promise.
        cost: what a breach costs users.
        recommended: True if upstream recommends but does not require to keep the promise.
        rests_on: ids of more basic checks; if one of them fails, this check is reported as untried.
        since, until: the first and the last version of Kubernetes whose contract has the promise.
        gate: the feature gate of the promise; empty if every cluster has it.
        attempt: runs the check; raises Breach, NotOffered or Unmet.
    """

    id: str
    title: str
    promise: str
    source: str
    cost: str
    stage: Stage
    recommended: bool
    rests_on: tuple[str, ...]
    since: Version
    until: Version
    gate: str
    attempt: Try

    @property
    def area(self) -> str:
        """The name of the check's area."""
        return self.id.partition(".")[0]

    def absence(self, version: Version) -> str:
        """Return why the version's contract lacks the promise, or "" if it has it."""
        if version < self.since:
            return f"Kubernetes has it since {self.since}"
        return f"Kubernetes had it until {self.until}" if version > self.until else ""

    def maturity(self, version: Version) -> str:
        """Return the gate and its stage in the version, such as ``DRADeviceTaints, beta``, or "" if it is GA."""
        gate = release(version).gates.get(self.gate)
        if gate is None or gate.stage == "GA":
            return ""
        return f"{self.gate}, {gate.stage.lower()}{'' if gate.default else ', off by default'}"


class Area:
    """The checks of one area, in the order of their declaration.

    Args:
        rests_on: checks that each check of the area rests on.
        since: the first version of Kubernetes whose contract has these promises.
        gate: the feature gate of these promises.
    """

    def __init__(
        self,
        name: str,
        stage: Stage = Stage.CALLS,
        *,
        rests_on: Sequence[str] = (),
        since: Version = VERSIONS[0],
        gate: str = "",
    ) -> None:
        self.name = name
        self.checks: list[Check] = []
        self._stage = stage
        self._rests_on = tuple(rests_on)
        self._since = since
        self._gate = gate

    def check(
        self,
        name: str,
        title: str,
        *,
        promise: str,
        source: str,
        cost: str,
        stage: Stage | None = None,
        recommended: bool = False,
        rests_on: Sequence[str] = (),
        since: Version | None = None,
        until: Version = VERSIONS[-1],
        gate: str | None = None,
    ) -> Callable[[Try], Try]:
        """Return a decorator that declares a function as a check of the area."""

        def declare(attempt: Try) -> Try:
            own = f"{self.name}.{name}"
            declared = Check(
                id=own,
                title=title,
                promise=promise,
                source=source,
                cost=cost,
                stage=self._stage if stage is None else stage,
                recommended=recommended,
                rests_on=tuple(base for base in (*self._rests_on, *rests_on) if base != own),
                since=since or self._since,
                until=until,
                gate=self._gate if gate is None else gate,
                attempt=attempt,
            )
            self.checks.append(declared)
            return attempt

        return declare


class Outcome(enum.StrEnum):
    """The outcome of a check."""

    KEPT = "kept"
    BROKEN = "broken"
    WARNING = "warning"
    """A recommended promise is broken."""
    SKIPPED = "skipped"
    """The driver does not offer the feature."""
    NOT_SHOWN = "not shown"
    """The driver offers the feature, but its behaviour makes it impossible to test the promise."""
    UNTRIED = "untried"
    """The check could not be run."""


@dataclass(frozen=True)
class Result:
    """The outcome of a check, and its duration in seconds."""

    check: Check
    outcome: Outcome
    message: str = ""
    seconds: float = 0.0
