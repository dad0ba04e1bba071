"""The versions of Kubernetes that a cluster's services follow, and their feature gates.

``--kubernetes-version 1.36,node-agent=1.34``: the first is the cluster's, for all services that are not named.
Upstream's version skew policy limits how far a service may be from the API server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_shared.features import FeatureGates, read, with_defaults
from dra_shared.podgroups import pod_groups
from dra_shared.version import DEFAULT, V1_36, Version, release

# How many minor versions older than the API server a service may be.
_SKEW = {"scheduler": 1, "controller": 1, "node-agent": 3}

# The lab turns on all features of DRA that some version has off by default. --feature-gates overrides this.
LAB_GATES = dict.fromkeys(
    (
        "CompositePodGroup",
        "DRAConsumableCapacity",
        "DRADerivedAttributes",
        "DRADeviceBindingConditions",
        "DRADeviceCompatibilityGroups",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAFractionalCapacityRange",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevices",
        "DRAPartitionableDevicesType",
        "DRAResourcePoolStatus",
        "DRAWorkloadResourceClaims",
        "GangScheduling",
        "GenericWorkload",
        "ResourceHealthStatus",
        "SchedulerPreQueueingHints",
        # CompositePodGroup needs it.
        "TopologyAwareWorkloadScheduling",
    ),
    True,
)

# Those that need PodGroups: in 1.35 there are none apart from workloads, and services of 1.36 read them in a version
# that an API server of 1.37 does not serve.
_POD_GROUPS = (
    "CompositePodGroup",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
)


def lab_gates(version: Version, cluster: Version | None = None) -> dict[str, bool]:
    """Return the gates that the lab turns on in a version, if the API server's version is ``cluster``."""
    groups = pod_groups(version)
    known = version >= V1_36 and release(cluster or version).serves(groups.api_version, groups.plural)
    return {name: on for name, on in LAB_GATES.items() if known or name not in _POD_GROUPS}


@dataclass(frozen=True)
class Versions:
    """The version of the cluster and its API server, and the versions of services that differ from it."""

    cluster: Version = DEFAULT
    services: Mapping[str, Version] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Return the versions in ``--kubernetes-version``.

        Raises:
            ValueError: a version or a service is not known, or a service is too far from the API server.
        """
        cluster, services = DEFAULT, dict[str, Version]()
        for entry in filter(None, (part.strip() for part in text.split(","))):
            name, equals, older = entry.partition("=")
            if not equals:
                cluster = Version.parse(name)
            elif name in _SKEW:
                services[name] = Version.parse(older)
            else:
                raise ValueError(f"--kubernetes-version {entry}: choose {', '.join(_SKEW)}")
        for name, version in services.items():
            _check_skew(name, version, cluster)
        return cls(cluster, services)

    def of(self, service: str) -> Version:
        """Return the version of a service. The node agents of all pools have the same."""
        name = "node-agent" if service.startswith("node-agent") else service
        return self.services.get(name, self.cluster)

    def gates(self, service: str, wanted: str) -> str:
        """Return a service's feature gates: the lab's and those wanted, as far as its version has them.

        Raises:
            ValueError: the cluster's version does not have a wanted gate.
        """
        read(wanted, self.cluster)
        version = self.of(service)
        if version != self.cluster:
            wanted = _keep_known(wanted, version)
        gates = with_defaults(lab_gates(version, self.cluster), wanted, version)
        FeatureGates.parse(gates, version)
        return gates


def _check_skew(service: str, version: Version, cluster: Version) -> None:
    oldest = cluster.minor - _SKEW[service]
    if not oldest <= version.minor <= cluster.minor:
        few = "one minor version" if _SKEW[service] == 1 else f"{_SKEW[service]} minor versions"
        raise ValueError(
            f"{service} of Kubernetes {version} does not work with an API server of {cluster}: it may be at most "
            f"{few} older, and not newer"
        )


def _keep_known(wanted: str, version: Version) -> str:
    gates = release(version).gates
    return ",".join(
        entry
        for entry in wanted.split(",")
        if (name := entry.partition("=")[0].strip()) in gates or name[:3] == "All"
    )
