"""The parts of an explanation, as the JSON of ``/explain`` has them."""

from dra_shared.api.meta import Struct
from dra_shared.api.resource import DeviceTaint
from msgspec import field


class ReasonReport(Struct):
    """What turned a device away, in parts; only those that apply to its ``kind`` are there.

    ``gist`` and ``values`` are the reason in words: what it is, and what of it is the device's own.
    """

    kind: str
    gist: str
    values: str = ""
    device_class: str = ""
    index: int | None = None
    expression: str = ""
    error: str = ""
    saw: dict[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    taint: DeviceTaint | None = None
    attribute: str = ""
    value: str = ""
    others: tuple[str, ...] = ()
    counter: str = ""
    capacity: str = ""
    needed: str = ""
    left: str = ""
    missing: str = ""
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class DeviceReport(Struct):
    """A device that was looked at, and what turned it away: in words, and part by part."""

    device: str
    reasons: tuple[str, ...] = ()
    details: tuple[ReasonReport, ...] = ()


class RequestReport(Struct):
    """A claim's request on one node, and why it was not given each of the ``devices``.

    It asks for ``count`` devices (0: for all). It could have any one of ``suitable`` devices if the claims needed
    nothing else, and has got ``taken``. If ``reached`` is false the search did not try it: an earlier alternative was
    taken, or an earlier request could not be satisfied.
    """

    claim: str
    request: str
    device_class: str = ""
    count: int = 0
    suitable: int = 0
    reached: bool = False
    taken: int = 0
    devices: tuple[DeviceReport, ...] = ()


class PoolReport(Struct):
    """A pool that the node sees and from which a request's class might select devices.

    ``problem`` is why no devices are taken from it; ``warning`` is what is wrong with a pool that can be used.
    """

    driver: str
    pool: str
    generation: int = 0
    devices: int = 0
    problem: str = ""
    warning: str = ""


class NodeReport(Struct):
    """A node: whether it can take the pod, each plugin's objections, and what the allocator saw there.

    ``saw`` is what is behind the objections, by plugin; ``remedies`` are the changes that together would take all away.
    ``silent_drivers`` are those that classes of the pod's requests name and that publish no pool for the node.
    """

    node: str
    fits: bool = False
    objections: dict[str, tuple[str, ...]] = field(default_factory=dict)
    saw: dict[str, tuple[str, ...]] = field(default_factory=dict)
    remedies: tuple[str, ...] = ()
    pools: tuple[PoolReport, ...] = ()
    silent_drivers: tuple[str, ...] = ()
    requests: tuple[RequestReport, ...] = ()
    allocated: tuple[str, ...] = ()


class NodeSummary(Struct):
    """Nodes with the same objections; without objections, they can take the pod."""

    count: int
    objections: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Change(Struct):
    """One change after which the node would take the pod; tried with the allocator before it is reported.

    Without a node it is something that is missing, without which nothing can be tried.
    """

    node: str
    kind: str
    text: str


class ClaimReport(Struct):
    """A claim of the pod, its devices and whom it is reserved for."""

    claim: str
    devices: tuple[str, ...] = ()
    reserved_for: tuple[str, ...] = ()
    in_flight: bool = False


class HeldReport(Struct):
    """A device that ``claims`` hold and no ResourceSlice publishes any more, and the pods they are reserved for."""

    device: str
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class MemberReport(Struct):
    """A pod of the group: where it is, or in what state it waits, with the message of its last attempt."""

    pod: str
    state: str
    node: str = ""
    message: str = ""


class PlaceReport(Struct):
    """A pod of a gang in a trial: the node and devices that it would get, or why it would get none.

    Without a node and a message there was no time left to try it.
    """

    pod: str
    node: str = ""
    devices: tuple[str, ...] = ()
    message: str = ""


class GroupReport(Struct):
    """The group that the pod is scheduled with. Without ``min_count`` its pods need not wait for each other.

    ``together`` is a trial of the pods of a gang that wait, by priority and age.
    """

    group: str
    min_count: int = 0
    placed: int = 0
    members: tuple[MemberReport, ...] = ()
    together: tuple[PlaceReport, ...] = ()


class SelectorReport(Struct):
    """One of a class's selectors: how many devices it is true for, and fails for with which error.

    ``shortfalls`` are what it asks for and no device has.
    """

    expression: str
    selected: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    shortfalls: tuple[str, ...] = ()


class ClassReport(Struct):
    """A device class: how many of all ``devices`` all of its selectors are true for."""

    device_class: str
    devices: int = 0
    selected: int = 0
    selectors: tuple[SelectorReport, ...] = ()


class PodReport(Struct):
    """Why a pod is where it is, or nowhere; ``waits_for`` is why one that has a node does not run.

    ``shortfalls`` are what its claims and extended resources ask for and nothing in the cluster has; ``unpublished``
    the devices that claims hold and no ResourceSlice publishes any more. ``not_examined`` counts the nodes for which
    there was no time, ``not_asked`` names the scheduler extenders that might reject nodes.
    """

    pod: str
    state: str
    node: str = ""
    phase: str = ""
    waits_for: tuple[str, ...] = ()
    message: str = ""
    attempts: int = 0
    group: GroupReport | None = None
    claims: tuple[ClaimReport, ...] = ()
    summary: tuple[NodeSummary, ...] = ()
    closest: str = ""
    change: Change | None = None
    shortfalls: tuple[str, ...] = ()
    unpublished: tuple[HeldReport, ...] = ()
    nodes: tuple[NodeReport, ...] = ()
    nodes_left_out: int = 0
    not_examined: int = 0
    not_asked: tuple[str, ...] = ()
