"""The pods of a LeaderWorkerSet."""

from dra_shared.jobkinds.podsets import Gangs, Lookup, PodSet, integer
from dra_shared.jsontypes import JsonObject


def find_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
    """Return the leader and the workers of a group. Each group is a gang."""
    spec = obj["spec"]
    template = spec["leaderWorkerTemplate"]
    worker = template["workerTemplate"]
    leader = template.get("leaderTemplate") or worker
    size = integer(template, "size", 1)
    sets = [PodSet("leader", 1, leader)]
    if size > 1:
        sets.append(PodSet("worker", size - 1, worker))
    return Gangs(integer(spec, "replicas", 1), tuple(sets))
