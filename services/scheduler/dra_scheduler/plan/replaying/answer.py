"""The answer of ``plan replay``."""

from dra_shared.api.meta import Struct

from dra_scheduler.plan.tables import table


class Starved(Struct):
    """A pod that waited ``waited`` seconds, which is too long. With ``message``, it never got a place."""

    pod: str
    at: float
    waited: float
    message: str = ""


class Waits(Struct):
    """Seconds from the arrival of a pod to its placement, over all placed pods."""

    mean: float = 0.0
    median: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    longest: float = 0.0


class Use(Struct):
    """The devices that were used by one model, device class or namespace.

    ``utilisation`` is the fraction of the model's devices over the span, for classes and namespaces that of all
    devices. ``cost`` is their part of the nodes' prices, which are those of an hour.
    """

    name: str
    device_hours: float
    utilisation: float
    cost: float


class Moment(Struct):
    """The fraction of each model's devices in use from ``at`` seconds on."""

    at: float
    used: dict[str, float]


class Course(Struct):
    """The result of the timeline with one change, called ``name``.

    ``placed`` of ``pods`` got a place, after the ``waits``. ``utilisation`` is the average fraction of all
    devices in use from the first arrival to the last departure, ``span`` seconds later. A partition counts
    as the part of its device's counters that it consumes, a share as the part of the capacity. ``preempted``
    pods had to start again. ``all_waits`` are those of all pods: a pod without a place waits until the end.

    ``cost`` is the price of all nodes over the span, of which ``idle_cost`` pays for devices that nothing
    used. ``models``, ``classes`` and ``namespaces`` are the use of devices by each, and ``moments`` that of
    models over time.
    """

    name: str
    pods: int
    placed: int
    waits: Waits
    utilisation: float
    span: float
    starved: tuple[Starved, ...] = ()
    preempted: int = 0
    all_waits: Waits = Waits()
    cost: float = 0.0
    idle_cost: float = 0.0
    models: tuple[Use, ...] = ()
    classes: tuple[Use, ...] = ()
    namespaces: tuple[Use, ...] = ()
    moments: tuple[Moment, ...] = ()


class Replay(Struct):
    """The answer: the timeline without changes, and with each change added to the previous ones.

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
        """True if no pod starves with the last change."""
        done = self.complete and not self.left_out and bool(self.courses)
        return done and not self.courses[-1].starved
