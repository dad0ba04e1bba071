"""PodGroups in different versions of Kubernetes: the version of the API, the condition, and the gate.

1.37 has them in another form, renamed their condition, and moved gangs to the gate GenericWorkload.
"""

from dataclasses import replace

from dra_shared.api.resources import POD_GROUPS, Resource
from dra_shared.api.scheduling import PodGroup
from dra_shared.features import FeatureGates
from dra_shared.version import V1_37, Version


def pod_groups(kubernetes: Version) -> Resource[PodGroup]:
    """Return the API resource of pod groups in a version of Kubernetes."""
    return POD_GROUPS if kubernetes >= V1_37 else replace(POD_GROUPS, version="v1alpha2")


def scheduled_condition(kubernetes: Version) -> str:
    """Return the type of the condition that says whether a group was scheduled."""
    return "PodGroupInitiallyScheduled" if kubernetes >= V1_37 else "PodGroupScheduled"


def gangs_wait(gates: FeatureGates) -> bool:
    """True if the members of a gang are only scheduled together."""
    return gates.enabled("GenericWorkload" if gates.version >= V1_37 else "GangScheduling")
