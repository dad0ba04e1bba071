"""The fields of pods behind feature gates (`dropDisabledFields` in pkg/api/pod/util.go)."""

from __future__ import annotations

from dra_apiserver.common.gates import GatedFields

_CONTAINERS = tuple(f"spec.{name}.*" for name in ("containers", "initContainers", "ephemeralContainers"))
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("lifecycle.postStart", "lifecycle.preStop")
_STATUSES = tuple(
    f"status.{name}.*"
    for name in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
)
_SOURCES = "spec.volumes.*.projected.sources.*"


def _in_containers(*paths: str) -> tuple[str, ...]:
    return tuple(f"{container}.{path}" for path in paths for container in _CONTAINERS)


def _in_statuses(path: str) -> tuple[str, ...]:
    return tuple(f"{status}.{path}" for status in _STATUSES)


def _users() -> tuple[str, ...]:
    """Return the gated fields for owners of files in volumes."""
    volumes = ("secret", "configMap", "downwardAPI", "projected")
    files = ("secret", "configMap", "downwardAPI")
    whole = ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
    return (
        *(f"spec.volumes.*.{name}.defaultUser" for name in volumes),
        *(f"spec.volumes.*.{name}.items.*.user" for name in files),
        *(f"{_SOURCES}.{name}.items.*.user" for name in files),
        *(f"{_SOURCES}.{name}.user" for name in whole),
    )


POD = (
    # In 1.35 a pod refers to its workload, in later versions to its pod group.
    GatedFields(("GenericWorkload",), ("spec.workloadRef", "spec.schedulingGroup")),
    GatedFields(
        ("DynamicResourceAllocation",),
        (*_in_containers("resources.claims"), "spec.resourceClaims"),
    ),
    GatedFields(("EvictionRequestAPI",), ("spec.evictionResponders",)),
    GatedFields(("AtomicWriteVolumeUserFields",), _users()),
    GatedFields(("EmptyDirVolumeMode",), ("spec.volumes.*.emptyDir.mode",)),
    GatedFields(("VolumeBindMountOptions",), _in_containers("volumeMounts.*.bindMountOptions")),
    GatedFields(
        ("H2CContainerProbe",),
        _in_containers(*(f"{handler}.httpGet.protocol" for handler in (*_PROBES, *_HOOKS))),
    ),
    GatedFields(("GRPCContainerProbeTLS",), _in_containers(*(f"{probe}.grpc.mode" for probe in _PROBES))),
)
_CLAIMS = ("DynamicResourceAllocation",)
POD_STATUS = (
    GatedFields(_CLAIMS, ("status.resourceClaimStatuses",), ("spec.resourceClaims",)),
    GatedFields(("DRAExtendedResource",), ("status.extendedResourceClaimStatus",)),
    GatedFields(("DRANodeAllocatableResources",), ("status.nodeAllocatableResourceClaimStatuses",)),
    GatedFields(("ResourceHealthStatus",), _in_statuses("allocatedResourcesStatus")),
    GatedFields(
        ("ResourceHealthStatusMessage",), _in_statuses("allocatedResourcesStatus.*.resources.*.message")
    ),
    GatedFields(("CSIVolumeHealth",), ("status.volumeHealth",)),
)


def template(path: str) -> tuple[GatedFields, ...]:
    """Return the gated fields of the pod template at `path` (`DropDisabledTemplateFields`)."""
    return tuple(rule.below(path) for rule in POD)
