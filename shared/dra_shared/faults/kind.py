"""A kind of fault: everything about it, in one record.

``what`` describes the effect and ``promise`` what Kubernetes guarantees during the fault, both for people.
``parts`` are the checks of the promise. ``spec`` has the fields of a request, and ``flags`` are the options of
``dralab fault`` for these fields. Each place of faults applies them in its own way: see
:mod:`~dra_shared.faults.requests`, :mod:`~dra_shared.faults.nodes` and :mod:`~dra_shared.faults.processes`.

The promises come from upstream's documentation: the API concepts (retries, conflicts, resumed watches), and the
design of controllers, which act on the current state and so continue the work of a previous instance.
"""

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from dra_shared.faults.parts import Part
from dra_shared.faults.places import LONGEST
from dra_shared.optiontypes import number

#: Returns the number of requests, watches, calls or writes that a fault has affected so far.
Count = Callable[[], int]
#: The place of a fault: requests to the API server, a service's process, a node, or the scheduling itself.
Where = Literal["requests", "process", "node", "scheduling"]


class Spec(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True, frozen=True):
    """The fields of every request for a fault."""

    fault: str
    seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST:
            raise ValueError(f"seconds: must be above 0 and at most {LONGEST:.0f}")


@dataclass(frozen=True, eq=False)
class Flag:
    """An option of ``dralab fault`` that sets a field of a request. ``settings`` are passed to argparse."""

    field: str
    name: str
    help: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def destination(self) -> str:
        """The attribute of the parsed options."""
        return self.name.strip("-")


#: The option of all faults that delay something; each fault has its own default.
DELAY = Flag(
    "delay",
    "--delay",
    "latency, watch-cut, watch-behind: seconds (0.5); driver-slow: seconds (2)",
    {"type": number(0.001, LONGEST, float)},
)


def draw_nothing(rng: random.Random) -> dict[str, Any]:
    """Return no arguments: a storm (a random sequence of faults) uses the defaults of the fault."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fault.

    Args:
        idle: the reason to report why nothing was tested, if the fault affected nothing.
        draw: returns random arguments of the fault for a storm, besides the arguments that all faults of its
            place have.
        lasts: False if the fault has no duration.
    """

    where: ClassVar[Where]

    name: str
    what: str
    promise: str
    parts: Sequence[Part]
    spec: type[Any]
    flags: Sequence[Flag] = ()
    idle: str = ""
    draw: Callable[[random.Random], dict[str, Any]] = draw_nothing
    lasts: bool = True

    @property
    def options(self) -> tuple[str, ...]:
        """The fields that a request may have, besides its name and ``seconds``."""
        return tuple(sorted(name for name in self.spec.__struct_fields__ if name not in ("fault", "seconds")))
