"""The StatefulSets and Services of a LeaderWorkerSet, and its revisions.

Mirrors constructLeaderStatefulSetApplyConfiguration, constructWorkerStatefulSetApplyConfiguration and
pkg/utils/revision.
"""

import copy
import math
from typing import Any

from dra_shared.api.pod import Pod
from dra_shared.jsontypes import JsonObject

from dra_controller.hashing import revision_hash
from dra_controller.jobkinds.operators import Custom

_PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME = f"{_PREFIX}name"
GROUP_INDEX = f"{_PREFIX}group-index"
WORKER_INDEX = f"{_PREFIX}worker-index"
GROUP_KEY = f"{_PREFIX}group-key"
SIZE = f"{_PREFIX}size"
REPLICAS = f"{_PREFIX}replicas"
LEADER_NAME = f"{_PREFIX}leader-name"
REVISION = f"{_PREFIX}template-revision-hash"
EXCLUSIVE = f"{_PREFIX}exclusive-topology"
SUBGROUP_INDEX = f"{_PREFIX}subgroup-index"
SUBGROUP_SIZE = f"{_PREFIX}subgroup-size"
SUBGROUP_KEY = f"{_PREFIX}subgroup-key"
SUBGROUP_TYPE = f"{_PREFIX}subgroup-policy-type"
SUBGROUP_EXCLUSIVE = f"{_PREFIX}subgroup-exclusive-topology"
SUBDOMAIN_POLICY = f"{_PREFIX}subdomainPolicy"
RECREATE_AFTER_START = f"{_PREFIX}experimental-recreate-group-after-start"
LEADER_REQUESTS_TPUS = f"{_PREFIX}leader-requests-tpus"


def group_template(spec: JsonObject) -> JsonObject:
    """Return the templates of a group."""
    template: JsonObject = spec["leaderWorkerTemplate"]
    return template


def group_size(spec: JsonObject) -> int:
    """Return the number of pods in a group."""
    size: int = group_template(spec).get("size", 1)
    return size


def is_shared(spec: JsonObject) -> bool:
    """Return True if all groups have one subdomain."""
    policy = (spec.get("networkConfig") or {}).get("subdomainPolicy", "Shared")
    return bool(policy == "Shared")


def scale(value: int | str, total: int, *, up: bool) -> int:
    """Return a number, or a percentage of the total."""
    if isinstance(value, int):
        return value
    share = total * int(value.removesuffix("%")) / 100
    return math.ceil(share) if up else math.floor(share)


def rolling_update(spec: JsonObject) -> JsonObject:
    """Return the configuration of rolling updates."""
    found: JsonObject = (spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    return {"maxUnavailable": 1, "maxSurge": 0, "partition": 0, **found}


def surge(spec: JsonObject) -> int:
    """Return the number of groups that an update may add."""
    replicas: int = spec["replicas"]
    return min(scale(rolling_update(spec)["maxSurge"], replicas, up=True), replicas)


def unavailable(spec: JsonObject) -> int:
    """Return the number of groups that may be down during an update."""
    return scale(rolling_update(spec)["maxUnavailable"], spec["replicas"], up=False)


def build_revision(lws: Custom, number: int) -> JsonObject:
    """Return the revision of the present templates."""
    spec = lws.spec
    network = spec.get("networkConfig") or {"subdomainPolicy": "Shared"}
    data = {
        "spec": {
            "networkConfig": {**network, "$patch": "replace"},
            "leaderWorkerTemplate": {**group_template(spec), "$patch": "replace"},
        }
    }
    digest = revision_hash(data, 0)
    return {
        "metadata": {
            "name": f"{lws.metadata.name[:220]}-{digest}-{number}",
            "labels": {NAME: lws.metadata.name, REVISION: digest},
        },
        "data": data,
        "revision": number,
    }


def restore(lws: Custom, data: Any) -> JsonObject:
    """Return the spec with the templates of a revision."""
    spec = dict(lws.spec)
    for key, value in data["spec"].items():
        spec[key] = {name: part for name, part in value.items() if name != "$patch"}
    return spec


def _subgroup(lws: Custom, spec: JsonObject) -> dict[str, str]:
    policy = group_template(spec).get("subGroupPolicy")
    if policy is None:
        return {}
    found = {
        SUBGROUP_TYPE: policy.get("subGroupPolicyType", "LeaderWorker"),
        SUBGROUP_SIZE: str(policy["subGroupSize"]),
    }
    if lws.metadata.annotations.get(SUBGROUP_EXCLUSIVE):
        found[SUBGROUP_EXCLUSIVE] = lws.metadata.annotations[SUBGROUP_EXCLUSIVE]
    return found


def _annotations(lws: Custom, spec: JsonObject) -> dict[str, str]:
    found = {SIZE: str(group_size(spec))}
    if lws.metadata.annotations.get(EXCLUSIVE):
        found[EXCLUSIVE] = lws.metadata.annotations[EXCLUSIVE]
    return {**found, **_subgroup(lws, spec)}


def _mark(template: JsonObject, labels: dict[str, str], annotations: dict[str, str]) -> JsonObject:
    made = copy.deepcopy(template)
    meta = made.get("metadata") or {}
    made["metadata"] = {
        **meta,
        "labels": {**(meta.get("labels") or {}), **labels},
        "annotations": {**(meta.get("annotations") or {}), **annotations},
    }
    return made


def _volumes(spec: JsonObject) -> JsonObject:
    template, found = group_template(spec), {}
    if template.get("volumeClaimTemplates"):
        found["volumeClaimTemplates"] = template["volumeClaimTemplates"]
    if template.get("persistentVolumeClaimRetentionPolicy"):
        found["persistentVolumeClaimRetentionPolicy"] = template["persistentVolumeClaimRetentionPolicy"]
    return found


def build_leaders(lws: Custom, revision: str, partition: int, replicas: int) -> JsonObject:
    """Return the StatefulSet of the leaders."""
    name, spec = lws.metadata.name, lws.spec
    template = group_template(spec).get("leaderTemplate") or group_template(spec)["workerTemplate"]
    own = {WORKER_INDEX: "0", NAME: name}
    annotations = _annotations(lws, spec)
    if not is_shared(spec):
        annotations[SUBDOMAIN_POLICY] = "UniquePerReplica"
    most = max(1, unavailable(spec) + surge(spec))
    return {
        "metadata": {
            "name": name,
            "labels": {**lws.metadata.labels, NAME: name, REVISION: revision},
            "annotations": {**lws.metadata.annotations, REPLICAS: str(spec["replicas"])},
        },
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": own},
            "template": _mark(template, {**own, REVISION: revision}, annotations),
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": most, "partition": partition},
            },
            **_volumes(spec),
        },
    }


def build_workers(lws: Custom, spec: JsonObject, leader: Pod, domain: dict[str, str]) -> JsonObject:
    """Return the StatefulSet of the leader's workers. ``spec`` is that of the leader's revision."""
    name, labels = leader.metadata.name, leader.metadata.labels
    own = {
        GROUP_INDEX: labels[GROUP_INDEX],
        NAME: lws.metadata.name,
        GROUP_KEY: labels[GROUP_KEY],
    }
    marks = {**own, REVISION: labels[REVISION]}
    annotations = {**_annotations(lws, spec), LEADER_NAME: name}
    if requests_tpus(leader):
        annotations[LEADER_REQUESTS_TPUS] = "true"
    template = _mark(group_template(spec)["workerTemplate"], marks, annotations)
    if domain:
        template["spec"]["nodeSelector"] = {**(template["spec"].get("nodeSelector") or {}), **domain}
    return {
        "metadata": {
            "name": name,
            "labels": {**lws.metadata.labels, **marks},
            "annotations": lws.metadata.annotations,
        },
        "spec": {
            "serviceName": lws.metadata.name if is_shared(spec) else name,
            "replicas": group_size(spec) - 1,
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {"matchLabels": own},
            "template": template,
            **_volumes(spec),
        },
    }


def requests_tpus(pod: Pod) -> bool:
    """Return True if a container asks for TPUs as an extended resource."""
    return any(
        name == "google.com/tpu"
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for name in (*container.resources.limits, *container.resources.requests)
    )


def build_service(lws: Custom, name: str, selector: dict[str, str]) -> JsonObject:
    """Return a headless Service."""
    return {
        "metadata": {"name": name, "labels": {NAME: lws.metadata.name}},
        "spec": {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True},
    }
