"""apps/v1 workloads."""

from typing import Any

from msgspec import field

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.meta import ConditionFields, LabelSelector, Object, Struct
from dra_shared.api.pod import PodTemplateSpec


class RollingUpdateDeployment(Struct):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(Struct):
    rolling_update: RollingUpdateDeployment | None = None
    type: str = ""


class DeploymentSpec(Struct):
    min_ready_seconds: int | None = None
    paused: bool | None = None
    progress_deadline_seconds: int | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector = field(default_factory=LabelSelector)
    strategy: DeploymentStrategy = field(default_factory=DeploymentStrategy)
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class DeploymentCondition(ConditionFields):
    last_update_time: str | None = None


class DeploymentStatus(Struct):
    available_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    terminating_replicas: int | None = None
    unavailable_replicas: int | None = None
    updated_replicas: int | None = None


class Deployment(Object):
    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


class ReplicaSetSpec(Struct):
    min_ready_seconds: int | None = None
    replicas: int | None = None
    selector: LabelSelector = field(default_factory=LabelSelector)
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)


class ReplicaSetCondition(ConditionFields):
    """A condition of a ReplicaSet."""


class ReplicaSetStatus(Struct):
    available_replicas: int | None = None
    conditions: tuple[ReplicaSetCondition, ...] = ()
    fully_labeled_replicas: int | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int = 0
    terminating_replicas: int | None = None


class ReplicaSet(Object):
    spec: ReplicaSetSpec = field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = field(default_factory=ReplicaSetStatus)


class StatefulSetOrdinals(Struct):
    start: int = 0


class StatefulSetPersistentVolumeClaimRetentionPolicy(Struct):
    when_deleted: str = ""
    when_scaled: str = ""


class RollingUpdateStatefulSetStrategy(Struct):
    max_unavailable: int | str | None = None
    partition: int | None = None


class StatefulSetUpdateStrategy(Struct):
    rolling_update: RollingUpdateStatefulSetStrategy | None = None
    type: str = ""


class StatefulSetSpec(Struct):
    min_ready_seconds: int | None = None
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: StatefulSetPersistentVolumeClaimRetentionPolicy | None = None
    pod_management_policy: str = ""
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector = field(default_factory=LabelSelector)
    service_name: str = ""
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    update_strategy: StatefulSetUpdateStrategy = field(default_factory=StatefulSetUpdateStrategy)
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class StatefulSetCondition(ConditionFields):
    """A condition of a StatefulSet."""


class StatefulSetStatus(Struct):
    available_replicas: int = 0
    collision_count: int | None = None
    conditions: tuple[StatefulSetCondition, ...] = ()
    current_replicas: int | None = None
    current_revision: str = ""
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int = 0
    update_revision: str = ""
    updated_replicas: int | None = None


class StatefulSet(Object):
    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)
    status: StatefulSetStatus = field(default_factory=StatefulSetStatus)


class RollingUpdateDaemonSet(Struct):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DaemonSetUpdateStrategy(Struct):
    rolling_update: RollingUpdateDaemonSet | None = None
    type: str = ""


class DaemonSetSpec(Struct):
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector = field(default_factory=LabelSelector)
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    update_strategy: DaemonSetUpdateStrategy = field(default_factory=DaemonSetUpdateStrategy)


class DaemonSetCondition(ConditionFields):
    """A condition of a DaemonSet."""


class DaemonSetStatus(Struct):
    collision_count: int | None = None
    conditions: tuple[DaemonSetCondition, ...] = ()
    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_available: int | None = None
    number_misscheduled: int = 0
    number_ready: int = 0
    number_unavailable: int | None = None
    observed_generation: int | None = None
    updated_number_scheduled: int | None = None


class DaemonSet(Object):
    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)


class ControllerRevision(Object):
    data: Any = None
    revision: int = 0
