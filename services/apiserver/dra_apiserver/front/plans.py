"""Requests and responses of ``POST /insight/plan/…``; ``docs/plan.md`` documents the fields.

Mirrors ``dra_scheduler.plan``: a test compares the fields.
"""

from pydantic import Field

from dra_apiserver.front.models import PodReport, Report

_Objects = list[dict[str, object]]
_Texts = dict[str, str]
_Counts = dict[str, int]


class FitRequest(Report):
    """Pods, with the claims, templates and groups that they refer to, and the number of copies to try."""

    objects: _Objects
    count: int | None = None
    max: bool = False
    more: bool = False
    without: list[str] = Field(default_factory=list)


class NodesRequest(Report):
    """Nodes to drain, to remove or to upgrade. An upgrade without nodes means all."""

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
    """A change: objects that replace those of the same names, nodes to remove, and the scheduler's configuration."""

    objects: _Objects = Field(default_factory=list)
    remove: list[str] = Field(default_factory=list)
    feature_gates: str = ""
    kubernetes_version: str = ""
    config: dict[str, object] | None = None
    name: str = ""


class NodeTypeRequest(Report):
    """Nodes that can be bought. ``objects`` are a Node and its ResourceSlices; each new node is a copy."""

    name: str
    price: float
    objects: _Objects
    limit: int | None = None


class PurchaseRequest(Report):
    """The node types, and pods in addition to the pending ones. ``seconds`` limits the search."""

    types: list[NodeTypeRequest]
    objects: _Objects = Field(default_factory=list)
    count: int | None = None
    seconds: float = 20.0


class PackRequest(Report):
    """Pods to make room for, if any. ``seconds`` limits the search for moves."""

    objects: _Objects = Field(default_factory=list)
    count: int | None = None
    seconds: float = 20.0


class ArrivalRequest(Report):
    """A pod (``object``) that is created ``at`` a number of seconds and runs for ``lasts`` seconds, or
    without end.
    """

    at: float
    object: dict[str, object]
    lasts: float | None = None


class ReplayRequest(Report):
    """A timeline, the objects that its pods refer to, and changes that are applied one after the other."""

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
    """True if the pods fit, with the nodes that they would get."""

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
    """A pod that has to leave ``before``: its new node, or why it cannot move."""

    pod: str
    before: str
    devices_before: list[str] = Field(default_factory=list)
    after: str = ""
    devices_after: list[str] = Field(default_factory=list)
    stuck: str = ""


class Moves(Report):
    """The pods that move, with their new nodes, and those that cannot move."""

    moved: int
    stuck: int
    moves: list[Move] = Field(default_factory=list)
    order: list[str] = Field(default_factory=list)
    preempted: _Texts = Field(default_factory=dict)
    complete: bool = True
    uncertain: list[str] = Field(default_factory=list)


class Changed(Report):
    """A pod with another result after the change."""

    pod: str
    before: PodPlace
    after: PodPlace


class Comparison(Report):
    """The results for the same pods before and after a change."""

    pods: int
    before: int
    after: int
    changed: list[Changed] = Field(default_factory=list)
    uncertain: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)


class Bought(Report):
    """A number of nodes of one type."""

    type: str
    count: int
    price: float


class Purchase(Report):
    """The cheapest nodes on which all pods fit, and a bound on further savings."""

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
    """The largest claim of one class that still fits on a node."""

    device_class: str = Field(alias="class")
    shape: str
    count: int
    capacity: _Texts = Field(default_factory=dict)


class NodeRoom(Report):
    """The stranded part of a node, and the largest claims that still fit."""

    node: str
    stranded: _Counts = Field(default_factory=dict)
    counters: _Texts = Field(default_factory=dict)
    shares: _Texts = Field(default_factory=dict)
    takes: _Counts = Field(default_factory=dict)
    largest: list[Largest] = Field(default_factory=list)


class Room(Report):
    """The fewest moves that make room for the requested pods."""

    found: bool
    at_least: int = 0
    moves: list[Move] = Field(default_factory=list)
    placed: list[PodPlace] = Field(default_factory=list)
    message: str = ""


class Packing(Report):
    """The free devices, the part of them that no shape can use, and moves that make room."""

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
    """Seconds from creation to placement."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    longest: float = 0.0


class Course(Report):
    """The result of the timeline with one change."""

    name: str
    pods: int
    placed: int
    waits: Waits
    utilisation: float
    span: float
    starved: list[Starved] = Field(default_factory=list)
    preempted: int = 0


class Replay(Report):
    """The result of the timeline without changes, and with each change after the previous ones."""

    courses: list[Course]
    complete: bool = True
    uncertain: list[str] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)
