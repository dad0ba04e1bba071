"""The pods of a RayCluster, and of a RayJob, which creates one."""

from dra_shared.jobkinds.podsets import Gangs, Lookup, PodSet, integer
from dra_shared.jsontypes import JsonObject


def desired_replicas(group: JsonObject) -> int:
    """Return the number of replicas of a worker group, kept between its bounds.

    Mirrors GetWorkerGroupDesiredReplicas in ray-operator/controllers/ray/utils/util.go.
    """
    if group.get("suspend"):
        return 0
    least, most = integer(group, "minReplicas", 0), integer(group, "maxReplicas", 2**31 - 1)
    return min(max(integer(group, "replicas", least), least), most)


def find_cluster_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of the head and of the workers, which together form one gang."""
    spec = obj["spec"]
    sets = [PodSet("head", 1, spec["headGroupSpec"]["template"])]
    for group in spec.get("workerGroupSpecs") or ():
        pods = desired_replicas(group) * integer(group, "numOfHosts", 1)
        sets.append(PodSet(group["groupName"], pods, group["template"]))
    return Gangs(1, tuple(sets))


def find_job_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of the job's cluster; none if it selects an existing cluster."""
    cluster = obj["spec"].get("rayClusterSpec")
    return find_cluster_pod_sets({"spec": cluster}, lookup) if cluster else Gangs(0, ())


def find_service_pod_sets(obj: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of the service's cluster."""
    return find_cluster_pod_sets({"spec": obj["spec"]["rayClusterConfig"]}, lookup)
