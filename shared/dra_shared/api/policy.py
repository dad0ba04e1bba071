"""policy/v1."""

from msgspec import field

from dra_shared.api.meta import Condition, LabelSelector, Object, Struct


class PodDisruptionBudgetSpec(Struct):
    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    current_healthy: int = 0
    desired_healthy: int = 0
    disrupted_pods: dict[str, str | None] = field(default_factory=dict)
    disruptions_allowed: int = 0
    expected_pods: int = 0
    observed_generation: int | None = None


class PodDisruptionBudget(Object):
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
