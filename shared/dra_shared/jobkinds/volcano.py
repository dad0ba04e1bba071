"""The pods of a Volcano job."""

from dra_shared.jobkinds.podsets import Gangs, Lookup, PodSet, integer
from dra_shared.jsontypes import JsonObject


def find_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of all tasks. They form one gang, of which ``minAvailable`` pods must start together."""
    spec = obj["spec"]
    tasks = spec.get("tasks") or ()
    sets = tuple(
        PodSet(task.get("name") or f"default{index}", integer(task, "replicas", 1), task["template"])
        for index, task in enumerate(tasks)
    )
    return Gangs(1, sets, integer(spec, "minAvailable", sum(one.count for one in sets)))
