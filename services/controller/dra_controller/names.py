"""The controllers by the names of kube-controller-manager, and the selection by ``--controllers``.

Mirrors cmd/kube-controller-manager/names/controller_names.go.
"""

from collections.abc import Sequence

# cmd/kube-controller-manager/names with its aliases. Names of controllers that do not run here are accepted
# too, so that a command line for kube-controller-manager works here.
_UPSTREAM = (
    "bootstrap-signer-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "podgroup-protection-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "selinux-warning-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "service-cidr-controller",
    "statefulset-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "taint-eviction-controller",
    "token-cleaner-controller",
    "ttl-after-finished-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
)
# Controllers that upstream does not have.
_OWN = (
    "classic-dra-controller",
    "jobset-controller",
    "leaderworkerset-controller",
    "raycluster-controller",
    "rayjob-controller",
    "mpijob-controller",
    "trainjob-controller",
)
_ALIASES = {
    "attachdetach": "persistentvolume-attach-detach-controller",
    "bootstrapsigner": "bootstrap-signer-controller",
    "clusterrole-aggregation": "clusterrole-aggregation-controller",
    "csrapproving": "certificatesigningrequest-approving-controller",
    "csrcleaner": "certificatesigningrequest-cleaner-controller",
    "csrsigning": "certificatesigningrequest-signing-controller",
    "endpoint": "endpoints-controller",
    "endpointslicemirroring": "endpointslice-mirroring-controller",
    "garbagecollector": "garbage-collector-controller",
    "horizontalpodautoscaling": "horizontal-pod-autoscaler-controller",
    "nodeipam": "node-ipam-controller",
    "nodelifecycle": "node-lifecycle-controller",
    "podgc": "pod-garbage-collector-controller",
    "pv-protection": "persistentvolume-protection-controller",
    "pvc-protection": "persistentvolumeclaim-protection-controller",
    "replicationcontroller": "replicationcontroller-controller",
    "resource-claim-controller": "resourceclaim-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "storage-version-gc": "storageversion-garbage-collector-controller",
    "tokencleaner": "token-cleaner-controller",
}


def canonical_name(name: str) -> str:
    """Return the full name of a controller. Accepts short names and old names of kube-controller-manager.

    Raises:
        ValueError: there is no such controller.
    """
    for candidate in (name, _ALIASES.get(name, ""), f"{name}-controller"):
        if candidate in _UPSTREAM or candidate in _OWN:
            return candidate
    raise ValueError(f'"{name}" is not in the list of known controllers')


def select(controllers: Sequence[str], available: Sequence[str]) -> list[str]:
    """Return those of ``available`` that ``controllers`` asks for.

    ``*`` enables all, ``name`` enables one, ``-name`` disables one. As upstream, the first entry that names a
    controller decides, and one that is not named depends on ``*``.

    Raises:
        ValueError: an entry names no controller.
    """
    verdicts: dict[str, bool] = {}
    for entry in controllers:
        if entry != "*":
            verdicts.setdefault(canonical_name(entry.removeprefix("-")), not entry.startswith("-"))
    return [name for name in available if verdicts.get(name, "*" in controllers)]
