"""The pods of a JobSet."""

from dra_shared.jobkinds.podsets import Gangs, Lookup, PodSet, integer
from dra_shared.jsontypes import JsonObject


def count_pods(job: JsonObject) -> int:
    """Return the number of pods that a Job with this spec has at once."""
    parallelism = integer(job, "parallelism", 1)
    return min(parallelism, integer(job, "completions", parallelism))


def find_pod_sets(jobset: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of all replicated jobs, which together form one gang."""
    sets = []
    for replicated in jobset["spec"].get("replicatedJobs", ()):
        job = replicated["template"]["spec"]
        pods = integer(replicated, "replicas", 1) * count_pods(job)
        sets.append(PodSet(replicated["name"], pods, job["template"]))
    return Gangs(1, tuple(sets))
