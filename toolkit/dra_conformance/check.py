"""What a check is: one promise of the contract between kubelet, API server and DRA driver, and how it is tried."""

import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dra_shared.version import VERSIONS, Version, release

if TYPE_CHECKING:
    from dra_conformance.session import Session

Try = Callable[["Session"], Awaitable[None]]


class Breach(Exception):
    """The driver does not keep the promise; the message says what it did."""


class NotOffered(Exception):
    """The driver has no feature that the promise is about, or the suite was not given what it needs."""


class Unmet(Exception):
    """The check could not be tried, because something else failed that another check names."""


class Stage(enum.IntEnum):
    """When a check runs. Stages follow each other; those that end the driver come last."""

    START = 0
    """Right after the first start: what the driver registered and published."""
    BACKGROUND = 1
    """Takes long and changes nothing for other checks: runs while the next stage does."""
    CALLS = 2
    """Claims are prepared and unprepared."""
    OUTAGE = 3
    """The API server fails, the kubelet goes away."""
    RESTART = 4
    """The driver is killed, stopped and started."""
    END = 5
    """What the whole run has shown."""


@dataclass(frozen=True)
class Check:
    """One promise.

    Args:
        id: ``area.name``.
        title: what holds, in a few words.
        promise: what exactly a driver promises.
        source: where upstream says so.
        cost: what a breach costs users.
        recommended: whether upstream recommends it and does not demand it.
        rests_on: more basic checks: where one of them is broken, that is what is wrong, and this one was not tried.
        since, until: the first and the last version of Kubernetes that have it in their contract.
        gate: the feature gate that the promise is under; empty for what is in every cluster.
        attempt: tries it; raises Breach, NotOffered or Unmet.
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
        """What it is about."""
        return self.id.partition(".")[0]

    def absence(self, version: Version) -> str:
        """Why it is not in that version's contract; empty where it is."""
        if version < self.since:
            return f"Kubernetes has it since {self.since}"
        return f"Kubernetes had it until {self.until}" if version > self.until else ""

    def maturity(self, version: Version) -> str:
        """Its gate in that version, and what it is there, such as ``DRADeviceTaints, beta``; empty without one."""
        gate = release(version).gates.get(self.gate)
        if gate is None or gate.stage == "GA":
            return ""
        return f"{self.gate}, {gate.stage.lower()}{'' if gate.default else ', off by default'}"


class Area:
    """The checks of one area, in the order in which they are declared.

    Args:
        rests_on: what each of them rests on, besides its own.
        since: the first version of Kubernetes that has them in its contract.
        gate: the feature gate that they are under.
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
        """Declare what follows as a check of the area."""

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
    """How a check ended."""

    KEPT = "kept"
    BROKEN = "broken"
    WARNING = "warning"
    """Recommended, and not kept."""
    SKIPPED = "skipped"
    """Not offered by the driver."""
    UNTRIED = "untried"
    """It could not be tried."""


@dataclass(frozen=True)
class Result:
    """How one check ended, and how many seconds it took."""

    check: Check
    outcome: Outcome
    message: str = ""
    seconds: float = 0.0
