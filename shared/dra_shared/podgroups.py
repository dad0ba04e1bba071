"""PodGroups: in which version of the API they are read, and what else of them changed with Kubernetes.

1.37 has them in another shape, renamed their condition, and made gangs a part of the gate GenericWorkload.
"""

from dataclasses import replace

from dra_shared.api.resources import POD_GROUPS, Resource
from dra_shared.api.scheduling import PodGroup
from dra_shared.features import FeatureGates
from dra_shared.version import V1_37, Version


def pod_groups(kubernetes: Version) -> Resource[PodGroup]:
    """Where the groups are."""
    return POD_GROUPS if kubernetes >= V1_37 else replace(POD_GROUPS, version="v1alpha2")


def scheduled_condition(kubernetes: Version) -> str:
    """The type of the condition that says whether a group was scheduled."""
    return "PodGroupInitiallyScheduled" if kubernetes >= V1_37 else "PodGroupScheduled"


def gangs_wait(gates: FeatureGates) -> bool:
    """Whether the members of a gang are scheduled together or not at all."""
    return gates.enabled("GenericWorkload" if gates.version >= V1_37 else "GangScheduling")
