"""The strategies of kinds that have one of their own: (group, plural, subresource) to strategy."""

from __future__ import annotations

from dra_apiserver.strategy import Strategy
from dra_apiserver.strategy.certificates import SigningRequestStrategy
from dra_apiserver.strategy.checked import CheckedStrategy, StatusStrategy
from dra_apiserver.strategy.core import (
    NamespaceStrategy,
    PodEphemeralContainersStrategy,
    PodResizeStrategy,
    PodStatusStrategy,
    PodStrategy,
)
from dra_apiserver.strategy.definitions import DefinitionStrategy
from dra_apiserver.strategy.podgroups import (
    PodGroupStatusStrategy,
    PodGroupStrategy,
    SchedulingWorkloadStrategy,
)
from dra_apiserver.strategy.registrations import STRATEGIES as REGISTRATIONS
from dra_apiserver.strategy.resource import (
    DeviceClassStrategy,
    DeviceTaintRuleStrategy,
    ResourceClaimStatusStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourcePoolStatusRequestStrategy,
    ResourceSliceStrategy,
)
from dra_apiserver.strategy.service import ServiceStrategy
from dra_apiserver.strategy.storage import ClaimStrategy, VolumeStrategy
from dra_apiserver.strategy.workloads import (
    CronJobStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    JobStrategy,
    ReplicationControllerStrategy,
    WorkloadStrategy,
)
from dra_apiserver.validation.coreobjects import CHECKS
from dra_apiserver.validation.flowcontrol import check_conditions
from dra_apiserver.validation.statuses import STATUS_CHECKS

_FLOW = "flowcontrol.apiserver.k8s.io"
_RESOURCE = "resource.k8s.io"
_namespaces = NamespaceStrategy()
_claims = ClaimStrategy()
_requests = SigningRequestStrategy()
_services = ServiceStrategy()
_flow_statuses = StatusStrategy(check_conditions, keeps_all=True)
_volumes = VolumeStrategy()
_taint_rules = DeviceTaintRuleStrategy()
_pool_status_requests = ResourcePoolStatusRequestStrategy()

STRATEGIES: dict[tuple[str, str, str], Strategy] = {
    **{(group, plural, ""): CheckedStrategy(check) for (group, plural), check in CHECKS.items()},
    **{(group, plural, "status"): StatusStrategy(check) for (group, plural), check in STATUS_CHECKS.items()},
    **REGISTRATIONS,
    ("", "namespaces", ""): _namespaces,
    ("", "namespaces", "finalize"): _namespaces,
    ("", "namespaces", "status"): _namespaces,
    ("", "pods", ""): PodStrategy(),
    ("", "pods", "ephemeralcontainers"): PodEphemeralContainersStrategy(),
    ("", "pods", "resize"): PodResizeStrategy(),
    ("", "pods", "status"): PodStatusStrategy(),
    ("", "persistentvolumeclaims", ""): _claims,
    ("", "persistentvolumes", ""): _volumes,
    ("", "persistentvolumes", "status"): _volumes,
    ("", "replicationcontrollers", ""): ReplicationControllerStrategy(),
    ("", "services", ""): _services,
    ("", "services", "status"): _services,
    ("apiextensions.k8s.io", "customresourcedefinitions", ""): DefinitionStrategy(),
    ("apps", "daemonsets", ""): DaemonSetStrategy(),
    ("apps", "deployments", ""): DeploymentStrategy(),
    # Upstream calls them that too.
    ("apps", "replicasets", ""): WorkloadStrategy(),
    ("apps", "statefulsets", ""): WorkloadStrategy("statefulset", fixed_rest=True),
    ("batch", "cronjobs", ""): CronJobStrategy(),
    ("batch", "jobs", ""): JobStrategy(),
    ("certificates.k8s.io", "certificatesigningrequests", ""): _requests,
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): _requests,
    ("certificates.k8s.io", "certificatesigningrequests", "status"): _requests,
    (_RESOURCE, "deviceclasses", ""): DeviceClassStrategy(),
    (_RESOURCE, "devicetaintrules", ""): _taint_rules,
    (_RESOURCE, "devicetaintrules", "status"): _taint_rules,
    (_RESOURCE, "resourceclaims", ""): ResourceClaimStrategy(),
    (_RESOURCE, "resourceclaims", "status"): ResourceClaimStatusStrategy(),
    (_RESOURCE, "resourceclaimtemplates", ""): ResourceClaimTemplateStrategy(),
    (_RESOURCE, "resourcepoolstatusrequests", ""): _pool_status_requests,
    (_RESOURCE, "resourcepoolstatusrequests", "status"): _pool_status_requests,
    (_RESOURCE, "resourceslices", ""): ResourceSliceStrategy(),
    (_FLOW, "flowschemas", "status"): _flow_statuses,
    (_FLOW, "prioritylevelconfigurations", "status"): _flow_statuses,
    ("scheduling.k8s.io", "podgroups", ""): PodGroupStrategy(),
    ("scheduling.k8s.io", "podgroups", "status"): PodGroupStatusStrategy(),
    ("scheduling.k8s.io", "workloads", ""): SchedulingWorkloadStrategy(),
    ("storage.k8s.io", "volumeattachments", "status"): StatusStrategy(
        lambda obj, old: [], keeps_metadata=True
    ),
}
