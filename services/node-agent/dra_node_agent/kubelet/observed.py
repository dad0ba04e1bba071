"""The kubelet's observations of a pod beyond its object: the input of the pod's status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shared.api.container import ContainerStateWaiting

from dra_node_agent.runtime.base import ContainerRecord


@dataclass
class Observed:
    """Observations of a pod, with containers by name and the newest first.

    ``limits`` are the limits of containers whose limits are raised by claims. ``stopped``: no container will
    run again. ``terminal``: in addition, nothing is prepared for the pod any more.
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
