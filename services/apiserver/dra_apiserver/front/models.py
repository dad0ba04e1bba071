"""Response models of the front's endpoints, validated and documented by FastAPI.

The insight reports are the scheduler's. ``dra_scheduler.explain`` documents their fields.
"""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Report(BaseModel):
    """A model with Kubernetes' JSON names. It accepts additional fields of a newer scheduler."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class StoreReport(BaseModel):
    """The store: revisions, writes, open watches, and the number of objects of each resource."""

    revision: int
    compacted: int
    commits: int
    writes: int
    watches: int
    objects: dict[str, int]


class ReasonReport(Report):
    """The reason why a device was rejected. Only fields that apply to its kind are set."""

    kind: str
    gist: str
    values: str = ""
    device_class: str = ""
    index: int | None = None
    expression: str = ""
    error: str = ""
    saw: dict[str, str] = Field(default_factory=dict)
    lacks: list[str] = Field(default_factory=list)
    attribute: str = ""
    value: str = ""
    others: list[str] = Field(default_factory=list)
    counter: str = ""
    capacity: str = ""
    needed: str = ""
    left: str = ""
    missing: str = ""
    claims: list[str] = Field(default_factory=list)
    pods: list[str] = Field(default_factory=list)


class DeviceReport(Report):
    """A device that was examined, and the reason why it was rejected."""

    device: str
    reasons: list[str] = Field(default_factory=list)
    details: list[ReasonReport] = Field(default_factory=list)


class RequestReport(Report):
    """A claim's request on one node.

    ``suitable`` devices could each be allocated if the claims needed nothing else; ``taken`` are allocated.
    If ``reached`` is false, the search did not try the request.
    """

    claim: str
    request: str
    device_class: str = ""
    count: int = 0
    suitable: int = 0
    reached: bool = False
    taken: int = 0
    devices: list[DeviceReport] = Field(default_factory=list)


class PoolReport(Report):
    """A pool that the node can access and whose devices the request's class might select."""

    driver: str
    pool: str
    generation: int = 0
    devices: int = 0
    problem: str = ""
    warning: str = ""


class NodeReport(Report):
    """A node: whether the pod fits on it, and if not, why."""

    node: str
    fits: bool = False
    objections: dict[str, list[str]] = Field(default_factory=dict)
    saw: dict[str, list[str]] = Field(default_factory=dict)
    remedies: list[str] = Field(default_factory=list)
    pools: list[PoolReport] = Field(default_factory=list)
    silent_drivers: list[str] = Field(default_factory=list)
    requests: list[RequestReport] = Field(default_factory=list)
    allocated: list[str] = Field(default_factory=list)


class NodeSummary(Report):
    """Nodes with the same reasons."""

    count: int
    objections: list[str] = Field(default_factory=list)
    nodes: list[str] = Field(default_factory=list)


class Change(Report):
    """One change after which the pod would fit."""

    node: str
    kind: str
    text: str


class ClaimReport(Report):
    """A claim of the pod and its devices."""

    claim: str
    devices: list[str] = Field(default_factory=list)
    reserved_for: list[str] = Field(default_factory=list)
    in_flight: bool = False


class MemberReport(Report):
    """A pod of the group."""

    pod: str
    state: str
    node: str = ""
    message: str = ""


class PlaceReport(Report):
    """A pod of a gang in a trial: the node and devices that it would get, or why it would get none."""

    pod: str
    node: str = ""
    devices: list[str] = Field(default_factory=list)
    message: str = ""


class GroupReport(Report):
    """The group that the pod is scheduled with, and a trial of its pending pods."""

    group: str
    min_count: int = 0
    placed: int = 0
    members: list[MemberReport] = Field(default_factory=list)
    together: list[PlaceReport] = Field(default_factory=list)


class HeldReport(Report):
    """A device that claims hold although no ResourceSlice publishes it any more."""

    device: str
    claims: list[str] = Field(default_factory=list)
    pods: list[str] = Field(default_factory=list)


class PodReport(Report):
    """The reason why a pod is on its node, or pending."""

    pod: str
    state: str
    node: str = ""
    phase: str = ""
    waits_for: list[str] = Field(default_factory=list)
    message: str = ""
    attempts: int = 0
    group: GroupReport | None = None
    claims: list[ClaimReport] = Field(default_factory=list)
    summary: list[NodeSummary] = Field(default_factory=list)
    closest: str = ""
    change: Change | None = None
    shortfalls: list[str] = Field(default_factory=list)
    unpublished: list[HeldReport] = Field(default_factory=list)
    nodes: list[NodeReport] = Field(default_factory=list)
    nodes_left_out: int = 0
    not_examined: int = 0
    not_asked: list[str] = Field(default_factory=list)


class SelectorReport(Report):
    """One selector of a class: the number of devices for which it is true, and for which it fails."""

    expression: str
    selected: int = 0
    errors: dict[str, int] = Field(default_factory=dict)
    shortfalls: list[str] = Field(default_factory=list)


class ClassReport(Report):
    """The devices that a device class selects."""

    device_class: str
    devices: int = 0
    selected: int = 0
    selectors: list[SelectorReport] = Field(default_factory=list)


class Usage(Report):
    """Devices of one class and shape: free, used or blocked."""

    device_class: str = Field(alias="class")
    shape: str
    devices: int = 0
    free: int = 0
    used: int = 0
    blocked: int = 0
    shares: int | None = None
    more_shares: int | str | None = None
    why: dict[str, int] = Field(default_factory=dict)


class NodeUsage(Report):
    """The devices that a node can access."""

    node: str
    usage: list[Usage] = Field(default_factory=list)
    problem: str = ""


class Level(Report):
    """A counter of a pool, or a capacity of a shared device."""

    total: str = "0"
    free: str = "0"


class PartitionTypeStatus(Report):
    """The number of partitions of one type that a pool has, and that it could still allocate."""

    attribute: str
    type: str
    total: int
    allocatable: int


class ShareableCapacityStatus(Report):
    """One capacity of a pool's shared devices, summed over all of them."""

    name: str
    total: str
    consumed: str
    available: str


class ShareableSummaryStatus(Report):
    """The remaining capacity of a pool's shared devices."""

    fully_available_devices: int
    partially_available_devices: int
    capacity: list[ShareableCapacityStatus] = Field(default_factory=list)


class PoolUsage(Report):
    """One pool: its devices, counters and capacities."""

    driver: str
    pool: str
    node: str = ""
    devices: int = 0
    used: int = 0
    problem: str = ""
    counters: dict[str, Level] = Field(default_factory=dict)
    capacity: dict[str, Level] = Field(default_factory=dict)
    partitions: list[PartitionTypeStatus] = Field(default_factory=list)
    shareable: ShareableSummaryStatus | None = None
    in_use_by: dict[str, list[str]] = Field(default_factory=dict)
    admin_access: dict[str, list[str]] = Field(default_factory=dict)


class Free(Report):
    """Free and used devices of the cluster, by class, node and pool."""

    classes: list[Usage] = Field(default_factory=list)
    nodes: list[NodeUsage] = Field(default_factory=list)
    pools: list[PoolUsage] = Field(default_factory=list)
    unpublished: list[HeldReport] = Field(default_factory=list)
