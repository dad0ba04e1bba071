"""The scheduler's configuration."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_shared.client.terms import Terms
from dra_shared.features import FeatureGates
from dra_shared.guard import Guard
from dra_shared.servingtls import ServingTLS

from dra_scheduler.componentconfig.load import Loaded
from dra_scheduler.componentconfig.profiles import Profile
from dra_scheduler.componentconfig.types import Extender, LeaderElectionConfiguration

DEFAULT_SCHEDULER_NAME = "default-scheduler"


_INITIAL_BACKOFF = 1
_MAX_BACKOFF = 10


@dataclass(frozen=True)
class Lease:
    """The Lease for leader election, and its durations."""

    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    terms: Terms = field(default_factory=Terms)


def lease(election: LeaderElectionConfiguration) -> Lease:
    """Return the Lease that the file configures.

    Raises:
        ValueError: its durations contradict each other.
    """
    times = (election.lease_duration, election.renew_deadline, election.retry_period)
    return Lease(
        election.resource_name, election.resource_namespace, Terms(*(time.seconds for time in times))
    )


@dataclass(frozen=True)
class SchedulerConfig:
    """The scheduler's options.

    ``loaded`` is the content of the ``--config`` file. Without it, there is one profile named
    ``scheduler_name``. ``health_port`` is the port of /healthz, /readyz and /metrics; 0 picks a free one, None
    serves nothing. ``identity`` is the name of this replica in leader election.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    loaded: Loaded | None = None
    gates: FeatureGates = field(default_factory=FeatureGates)
    health_address: str = "127.0.0.1"
    health_port: int | None = 0
    guard: Guard = field(default_factory=Guard)
    tls: ServingTLS | None = None
    leader_elect: bool = False
    lease: Lease = field(default_factory=Lease)
    identity: str = "scheduler"

    @property
    def extenders(self) -> Sequence[Extender]:
        """The extenders that the file configures."""
        return self.loaded.config.extenders or () if self.loaded is not None else ()

    @property
    def backoff(self) -> tuple[int, int]:
        """The initial and the maximum backoff of pods, in seconds."""
        if self.loaded is None:
            return _INITIAL_BACKOFF, _MAX_BACKOFF
        config = self.loaded.config
        return config.pod_initial_backoff_seconds or 0, config.pod_max_backoff_seconds or 0

    def percentage_of(self, profile: Profile) -> int:
        """Return the percentage of nodes that must be feasible before the search stops.

        0: depends on the number of nodes.
        """
        if profile.percentage_of_nodes_to_score is not None or self.loaded is None:
            return profile.percentage_of_nodes_to_score or 0
        return self.loaded.config.percentage_of_nodes_to_score or 0

    @property
    def waits_to_watch(self) -> bool:
        """True if a replica starts its informers only once it is the leader (``delayCacheUntilActive``)."""
        return self.loaded is not None and self.leader_elect and self.loaded.config.delay_cache_until_active
