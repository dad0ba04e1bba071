"""What the front's endpoints answer, as FastAPI checks and documents it.

The insight reports are the scheduler's; ``dra_scheduler.explain`` says what their fields mean.
"""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Report(BaseModel):
    """Named in JSON as Kubernetes names fields; a newer scheduler may say more."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class StoreReport(BaseModel):
    """The store: revisions, writes, open watches, and how many objects there are of each resource."""

    revision: int
    compacted: int
    commits: int
    writes: int
    watches: int
    objects: dict[str, int]


class ReasonReport(Report):
    """What turned a device away; only what applies to its kind is there."""

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
    """A device that was looked at, and what turned it away."""

    device: str
    reasons: list[str] = Field(default_factory=list)
    details: list[ReasonReport] = Field(default_factory=list)


class RequestReport(Report):
    """A claim's request on one node.

    It could have any one of ``suitable`` devices if the claims needed nothing else, and has got ``taken``. If
    ``reached`` is false the search did not try it.
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
    """A pool that the node sees and from which a request's class might select devices."""

    driver: str
    pool: str
    generation: int = 0
    devices: int = 0
    problem: str = ""
    warning: str = ""


class NodeReport(Report):
    """A node: whether it can take the pod, and why not."""

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
    """Nodes with the same objections."""

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
    """The group that the pod is scheduled with, and a trial of its pods that wait."""

    group: str
    min_count: int = 0
    placed: int = 0
    members: list[MemberReport] = Field(default_factory=list)
    together: list[PlaceReport] = Field(default_factory=list)


class HeldReport(Report):
    """A device that claims hold and no ResourceSlice publishes any more."""

    device: str
    claims: list[str] = Field(default_factory=list)
    pods: list[str] = Field(default_factory=list)


class PodReport(Report):
    """Why a pod is where it is, or nowhere."""

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
    """One of a class's selectors: how many devices it is true for, and fails for."""

    expression: str
    selected: int = 0
    errors: dict[str, int] = Field(default_factory=dict)
    shortfalls: list[str] = Field(default_factory=list)


class ClassReport(Report):
    """What a device class selects."""

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
    """What a node can reach."""

    node: str
    usage: list[Usage] = Field(default_factory=list)
    problem: str = ""


class Level(Report):
    """A counter of a pool, or a capacity of a device that is shared."""

    total: str = "0"
    free: str = "0"


class PartitionTypeStatus(Report):
    """How many partitions of one type a pool has and could still give."""

    attribute: str
    type: str
    total: int
    allocatable: int


class ShareableCapacityStatus(Report):
    """One capacity of a pool's shared devices, over all of them."""

    name: str
    total: str
    consumed: str
    available: str


class ShareableSummaryStatus(Report):
    """What is left of a pool's devices that several claims can share."""

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
