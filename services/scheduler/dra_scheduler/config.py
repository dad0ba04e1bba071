"""The scheduler's configuration."""

from dataclasses import dataclass, field

from dra_shared.features import FeatureGates
from dra_shared.guard import Guard

DEFAULT_SCHEDULER_NAME = "default-scheduler"


@dataclass(frozen=True)
class SchedulerConfig:
    """Options; timeouts are in seconds, as kube-scheduler's DynamicResourcesArgs.

    ``health_port`` 0 takes any free port, None serves nothing. ``identity`` names this replica in leader election.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    gates: FeatureGates = field(default_factory=FeatureGates)
    health_address: str = "127.0.0.1"
    health_port: int | None = 0
    guard: Guard = field(default_factory=Guard)
    leader_elect: bool = False
    identity: str = "scheduler"
    filter_timeout: float | None = 10.0
    binding_timeout: float = 600.0
