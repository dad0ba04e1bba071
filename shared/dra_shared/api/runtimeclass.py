"""node.k8s.io/v1 RuntimeClass."""

from msgspec import field

from dra_shared.api.meta import Object, Struct
from dra_shared.api.node import Toleration


class Overhead(Struct):
    pod_fixed: dict[str, str] = field(default_factory=dict)


class Scheduling(Struct):
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Object):
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
