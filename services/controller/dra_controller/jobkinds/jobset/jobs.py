"""The Jobs of a JobSet, and its headless Service.

Mirrors constructJob and labelAndAnnotateObject in pkg/controllers/jobset_controller.go.
"""

import copy
import hashlib
from collections.abc import Iterator
from typing import Any

from dra_shared.jobkinds.podsets import integer
from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.operators import Custom

_PREFIX = "jobset.sigs.k8s.io/"
NAME = f"{_PREFIX}jobset-name"
REPLICATED_JOB = f"{_PREFIX}replicatedjob-name"
RESTARTS = f"{_PREFIX}restart-attempt"
JOB_INDEX = f"{_PREFIX}job-index"
JOB_KEY = f"{_PREFIX}job-key"
PRIORITY = f"{_PREFIX}priority"
_ALPHA = "alpha.jobset.sigs.k8s.io/"
EXCLUSIVE = f"{_ALPHA}exclusive-topology"
NODE_SELECTOR = f"{_ALPHA}node-selector"


def name_job(jobset: str, replicated: str, index: int | str) -> str:
    """Return the name of a Job."""
    return f"{jobset}-{replicated}-{index}"


def replicas(replicated: JsonObject) -> int:
    """Return the number of the Jobs of a replicated job."""
    return integer(replicated, "replicas", 1)


def replicated_jobs(jobset: Custom) -> list[JsonObject]:
    """Return the replicated jobs."""
    found: list[JsonObject] = jobset.spec.get("replicatedJobs") or []
    return found


def has_hostnames(jobset: Custom) -> bool:
    """Return True if the pods have DNS names."""
    return bool((jobset.spec.get("network") or {}).get("enableDNSHostnames"))


def subdomain_of(jobset: Custom) -> str:
    """Return the name of the headless Service."""
    subdomain: str = (jobset.spec.get("network") or {}).get("subdomain") or jobset.metadata.name
    return subdomain


def build_service(jobset: Custom) -> JsonObject:
    """Return the headless Service of the pods."""
    published = (jobset.spec.get("network") or {}).get("publishNotReadyAddresses")
    return {
        "metadata": {"name": subdomain_of(jobset)},
        "spec": {
            "clusterIP": "None",
            "selector": {NAME: jobset.metadata.name},
            "publishNotReadyAddresses": True if published is None else published,
        },
    }


def build_job(jobset: Custom, replicated: JsonObject, index: int) -> JsonObject:
    """Return a Job of a replicated job."""
    template = replicated["template"]
    meta = template.get("metadata") or {}
    spec = copy.deepcopy(template["spec"])
    pod = spec["template"]
    pod["metadata"] = _mark(pod.get("metadata") or {}, jobset, replicated, index)
    if has_hostnames(jobset):
        pod["spec"]["subdomain"] = subdomain_of(jobset)
    name = name_job(jobset.metadata.name, replicated["name"], index)
    job = {"metadata": {"name": name, **_mark(meta, jobset, replicated, index)}, "spec": spec}
    annotations = job["metadata"]["annotations"]
    if EXCLUSIVE in annotations and NODE_SELECTOR in annotations:
        selector = pod["spec"].setdefault("nodeSelector", {})
        selector[f"{_ALPHA}namespaced-job"] = f"{jobset.metadata.namespace}_{name}"
        toleration = {"key": f"{_ALPHA}no-schedule", "operator": "Exists", "effect": "NoSchedule"}
        pod["spec"].setdefault("tolerations", []).append(toleration)
    spec["suspend"] = bool(jobset.spec.get("suspend"))
    pod["spec"].setdefault("volumes", []).extend(_volumes(jobset, pod["spec"]))
    return job


def _mark(meta: JsonObject, jobset: Custom, replicated: JsonObject, index: int) -> JsonObject:
    """Return the labels and annotations of ``meta``, extended by those that JobSet adds."""
    jobs = replicated_jobs(jobset)
    name, group = replicated["name"], replicated.get("groupName", "")
    key = f"{jobset.metadata.namespace}/{name_job(jobset.metadata.name, name, index)}"
    marks = {
        NAME: jobset.metadata.name,
        f"{_PREFIX}jobset-uid": jobset.metadata.uid,
        REPLICATED_JOB: name,
        RESTARTS: str(jobset.status.get("restarts", 0)),
        f"{_PREFIX}replicatedjob-replicas": str(replicas(replicated)),
        f"{_PREFIX}global-replicas": str(sum(map(replicas, jobs))),
        JOB_INDEX: str(index),
        JOB_KEY: hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(),
        f"{_PREFIX}job-global-index": str(_offset(jobs, name) + index),
        f"{_PREFIX}group-name": group,
        f"{_PREFIX}group-replicas": str(sum(map(replicas, _group(jobs, group)))),
        f"{_PREFIX}job-group-index": str(_offset(_group(jobs, group), name) + index),
    }
    coordinator = jobset.spec.get("coordinator")
    if coordinator is not None:
        job = name_job(jobset.metadata.name, coordinator["replicatedJob"], coordinator.get("jobIndex", 0))
        host = f"{job}-{coordinator.get('podIndex', 0)}"
        marks[f"{_PREFIX}coordinator"] = f"{host}.{subdomain_of(jobset)}"
    annotations = {**(meta.get("annotations") or {}), **marks}
    own = (replicated["template"].get("metadata") or {}).get("annotations") or {}
    for source in (jobset.metadata.annotations, own):
        if EXCLUSIVE in source:
            annotations |= {key: source[key] for key in (EXCLUSIVE, NODE_SELECTOR) if key in source}
    return {**meta, "labels": {**(meta.get("labels") or {}), **marks}, "annotations": annotations}


def _group(jobs: list[JsonObject], group: str) -> list[JsonObject]:
    return [one for one in jobs if one.get("groupName", "") == group]


def _offset(jobs: list[JsonObject], name: str) -> int:
    """Return the number of the Jobs before those of the replicated job."""
    total = 0
    for one in jobs:
        if one["name"] == name:
            break
        total += replicas(one)
    return total


def build_claims(jobset: Custom) -> Iterator[tuple[JsonObject, bool]]:
    """Yield the volume claims, each with True if it is deleted with the JobSet.

    Mirrors pkg/controllers/volume_claim_policy.go.
    """
    for policy in jobset.spec.get("volumeClaimPolicies") or ():
        kept = (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Retain"
        for template in policy.get("templates") or ():
            meta = template["metadata"]
            labels = {**(meta.get("labels") or {}), NAME: jobset.metadata.name}
            name = _name_claim(jobset, meta["name"])
            made = {
                "metadata": {"name": name, "labels": labels, "annotations": meta.get("annotations") or {}},
                "spec": template["spec"],
            }
            yield made, not kept


def _name_claim(jobset: Custom, template: str) -> str:
    return f"{template}-{jobset.metadata.name}"


def _volumes(jobset: Custom, pod: JsonObject) -> Iterator[JsonObject]:
    containers: list[Any] = [*pod.get("containers", ()), *pod.get("initContainers", ())]
    mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts") or ()}
    for policy in jobset.spec.get("volumeClaimPolicies") or ():
        for template in policy.get("templates") or ():
            name = template["metadata"]["name"]
            if name in mounted:
                yield {
                    "name": name,
                    "persistentVolumeClaim": {"claimName": _name_claim(jobset, name)},
                }
