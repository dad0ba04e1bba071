"""What an update may do without, by kind (the strategies' AllowCreateOnUpdate and AllowUnconditionalUpdate)."""

from __future__ import annotations

from dra_apiserver.registry import KindInfo

_MADE_BY_UPDATE = frozenset(
    {
        ("", "endpoints"),
        ("", "events"),
        ("", "limitranges"),
        ("", "services"),
        ("coordination.k8s.io", "leasecandidates"),
        ("coordination.k8s.io", "leases"),
        ("node.k8s.io", "runtimeclasses"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
    }
)
_FROM_A_VERSION = frozenset(
    {
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("certificates.k8s.io", "clustertrustbundles"),
        ("certificates.k8s.io", "podcertificaterequests"),
        ("coordination.k8s.io", "leasecandidates"),
        ("coordination.k8s.io", "leases"),
        ("internal.apiserver.k8s.io", "storageversions"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
        ("resource.k8s.io", "resourcepoolstatusrequests"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "volumeattachments"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)


def makes_by_update(kind: KindInfo) -> bool:
    """Whether a PUT makes an object where there is none of that name."""
    return kind.storage in _MADE_BY_UPDATE


def needs_version(kind: KindInfo) -> bool:
    """Whether an update must say which version of the object it changes."""
    return kind.custom is not None or kind.storage in _FROM_A_VERSION
