"""The parts of an explanation, as the JSON of ``/explain`` has them."""

from dra_shared.api.meta import Struct
from msgspec import field


class DeviceReport(Struct):
    """A device that was looked at, and what turned it away."""

    device: str
    reasons: tuple[str, ...] = ()


class RequestReport(Struct):
    """A claim's request on one node; without devices it was not reached, as what comes before it can't be had."""

    claim: str
    request: str
    device_class: str = ""
    devices: tuple[DeviceReport, ...] = ()


class PoolReport(Struct):
    """A pool that the node sees; with ``problem``, why no devices are taken from it."""

    driver: str
    pool: str
    generation: int = 0
    devices: int = 0
    problem: str = ""


class NodeReport(Struct):
    """A node: whether it can take the pod, each plugin's objections, and what the allocator saw there."""

    node: str
    fits: bool = False
    objections: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pools: tuple[PoolReport, ...] = ()
    requests: tuple[RequestReport, ...] = ()
    allocated: tuple[str, ...] = ()


class Change(Struct):
    """One change after which the node would take the pod; tried out with the allocator before it is told."""

    node: str
    kind: str
    text: str


class ClaimReport(Struct):
    """A claim of the pod, its devices and whom it is reserved for."""

    claim: str
    devices: tuple[str, ...] = ()
    reserved_for: tuple[str, ...] = ()
    in_flight: bool = False


class PodReport(Struct):
    """Why a pod is where it is, or nowhere."""

    pod: str
    state: str
    node: str = ""
    message: str = ""
    attempts: int = 0
    claims: tuple[ClaimReport, ...] = ()
    closest: str = ""
    change: Change | None = None
    nodes: tuple[NodeReport, ...] = ()
    nodes_left_out: int = 0
