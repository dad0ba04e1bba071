"""What ``POST /insight/plan/…`` takes and answers; ``docs/plan.md`` says what the fields mean.

Mirrors ``dra_scheduler.plan``: a test compares the fields.
"""

from pydantic import Field

from dra_apiserver.front.models import PodReport, Report

_Objects = list[dict[str, object]]
_Texts = dict[str, str]
_Counts = dict[str, int]


class FitRequest(Report):
    """Pods, with the claims, templates and groups that they refer to, and how many copies to try."""

    objects: _Objects
    count: int | None = None
    max: bool = False
    more: bool = False
    without: list[str] = Field(default_factory=list)


class NodesRequest(Report):
    """Nodes to drain, to remove or to upgrade; to upgrade, none means all."""

    nodes: list[str] = Field(default_factory=list)


class TaintRequest(Report):
    """A taint on ``node``, or on ``device`` of the ``driver`` in ``pool``."""

    key: str
    effect: str
    value: str = ""
    node: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class ChangeRequest(Report):
    """An edit: objects in place of those of the same names, nodes that go, and what the scheduler runs with."""

    objects: _Objects = Field(default_factory=list)
    remove: list[str] = Field(default_factory=list)
    feature_gates: str = ""
    kubernetes_version: str = ""
    config: dict[str, object] | None = None
    name: str = ""


class NodeTypeRequest(Report):
    """Nodes that can be bought: ``objects`` are a Node and its ResourceSlices, of which each new one is a copy."""

    name: str
    price: float
    objects: _Objects
    limit: int | None = None


class PurchaseRequest(Report):
    """The types, and pods that come on top of those that wait; ``seconds`` is how long the search may take."""

    types: list[NodeTypeRequest]
    objects: _Objects = Field(default_factory=list)
    count: int | None = None
    seconds: float = 20.0


class PackRequest(Report):
    """Pods to make room for, if any; ``seconds`` is how long the search for moves may take."""

    objects: _Objects = Field(default_factory=list)
    count: int | None = None
    seconds: float = 20.0


class ArrivalRequest(Report):
    """``object`` is a pod that comes ``at`` so many seconds and stays for ``lasts`` seconds, or for good."""

    at: float
    object: dict[str, object]
    lasts: float | None = None


class ReplayRequest(Report):
    """A timeline, what its pods refer to, and changes that are tried each on top of those before it."""

    arrivals: list[ArrivalRequest]
    objects: _Objects = Field(default_factory=list)
    changes: list[ChangeRequest] = Field(default_factory=list)
    starved_after: float = 600.0


class PodPlace(Report):
    """A pod's node and devices, or the message of its last attempt."""

    pod: str
    node: str = ""
    devices: list[str] = Field(default_factory=list)
    message: str = ""


class Fit(Report):
    """Whether the pods fit, and where they would go."""

    fits: int
    wanted: int
    copies: int = 0
    more: int = 0
    more_at_least: bool = False
    pods: list[PodPlace] = Field(default_factory=list)
    preempted: _Texts = Field(default_factory=dict)
    waiting: int = 0
    unplaced: PodReport | None = None
    complete: bool = True
    uncertain: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)


class Move(Report):
    """A pod that has to leave ``before``: where it goes, or why it is stuck."""

    pod: str
    before: str
    devices_before: list[str] = Field(default_factory=list)
    after: str = ""
    devices_after: list[str] = Field(default_factory=list)
    stuck: str = ""


class Moves(Report):
    """Which pods move where, and which are stuck."""

    moved: int
    stuck: int
    moves: list[Move] = Field(default_factory=list)
    order: list[str] = Field(default_factory=list)
    preempted: _Texts = Field(default_factory=dict)
    complete: bool = True
    uncertain: list[str] = Field(default_factory=list)


class Changed(Report):
    """A pod that gets something else after the edit."""

    pod: str
    before: PodPlace
    after: PodPlace


class Comparison(Report):
    """What the same pods get before and after an edit."""

    pods: int
    before: int
    after: int
    changed: list[Changed] = Field(default_factory=list)
    uncertain: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)


class Bought(Report):
    """So many nodes of one type."""

    type: str
    count: int
    price: float


class Purchase(Report):
    """The cheapest nodes on which everything fits, and a bound on what could be saved."""

    cost: float
    bound: float
    gap: float
    optimal: bool
    wanted: int
    nodes: list[Bought] = Field(default_factory=list)
    pods: list[PodPlace] = Field(default_factory=list)
    nominated: bool = False
    unplaced: list[PodPlace] = Field(default_factory=list)
    complete: bool = True
    uncertain: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)


class Largest(Report):
    """What a claim of one class could still get of a node."""

    device_class: str = Field(alias="class")
    shape: str
    count: int
    capacity: _Texts = Field(default_factory=dict)


class NodeRoom(Report):
    """What of a node is stranded, and what it could still take."""

    node: str
    stranded: _Counts = Field(default_factory=dict)
    counters: _Texts = Field(default_factory=dict)
    shares: _Texts = Field(default_factory=dict)
    takes: _Counts = Field(default_factory=dict)
    largest: list[Largest] = Field(default_factory=list)


class Room(Report):
    """The fewest moves that make room for the wanted pods."""

    found: bool
    at_least: int = 0
    moves: list[Move] = Field(default_factory=list)
    placed: list[PodPlace] = Field(default_factory=list)
    message: str = ""


class Packing(Report):
    """What is free, what of it no shape can use, and how to make room."""

    shapes: _Counts
    waiting: bool
    free: _Counts = Field(default_factory=dict)
    stranded: _Counts = Field(default_factory=dict)
    nodes: list[NodeRoom] = Field(default_factory=list)
    room: Room | None = None
    complete: bool = True
    uncertain: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)


class Starved(Report):
    """A pod that waited too long."""

    pod: str
    at: float
    waited: float
    message: str = ""


class Waits(Report):
    """Seconds from arrival to place."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    longest: float = 0.0


class Course(Report):
    """How the timeline went with one change."""

    name: str
    pods: int
    placed: int
    waits: Waits
    utilisation: float
    span: float
    starved: list[Starved] = Field(default_factory=list)
    preempted: int = 0


class Replay(Report):
    """The timeline as it is, and with each change and all before it."""

    courses: list[Course]
    complete: bool = True
    uncertain: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)
