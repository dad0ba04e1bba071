"""The parts of an explanation, as the JSON of ``/explain``."""

from dra_shared.api.meta import Struct
from dra_shared.api.resource import DeviceTaint
from msgspec import field


class ReasonReport(Struct):
    """The reason why a device was rejected. Only the fields that apply to its ``kind`` are set.

    ``gist`` is the reason as text without the device's own values, which are in ``values``.
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
    """A device that was rejected, with the reasons as text and as structured details."""

    device: str
    reasons: tuple[str, ...] = ()
    details: tuple[ReasonReport, ...] = ()


class RequestReport(Struct):
    """A claim's request on one node, and the reasons why it did not get each of the ``devices``.

    The request is for ``count`` devices (0: all). Any one of the ``suitable`` devices could be allocated if
    this were the only request. The trial allocated ``taken``. If ``reached`` is false, the search did not try
    it, because an earlier alternative was taken or an earlier request could not be satisfied.
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

    ``problem`` is the reason why none of its devices can be allocated. ``warning`` describes a problem of a
    usable pool.
    """

    driver: str
    pool: str
    generation: int = 0
    devices: int = 0
    problem: str = ""
    warning: str = ""


class NodeReport(Struct):
    """A node: whether it can take the pod, each plugin's objections, and the allocator's results.

    ``saw`` has the facts on which each plugin based its objection. ``remedies`` are the changes that together
    would remove all of them. ``silent_drivers`` are drivers that the requests' classes name and that publish no
    pool for the node.
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
    """Nodes with the same objections. Nodes without objections can take the pod."""

    count: int
    objections: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Change(Struct):
    """A change after which the node would take the pod. It was tried with the allocator.

    If ``node`` is empty, the change is one that must happen before any node can be tried, such as creating a
    missing object. ``claims`` would have to give their devices back.
    """

    node: str
    kind: str
    text: str
    claims: tuple[str, ...] = ()


class ClaimReport(Struct):
    """A claim of the pod, its devices and its users."""

    claim: str
    devices: tuple[str, ...] = ()
    reserved_for: tuple[str, ...] = ()
    in_flight: bool = False


class HeldReport(Struct):
    """A device that ``claims`` hold but no ResourceSlice publishes, and the pods that these claims are reserved for."""

    device: str
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class MemberReport(Struct):
    """A pod of the group: its node, or its state in the queue and the message of its last attempt."""

    pod: str
    state: str
    node: str = ""
    message: str = ""


class PlaceReport(Struct):
    """A pod of a gang in a trial: the node and devices that it would get, or the reason why not.

    Without a node and a message, there was no time left to try it.
    """

    pod: str
    node: str = ""
    devices: tuple[str, ...] = ()
    message: str = ""


class GroupReport(Struct):
    """The group that the pod is scheduled with. Without ``min_count``, its pods do not wait for each other.

    ``together`` is the result of trying the gang's waiting pods together, in the order of priority and age.
    """

    group: str
    min_count: int = 0
    placed: int = 0
    members: tuple[MemberReport, ...] = ()
    together: tuple[PlaceReport, ...] = ()


class SelectorReport(Struct):
    """A selector of a class: the number of devices that it selects, and for how many it fails with each error.

    ``shortfalls`` are its requirements that no device meets.
    """

    expression: str
    selected: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    shortfalls: tuple[str, ...] = ()


class ClassReport(Struct):
    """A device class: the number of all ``devices``, and of those that all of its selectors accept."""

    device_class: str
    devices: int = 0
    selected: int = 0
    selectors: tuple[SelectorReport, ...] = ()


class PodReport(Struct):
    """The state of a pod and the reasons for it. ``waits_for`` is why a pod that has a node does not run.
    ``not_simulated`` names the programs of its containers that nothing simulates.

    ``shortfalls`` are requirements of its claims and extended resources that nothing in the cluster meets.
    ``unpublished`` are the devices that claims hold but no ResourceSlice publishes. ``not_examined`` counts the
    nodes for which there was no time. ``not_asked`` names the scheduler extenders that were not called for the
    explanation and might reject nodes.
    """

    pod: str
    state: str
    node: str = ""
    phase: str = ""
    waits_for: tuple[str, ...] = ()
    not_simulated: str = ""
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
