"""A question to the planner, and the interface for reading its request.

The same request comes in several forms: an HTTP body contains JSON objects, the arguments of a command name
files, and ``World`` takes Python values. A question reads the parts of its request through a :class:`Door`,
which each of these callers implements. The command line loads all questions for its help texts. Therefore a
question's module imports the modules that compute its answer only for type checks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dra_shared.api.meta import Struct

if TYPE_CHECKING:
    from dra_scheduler.plan.fit import PodPlace, Wanted
    from dra_scheduler.plan.moves import Move
    from dra_scheduler.plan.objects import Objects
    from dra_scheduler.plan.planner import Planner
    from dra_scheduler.plan.purchase.buyer import NodeType
    from dra_scheduler.plan.questions.change import ChangeRequest
    from dra_scheduler.plan.replaying.replayer import Timeline
    from dra_scheduler.plan.sweeping.trials import Trials
    from dra_scheduler.plan.tables import Table

Request = TypeVar("Request", bound=Struct)
Answer = TypeVar("Answer", bound=Struct)


class Door(Protocol):
    """Reads the parts of a request, in the form of one caller. Errors are ValueErrors, PlanErrors or UserErrors."""

    @property
    def planner(self) -> Planner:
        """The planner for the world that the question is about."""
        ...

    def pods(self, given: Any, count: int | None = None) -> Wanted:
        """Return the pods of the given objects. ``count`` copies will be tried."""
        ...

    def types(self, given: Any) -> Sequence[NodeType]:
        """Return the node types of the request, from which ``plan nodes`` chooses."""
        ...

    def apply_change(self, change: ChangeRequest) -> tuple[Planner, Sequence[str]]:
        """Return the planner after the change, and the workloads of the change whose kind is unknown."""
        ...

    def apply_changes(self, given: Any) -> tuple[Sequence[tuple[str, Planner]], Sequence[str]]:
        """Return the planner after each cumulative change, with the change's name and its unknown workloads."""
        ...

    def timeline(self, arrivals: Any, objects: Any) -> Recording:
        """Return the timeline of the arrivals. ``objects`` are objects that its pods refer to, or the pods' shapes."""
        ...

    def trials(self, asked: Any) -> Trials:
        """Return the trials of a sweep's request."""
        ...

    def seconds(self, seconds: float) -> float:
        """Check how long a search may take."""
        ...


@dataclass(frozen=True)
class Recording:
    """A timeline, the workloads of unknown kinds among its objects, and errors of reading it."""

    timeline: Timeline
    left_out: Sequence[str] = ()
    problems: Sequence[str] = ()


@dataclass
class Holders:
    """The pod or claim that holds each device after an answer, for the picture of a report.

    A device is ``driver/pool/device``. ``nodes`` has the devices that pods got on each node.
    """

    devices: dict[str, str]
    nodes: dict[str, list[str]] = field(default_factory=dict)

    def place(self, places: Iterable[PodPlace]) -> None:
        """Record that pods hold the devices of their places."""
        for place in places:
            self.devices.update(dict.fromkeys(place.devices, place.pod))
            if place.node:
                self.nodes.setdefault(place.node, []).extend(place.devices)

    def move(self, moves: Sequence[Move]) -> None:
        """Record that moved pods hold their new devices instead of the old ones."""
        for move in moves:
            if move.after != move.before:
                for device in move.devices_before:
                    self.devices.pop(device, None)
        for move in moves:
            self.devices.update(dict.fromkeys(move.devices_after, move.pod))


def draw_nothing(answer: Any, holders: Holders) -> None:
    """No-op: the answer has no places that would change the picture."""


def list_no_tables(answer: Any) -> Sequence[Table]:
    """Return no tables: the answer has no lists."""
    return ()


def write_no_sections(answer: Any) -> Iterable[tuple[str, str]]:
    """Return no sections: the tables of the answer say everything."""
    return ()


def bring_nothing(door: Door, asked: Any, answer: Any) -> Objects:
    """Return the world's objects unchanged, because the answer adds no nodes."""
    return door.planner.objects


@dataclass(frozen=True)
class Question(Generic[Request, Answer]):
    """Everything about a question.

    ``about`` is the command's help. ``request`` has the fields of ``POST /plan/NAME``. ``add_words`` declares
    the arguments of ``dralab plan NAME``, and ``read_words`` converts them to a request. ``text`` formats an
    answer as text, and ``draw`` shows it in the picture of a report. ``counted`` is the verb in the progress
    messages on a terminal.

    A report starts with ``phrase``, the request as a question, and ``headline``, the answer in a sentence.
    Without these two it starts with ``about`` and the first line of ``text``. ``tables`` are the lists of an
    answer; the first one is the answer as CSV. ``sections`` are titles with further HTML. ``bring`` returns the
    world's objects with the nodes that an answer adds. If ``timeless`` is set, the answer is about one moment,
    so its report has a picture, and the cost and use of the world's devices.
    """

    name: str
    about: str
    request: type[Request]
    ask: Callable[[Door, Request], Answer]
    text: Callable[[Answer], str]
    add_words: Callable[[argparse.ArgumentParser], None]
    read_words: Callable[[argparse.Namespace, Objects], Request]
    draw: Callable[[Answer, Holders], None] = draw_nothing
    counted: str = "tried"
    phrase: Callable[[Request], str] | None = None
    headline: Callable[[Answer], str] | None = None
    tables: Callable[[Answer], Sequence[Table]] = list_no_tables
    sections: Callable[[Answer], Iterable[tuple[str, str]]] = write_no_sections
    timeless: bool = True
    bring: Callable[[Door, Request, Answer], Objects] = bring_nothing
