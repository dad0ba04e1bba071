"""What the kubelet observes of a pod beyond its object: the input of the pod's status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shared.api.container import ContainerStateWaiting

from dra_node_agent.runtime.base import ContainerRecord


@dataclass
class Observed:
    """What the kubelet knows of a pod beyond its object: the newest containers first, by container name.

    ``limits``: those of containers for which claims change them.
    ``stopped``: nothing of it will run again; ``terminal``: nor is anything prepared for it any more.
    """

    records: Mapping[str, Sequence[ContainerRecord]] = field(default_factory=dict)
    waiting: Mapping[str, ContainerStateWaiting] = field(default_factory=dict)
    started: Mapping[str, bool] = field(default_factory=dict)
    ready: Mapping[str, bool] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    has_sandbox: bool = False
    pod_ip: str = ""
    host_ip: str = ""
    runtime: str = "fake"
    stopped: bool = False
    terminal: bool = False
    failed_reason: str = ""
    failed_message: str = ""
    rejected: bool = False
