"""The pods of an MPIJob."""

from dra_shared.jobkinds.podsets import Gangs, Lookup, PodSet, integer
from dra_shared.jsontypes import JsonObject


def find_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of the launcher and of the workers, which together form one gang."""
    replicas = obj["spec"].get("mpiReplicaSpecs") or {}
    return Gangs(
        1,
        tuple(
            PodSet(role.lower(), integer(replicas[role], "replicas", 1), replicas[role]["template"])
            for role in ("Launcher", "Worker")
            if role in replicas
        ),
    )
