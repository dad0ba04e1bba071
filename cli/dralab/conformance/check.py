"""What a check is: one promise of the contract between kubelet, API server and DRA driver, and how it is tried."""

import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dra_shared.version import VERSIONS, Version

if TYPE_CHECKING:
    from dralab.conformance.session import Session

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
        since: the first version of Kubernetes that has it in its contract.
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
    attempt: Try

    @property
    def area(self) -> str:
        """What it is about."""
        return self.id.partition(".")[0]


class Area:
    """The checks of one area, in the order in which they are declared.

    Args:
        rests_on: what each of them rests on, besides its own.
        since: the first version of Kubernetes that has them in its contract.
    """

    def __init__(
        self,
        name: str,
        stage: Stage = Stage.CALLS,
        *,
        rests_on: Sequence[str] = (),
        since: Version = VERSIONS[0],
    ) -> None:
        self.name = name
        self.checks: list[Check] = []
        self._stage = stage
        self._rests_on = tuple(rests_on)
        self._since = since

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
    ) -> Callable[[Try], Try]:
        """Declare what follows as a check of the area."""

        def declare(attempt: Try) -> Try:
            chosen = self._stage if stage is None else stage
            own = f"{self.name}.{name}"
            bases = tuple(base for base in (*self._rests_on, *rests_on) if base != own)
            self.checks.append(
                Check(own, title, promise, source, cost, chosen, recommended, bases, self._since, attempt)
            )
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
