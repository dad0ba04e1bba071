"""Faults of requests to the API server, and of its watches."""

import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dra_shared.clock import Clock
from dra_shared.faults.kind import Flag, Kind, Spec, Where
from dra_shared.faults.places import AGENTS, VERBS
from dra_shared.optiontypes import number


@dataclass(frozen=True)
class Refusal:
    """An error as the answer. 409 is a conflict."""

    code: int


#: The result for a request: it is handled, handled without an answer, lost, or refused.
Fate = Literal["handled", "unanswered", "lost"] | Refusal


class RequestFault(Spec, kw_only=True, frozen=True):
    """A fault of a share of requests. An empty list of agents, resources or verbs means all.

    ``service`` limits the fault to one service's requests; empty means all clients. The share is drawn from
    ``seed``.
    """

    agents: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    seed: int = 0
    service: str = ""
    share: float = 1.0
    verbs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ValueError("share: must be above 0 and at most 1")
        if self.service and self.service not in AGENTS:
            raise ValueError(f"there is no service {self.service!r}: choose {', '.join(AGENTS)}")
        if unknown := sorted({*self.verbs} - {*VERBS}):
            raise ValueError(f"there is no verb {unknown[0]!r}: choose {', '.join(VERBS)}")


#: The options that all faults of requests have.
SELECTION = (
    Flag(
        "share",
        "--share",
        "the share of the requests that is affected (1)",
        {"type": number(0.001, 1, float)},
    ),
    Flag(
        "verbs",
        "--verb",
        "only requests with this verb: get, list, watch, …",
        {"action": "append", "default": []},
    ),
    Flag(
        "resources",
        "--resource",
        "only requests for this resource: pods, …",
        {"action": "append", "default": []},
    ),
    Flag(
        "agents",
        "--agent",
        "only requests of clients whose User-Agent contains this text",
        {"action": "append", "default": []},
    ),
    Flag("seed", "--seed", "seed of the random choice of requests (0)", {"type": int}),
)


@dataclass(frozen=True)
class Meeting:
    """A request that a fault affects. ``left`` is the remaining time of the fault, in seconds."""

    verb: str
    left: float
    rng: random.Random
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class RequestKind(Kind):
    """A fault of requests.

    ``meet`` returns the outcome of one request. ``affected`` are the verbs that it affects, if not all.
    """

    where: ClassVar[Where] = "requests"

    meet: "Callable[[Meeting, RequestFault], Awaitable[Fate]]"
    affected: frozenset[str] = frozenset(VERBS)
    idle: str = "it affected no request"


class WatchFault(Spec, kw_only=True, frozen=True):
    """A fault of all watches."""

    delay: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delay(self.delay, self.seconds)


@dataclass
class Watches:
    """The API server's watches for the time of a fault. ``met`` counts those that it affected.

    ``cut`` ends all watches and returns their number. ``hold`` delays their events (True) or sends the delayed
    ones (False), and returns the number of watches.
    """

    clock: Clock
    until: float
    cut: Callable[[], int]
    hold: Callable[[bool], int]
    met: int = 0

    def seconds_left(self) -> float:
        """Return the remaining time of the fault, in seconds."""
        return self.until - self.clock.monotonic()


@dataclass(frozen=True, kw_only=True)
class WatchKind(Kind):
    """A fault of watches. ``disturb`` runs until the fault's time has passed, or is cancelled."""

    where: ClassVar[Where] = "requests"

    disturb: "Callable[[Watches, WatchFault], Coroutine[Any, Any, None]]"
    idle: str = "no watch was open"


def check_delay(delay: float, seconds: float) -> None:
    """Check a delay within a fault.

    Raises:
        ValueError: it is not above 0, or longer than the fault.
    """
    if not 0 < delay <= seconds:
        raise ValueError("delay: must be above 0 and at most seconds")
