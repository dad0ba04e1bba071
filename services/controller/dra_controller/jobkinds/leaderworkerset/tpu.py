"""The environment of workers that ask for TPUs as an extended resource.

Mirrors pkg/utils/accelerators/tpu.go.
"""

from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.leaderworkerset import sets

_RESOURCE = "google.com/tpu"
_PORT = "TPU_PROCESS_PORT"
_FIRST_PORT = 8476


def add_tpu_variables(pod: JsonObject) -> None:
    """Add the addresses of the pod's slice to its containers with TPUs."""
    containers = _find_containers(pod["spec"])
    if {"TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"} & _read_variables(containers[0]).keys():
        return
    in_subgroups = sets.SUBGROUP_SIZE in pod["metadata"]["annotations"]
    if in_subgroups:
        containers = containers[:1]
    leader, hosts, index = (_subgroup if in_subgroups else _group)(pod)
    ports = [
        _read_variables(container).get(_PORT, str(_FIRST_PORT + place))
        for place, container in enumerate(containers)
    ]
    for place, container in enumerate(containers):
        added = {
            "TPU_WORKER_HOSTNAMES": ",".join(host for host in hosts for _ in containers),
            "TPU_WORKER_ID": str(index * len(containers) + place),
            "TPU_NAME": leader,
            "TPU_PROCESS_ADDRESSES": ",".join(f"{host}:{port}" for host in hosts for port in ports),
        }
        if _PORT not in _read_variables(container):
            added[_PORT] = ports[place]
        variables = container.setdefault("env", [])
        variables.extend({"name": name, "value": value} for name, value in added.items())


def _find_containers(spec: JsonObject) -> list[JsonObject]:
    found = []
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        resources = container.get("resources", {})
        if _RESOURCE in {**resources.get("limits", {}), **resources.get("requests", {})}:
            found.append(container)
    return found


def _read_variables(container: JsonObject) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container.get("env", ())}


def _place(pod: JsonObject) -> tuple[str, int, bool]:
    """Return the leader's name, the pod's index, and True if the leader has TPUs."""
    meta = pod["metadata"]
    index = int(meta["labels"][sets.WORKER_INDEX])
    if index == 0:
        return meta["name"], 0, True
    leads = meta["annotations"].get(sets.LEADER_REQUESTS_TPUS) == "true"
    return meta["annotations"][sets.LEADER_NAME], index, leads


def _group(pod: JsonObject) -> tuple[str, list[str], int]:
    leader, index, leads = _place(pod)
    subdomain = pod["spec"].get("subdomain", "")
    hosts = [f"{leader}.{subdomain}"] if leads else []
    size = int(pod["metadata"]["annotations"][sets.SIZE])
    hosts += [f"{leader}-{number}.{subdomain}" for number in range(1, size)]
    return leader, hosts, index if leads else index - 1


def _subgroup(pod: JsonObject) -> tuple[str, list[str], int]:
    leader, index, leads = _place(pod)
    meta, subdomain = pod["metadata"], pod["spec"].get("subdomain", "")
    size = int(meta["annotations"][sets.SUBGROUP_SIZE])
    number = int(meta["labels"].get(sets.SUBGROUP_INDEX, "0"))
    own = index % size
    if index and not leads:
        own, number = (index - 1) % size, (index - 1) // size
    # If the leader has TPUs, it is the first in the slice, and the workers follow.
    start, end = size * number + 1, size * (number + 1)
    hosts = []
    if leads:
        end -= 1
        if number == 0:
            hosts.append(f"{leader}.{subdomain}")
        else:
            start -= 1
    hosts += [f"{leader}-{place}.{subdomain}" for place in range(start, end + 1)]
    return leader, hosts, own
