"""The answer of ``plan replay``."""

from dra_shared.api.meta import Struct

from dra_scheduler.plan.tables import table


class Starved(Struct):
    """A pod that waited longer than allowed: ``waited`` seconds. With ``message``, it never got a place."""

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

    ``utilisation`` is the average fraction of devices in use over the span: of the model's devices, or of all
    devices for a class or namespace. ``cost`` is the share of the nodes' cost, from prices per hour.
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
    devices in use from the first arrival to the last departure. ``span`` is that time in seconds. A partition
    counts as the fraction of its device's counters that it consumes, a share as the fraction of the capacity.
    ``preempted`` pods had to start again. ``all_waits`` are the waits of all pods: a pod without a place counts
    as waiting until the end.

    ``cost`` is the price of all nodes over the span, ``idle_cost`` the part of it for unused devices.
    ``models``, ``classes`` and ``namespaces`` are the device use of each, and ``moments`` is the use of models
    over time.
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
