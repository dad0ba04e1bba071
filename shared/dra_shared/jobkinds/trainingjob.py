"""The pods of the jobs of Kubeflow's training operator, such as PyTorchJob."""

from collections.abc import Callable

from dra_shared.jobkinds.podsets import Gangs, Lookup, PodSet, integer
from dra_shared.jsontypes import JsonObject


def pod_sets_of(field: str) -> Callable[[JsonObject, Lookup], Gangs]:
    """Return the function for a kind whose replicas are in this field of its spec. They are one gang."""

    def find_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
        replicas = obj["spec"].get(field) or {}
        return Gangs(
            1,
            tuple(
                PodSet(role.lower(), integer(each, "replicas", 1), each["template"])
                for role, each in replicas.items()
            ),
        )

    return find_pod_sets
