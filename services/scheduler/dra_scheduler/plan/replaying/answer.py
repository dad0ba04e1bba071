"""The answer of ``plan replay``."""

from dra_shared.api.meta import Struct

from dra_scheduler.plan.tables import table


class Starved(Struct):
    """A pod that waited too long: ``waited`` seconds, and with ``message`` for the whole time, as it has no place."""

    pod: str
    at: float
    waited: float
    message: str = ""


class Waits(Struct):
    """Seconds from a pod's arrival to its place, over all pods that got one."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    longest: float = 0.0


class Course(Struct):
    """How the timeline went with one change: ``name`` says which.

    ``placed`` of ``pods`` got a place; ``waits`` is how long that took. ``utilisation`` is the part of all devices that
    was in use, from the first arrival to the last departure ``span`` seconds later: a partition counts as what it takes
    of its device's counters, a share as what it takes of the capacity. ``preempted`` pods had to start again.
    """

    name: str
    pods: int
    placed: int
    waits: Waits
    utilisation: float
    span: float
    starved: tuple[Starved, ...] = ()
    preempted: int = 0


class Replay(Struct):
    """The answer: the timeline as it is, and with each change and all before it.

    ``left_out`` are workloads of unknown kinds among the shapes, whose pods are not counted.
    """

    courses: tuple[Course, ...]
    complete: bool = True
    uncertain: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        head = ("change", "placed", "mean wait", "longest wait", "utilisation", "starved")
        rows = [
            (
                c.name,
                f"{c.placed} of {c.pods}",
                c.waits.mean,
                c.waits.longest,
                f"{c.utilisation:.1%}",
                len(c.starved),
            )
            for c in self.courses
        ]
        return table("Replay", head, rows)

    @property
    def good(self) -> bool:
        """Whether with the last change no pod starves."""
        done = self.complete and not self.left_out and bool(self.courses)
        return done and not self.courses[-1].starved
