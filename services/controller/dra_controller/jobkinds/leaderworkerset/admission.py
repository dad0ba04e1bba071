"""Labels, environment and affinities of the pods of groups.

Mirrors pkg/webhooks/pod_webhook.go and pkg/utils/accelerators/tpu.go.
"""

import hashlib
import re

from dra_shared.api.codec import convert
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS
from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.controller import to_plain
from dra_controller.jobkinds.leaderworkerset import sets
from dra_controller.jobkinds.leaderworkerset.tpu import add_tpu_variables

_ORDINAL = re.compile(r"(.*)-([0-9]+)$")


def split_name(name: str) -> tuple[str, int]:
    """Return the name of a pod's StatefulSet, and its number; -1 if it has none."""
    found = _ORDINAL.match(name)
    return (found[1], int(found[2])) if found else ("", -1)


def hash_name(*parts: str) -> str:
    """Return the hash that identifies a group or a subgroup, from its name."""
    return hashlib.sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()


def admit(pod: Pod) -> Pod:
    """Return the pod with labels, environment and affinities for its place in its group."""
    if sets.NAME not in pod.metadata.labels or sets.SIZE not in pod.metadata.annotations:
        return pod
    body = to_plain(pod)
    if pod.metadata.labels.get(sets.WORKER_INDEX) == "0":
        _mark_leader(body)
    else:
        _mark_worker(body)
    if sets.requests_tpus(pod):
        add_tpu_variables(body)
    _add_variables(body)
    return convert(PODS, body)


def _mark_leader(pod: JsonObject) -> None:
    meta = pod["metadata"]
    name, labels, annotations = meta["name"], meta["labels"], meta["annotations"]
    labels.setdefault(sets.GROUP_INDEX, str(split_name(name)[1]))
    if annotations.get(sets.SUBDOMAIN_POLICY) == "UniquePerReplica":
        pod["spec"]["subdomain"] = name
    key = labels.setdefault(sets.GROUP_KEY, hash_name(meta["namespace"], name))
    if sets.EXCLUSIVE in annotations:
        _add_affinities(pod["spec"], sets.GROUP_KEY, key, annotations[sets.EXCLUSIVE])
    # A leader that is not part of the subgroups has no subgroup labels.
    if sets.SUBGROUP_SIZE in annotations and annotations.get(sets.SUBGROUP_TYPE) != "LeaderExcluded":
        _join_subgroup(pod, "0", name)


def _mark_worker(pod: JsonObject) -> None:
    meta = pod["metadata"]
    labels, annotations = meta["labels"], meta["annotations"]
    index = split_name(meta["name"])[1]
    labels[sets.WORKER_INDEX] = str(index)
    if sets.SUBGROUP_SIZE in annotations:
        size, subgroup = int(annotations[sets.SIZE]), int(annotations[sets.SUBGROUP_SIZE])
        # If the leader is extra to the subgroups, it belongs to the first one.
        extra = (size - 1) % subgroup == 0 and size % subgroup != 0
        number = (index - 1 if extra else index) // subgroup
        _join_subgroup(pod, str(number), annotations[sets.LEADER_NAME])


def _join_subgroup(pod: JsonObject, index: str, leader: str) -> None:
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    if labels.get(sets.SUBGROUP_INDEX):
        return
    labels[sets.SUBGROUP_INDEX] = index
    key = labels[sets.SUBGROUP_KEY] = hash_name(leader, index)
    if sets.SUBGROUP_EXCLUSIVE in annotations:
        _add_affinities(pod["spec"], sets.SUBGROUP_KEY, key, annotations[sets.SUBGROUP_EXCLUSIVE])


def _add_affinities(spec: JsonObject, label: str, key: str, topology: str) -> None:
    affinity = spec.setdefault("affinity", {})
    own = [{"key": label, "operator": "In", "values": [key]}]
    others = [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": [key]},
    ]
    for kind, expressions in (("podAffinity", own), ("podAntiAffinity", others)):
        terms = affinity.setdefault(kind, {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", [])
        terms.append({"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology})


def _add_variables(pod: JsonObject) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    labels = meta["labels"]
    leader = f"{labels[sets.NAME]}-{labels[sets.GROUP_INDEX]}"
    first = {
        "LWS_LEADER_ADDRESS": f"{leader}.{spec.get('subdomain', '')}.{meta['namespace']}",
        "LWS_GROUP_SIZE": meta["annotations"][sets.SIZE],
        "LWS_WORKER_INDEX": labels[sets.WORKER_INDEX],
    }
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        kept = [one for one in container.get("env", ()) if one["name"] not in first]
        container["env"] = [*({"name": name, "value": value} for name, value in first.items()), *kept]
