"""The JobSet of a TrainJob, which its training runtime describes, and its pods.

Mirrors pkg/runtime of kubeflow/trainer: core/trainingruntime.go and the plugins jobset, torch, mpi, jax, xgboost and
plainml.
"""

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from dra_shared.jobkinds import jobset
from dra_shared.jobkinds.podsets import Gangs, Lookup, UnknownReference, integer
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
NODE, LAUNCHER = "node", "launcher"
_TRAINER = "trainer"
_PORT = 29500
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
# The keys by which a strategic merge patch finds the items of these lists; of other lists it is the name.
_KEYS = {"volumeMounts": "mountPath", "ports": "containerPort", "env": "name"}
_ATOMIC = ("tolerations", "schedulingGates", "command", "args")


def find_runtime(train: JsonObject, lookup: Lookup) -> JsonObject:
    """Return the training runtime that the TrainJob refers to.

    Raises:
        UnknownReference: there is none.
    """
    reference = train["spec"]["runtimeRef"]
    kind = reference.get("kind") or "ClusterTrainingRuntime"
    namespace = (train["metadata"].get("namespace") or "default") if kind == "TrainingRuntime" else ""
    found = lookup(kind, namespace, reference["name"])
    if found is None:
        raise UnknownReference(f"{kind} {reference['name']}")
    return found


def find_pod_sets(train: JsonObject, lookup: Lookup) -> Gangs:
    """Return the pods of the TrainJob's JobSet.

    Raises:
        UnknownReference: its training runtime does not exist.
    """
    spec = build_jobset(train, find_runtime(train, lookup))["spec"]
    return jobset.find_pod_sets({"spec": spec}, lookup)


def build_jobset(train: JsonObject, runtime: JsonObject) -> JsonObject:
    """Return the JobSet of the TrainJob, without an owner."""
    template = runtime["spec"]["template"]
    meta = template.get("metadata") or {}
    labels, annotations = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
    # Unlike a deep copy, this shares no part between two jobs.
    spec: JsonObject = msgspec.json.decode(msgspec.json.encode(template["spec"]))
    for patch in train["spec"].get("runtimePatches") or ():
        changed = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        labels |= (changed.get("metadata") or {}).get("labels") or {}
        annotations |= (changed.get("metadata") or {}).get("annotations") or {}
        spec = _merge(spec, changed.get("spec") or {}, "")
    policy = runtime["spec"].get("mlPolicy") or {}
    trainer = train["spec"].get("trainer") or {}
    for job in spec["replicatedJobs"]:
        _set_resources(job, trainer, policy)
        _set_initializer(job, train["spec"].get("initializer") or {})
        nodes = max(_count_nodes(job, trainer, policy), 1)
        job["template"]["spec"] |= {"parallelism": nodes, "completions": nodes}
    _apply_policy(train, spec, policy, trainer)
    for job in spec["replicatedJobs"]:
        _set_trainer(job, trainer, policy)
    spec["suspend"] = bool(train["spec"].get("suspend"))
    name = train["metadata"]["name"]
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


def _merge(base: Any, patch: Any, name: str) -> Any:
    """Merge as a strategic merge patch does."""
    if isinstance(base, dict) and isinstance(patch, dict):
        merged = dict(base)
        for key, value in patch.items():
            merged[key] = _merge(base.get(key), value, key)
        return merged
    if isinstance(base, list) and isinstance(patch, list) and name not in _ATOMIC:
        key = _KEYS.get(name, "name")
        if all(isinstance(item, dict) and key in item for item in (*base, *patch)):
            changes = {item[key]: item for item in patch}
            kept = [
                _merge(item, changes.pop(item[key]), "") if item[key] in changes else item for item in base
            ]
            return [*kept, *changes.values()]
    return copy.deepcopy(patch)


def _ancestor(job: JsonObject) -> str:
    labels = (job["template"].get("metadata") or {}).get("labels") or {}
    found: str = labels.get(ANCESTOR, "")
    return found


def _containers(job: JsonObject, name: str) -> Iterator[JsonObject]:
    for container in job["template"]["spec"]["template"]["spec"]["containers"]:
        if container["name"] == name:
            yield container


def is_launcher_node(policy: JsonObject) -> bool:
    """Return True if the launcher of an MPI job is one of the nodes."""
    return bool((policy.get("mpi") or {}).get("runLauncherAsNode"))


def _trains(job: JsonObject, policy: JsonObject) -> bool:
    return _ancestor(job) == _TRAINER or (is_launcher_node(policy) and job["name"] == NODE)


def _count_nodes(job: JsonObject, trainer: JsonObject, policy: JsonObject) -> int:
    count = integer(job["template"]["spec"], "parallelism", 1)
    wanted = trainer.get("numNodes")
    if _ancestor(job) == _TRAINER and policy:
        count = integer(policy, "numNodes", 1)
    if policy.get("mpi") is not None:
        if job["name"] == NODE and wanted is not None:
            return int(wanted) - 1 if is_launcher_node(policy) else int(wanted)
        return count
    return int(wanted) if _ancestor(job) == _TRAINER and wanted is not None else count


def _set_resources(job: JsonObject, trainer: JsonObject, policy: JsonObject) -> None:
    wanted = trainer.get("resourcesPerNode")
    if wanted and _trains(job, policy):
        for container in _containers(job, NODE):
            base = container.get("resources") or {}
            container["resources"] = {
                **base,
                **{
                    key: {**(base.get(key) or {}), **wanted[key]}
                    for key in ("limits", "requests")
                    if wanted.get(key)
                },
            }


def _set_initializer(job: JsonObject, initializer: JsonObject) -> None:
    for ancestor, field in (("dataset-initializer", "dataset"), ("model-initializer", "model")):
        if _ancestor(job) != ancestor:
            continue
        job["replicas"] = 1
        given = initializer.get(field) or {}
        for container in _containers(job, ancestor):
            if given.get("storageUri"):
                upsert(container, "env", "name", {"name": "STORAGE_URI", "value": given["storageUri"]})
            for variable in given.get("env") or ():
                upsert(container, "env", "name", variable)
            if given.get("secretRef"):
                source = {"secretRef": {"name": given["secretRef"]["name"]}}
                container.setdefault("envFrom", []).append(source)


def _set_trainer(job: JsonObject, trainer: JsonObject, policy: JsonObject) -> None:
    if _ancestor(job) == _TRAINER:
        job["replicas"] = 1
    if not _trains(job, policy):
        return
    for container in _containers(job, NODE):
        if _ancestor(job) == _TRAINER:
            container |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
        for variable in trainer.get("env") or ():
            upsert(container, "env", "name", variable)


def upsert(owner: JsonObject, field: str, key: str, item: JsonObject) -> None:
    """Put the item into the list of the owner, in place of one with the same key."""
    items = owner.setdefault(field, [])
    for place, one in enumerate(items):
        if one[key] == item[key]:
            items[place] = item
            return
    items.append(item)


def _apply_policy(train: JsonObject, spec: JsonObject, policy: JsonObject, trainer: JsonObject) -> None:
    name, jobs = train["metadata"]["name"], spec["replicatedJobs"]
    head = f"{name}-{NODE}-0-0.{name}"
    job = next((one for one in jobs if _ancestor(one) == _TRAINER), None)
    nodes = job["template"]["spec"]["parallelism"] if job is not None else 1
    resources = _resources(jobs)
    gpus = count_gpus(resources)
    if policy.get("mpi") is not None:
        _apply_mpi(name, jobs, processes_per_node(policy, trainer, resources), policy["mpi"])
    variables: dict[str, str | None] = {}
    if policy.get("torch") is not None:
        given = trainer.get("numProcPerNode")
        processes = (
            str(given) if given is not None else "auto" if gpus else str(max(1, _count_cpus(resources)))
        )
        variables = {"PET_NNODES": str(nodes), "PET_NPROC_PER_NODE": processes, "PET_NODE_RANK": None}
        variables |= {"PET_MASTER_ADDR": head, "PET_MASTER_PORT": str(_PORT)}
    elif policy.get("jax") is not None:
        variables = {"JAX_NUM_PROCESSES": str(nodes), "JAX_PROCESS_ID": None}
        variables["JAX_COORDINATOR_ADDRESS"] = f"{head}:{_PORT}"
    elif policy.get("xgboost") is not None:
        variables = {"DMLC_TRACKER_URI": head, "DMLC_TRACKER_PORT": str(_PORT), "DMLC_TASK_ID": None}
        variables["DMLC_NUM_WORKER"] = str(nodes * max(1, gpus))
    # As in the operator, a TrainJob without a trainer gets none of these environment variables.
    if job is None or not variables or "trainer" not in train["spec"]:
        return
    for container in _containers(job, NODE):
        for key, value in variables.items():
            source = {"valueFrom": {"fieldRef": {"fieldPath": _INDEX}}} if value is None else {"value": value}
            upsert(container, "env", "name", {"name": key, **source})
        upsert(container, "ports", "containerPort", {"containerPort": _PORT})


def _resources(jobs: list[JsonObject]) -> JsonObject:
    """Return the resources of a node."""
    for job in jobs:
        if job["name"] == NODE or _ancestor(job) == _TRAINER:
            for container in _containers(job, NODE):
                if container.get("resources"):
                    found: JsonObject = container["resources"]
                    return found
    return {}


def count_gpus(resources: JsonObject) -> int:
    """Return the number of GPUs that are asked for as an extended resource."""
    for key in ("requests", "limits"):
        for name, quantity in (resources.get(key) or {}).items():
            if "gpu" in name.lower():
                return Quantity.parse(str(quantity)).value()
    return 0


def _count_cpus(resources: JsonObject) -> int:
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Quantity.parse(str(wanted.get("cpu", "0"))).value()


def processes_per_node(policy: JsonObject, trainer: JsonObject, resources: JsonObject) -> int:
    """Return the number of processes that MPI starts on each node."""
    given = trainer.get("numProcPerNode")
    if given is not None:
        return int(given)
    number = integer(policy["mpi"], "numProcPerNode", 1)
    return max(1, count_gpus(resources)) if number == 1 else number


def _apply_mpi(name: str, jobs: list[JsonObject], processes: int, policy: JsonObject) -> None:
    keys = (("ssh-privatekey", "id_rsa", 0o640), ("ssh-publickey", "id_rsa.pub", 0o644))
    items = [*keys, ("ssh-publickey", "authorized_keys", 0o644)]
    secret = {
        "secretName": f"{name}-mpi-ssh-auth",
        "defaultMode": 0o400,
        "items": [{"key": key, "path": path, "mode": mode} for key, path, mode in items],
    }
    hosts = {
        "name": f"{name}-mpi-hostfile",
        "items": [{"key": "hostfile", "path": "hostfile", "mode": 0o444}],
    }
    variables = {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(processes),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    path = policy.get("sshAuthMountPath", "/root/.ssh")
    for job in jobs:
        if job["name"] not in (NODE, LAUNCHER):
            continue
        pod = job["template"]["spec"]["template"]["spec"]
        upsert(pod, "volumes", "name", {"name": "mpi-ssh-auth", "secret": secret})
        if job["name"] == LAUNCHER:
            upsert(pod, "volumes", "name", {"name": "mpi-hostfile", "configMap": hosts})
        for container in _containers(job, NODE):
            mounts = {"mpi-ssh-auth": path}
            if job["name"] == LAUNCHER:
                mounts["mpi-hostfile"] = "/etc/mpi"
                for key, value in variables.items():
                    upsert(container, "env", "name", {"name": key, "value": value})
            for volume, where in mounts.items():
                upsert(container, "volumeMounts", "mountPath", {"name": volume, "mountPath": where})


def list_hosts(train: JsonObject, runtime: JsonObject, built: JsonObject) -> str:
    """Return the hostfile of an MPI job, whose JobSet is ``built``."""
    policy, name = runtime["spec"]["mlPolicy"], train["metadata"]["name"]
    spec = built["spec"]
    subdomain = (spec.get("network") or {}).get("subdomain") or name
    resources = _resources(spec["replicatedJobs"])
    slots = processes_per_node(policy, train["spec"].get("trainer") or {}, resources)
    lines = []
    for job in spec["replicatedJobs"]:
        if job["name"] == NODE or (job["name"] == LAUNCHER and is_launcher_node(policy)):
            lines += [
                f"{name}-{job['name']}-{replica}-{pod}.{subdomain} slots={slots}\n"
                for replica in range(integer(job, "replicas", 1))
                for pod in range(job["template"]["spec"]["parallelism"])
            ]
    return "".join(lines)
