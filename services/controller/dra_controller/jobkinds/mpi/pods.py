"""The objects of an MPIJob: workers, launcher, Service, hostfile and key.

Mirrors newWorker, newLauncherPodTemplate and newConfigMap in pkg/controller/mpi_job_controller.go.
"""

import base64
import copy
from collections.abc import Sequence

from dra_shared.jobkinds.podsets import integer
from dra_shared.jsontypes import JsonObject

from dra_controller.jobkinds.mpi.sshkey import create_key_pair
from dra_controller.jobkinds.operators import Custom

_PREFIX = "training.kubeflow.org/"
JOB_NAME = f"{_PREFIX}job-name"
ROLE = f"{_PREFIX}job-role"
INDEX = f"{_PREFIX}replica-index"
OPERATOR = f"{_PREFIX}operator-name"
_ROOT_SSH = "/root/.ssh"
_RSH = "-o ConnectionAttempts=10"
# By implementation, the environment of the launcher, and the variable with the number of slots.
_ENVIRONMENT: dict[str, tuple[dict[str, str], str]] = {
    "OpenMPI": (
        {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            "OMPI_MCA_plm_rsh_args": _RSH,
        },
        "OMPI_MCA_orte_set_default_slots",
    ),
    "Intel": (
        {
            "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _RSH,
        },
        "I_MPI_PERHOST",
    ),
    "MPICH": (
        {"HYDRA_HOST_FILE": "/etc/mpi/hostfile", "HYDRA_LAUNCH_EXTRA_ARGS": _RSH},
        "",
    ),
}


def replica_spec(job: Custom, role: str) -> JsonObject | None:
    """Return the spec of the launcher or the workers."""
    found: JsonObject | None = (job.spec.get("mpiReplicaSpecs") or {}).get(role)
    return found


def count_workers(job: Custom) -> int:
    """Return the number of workers."""
    return integer(replica_spec(job, "Worker") or {}, "replicas", 0)


def is_suspended(job: Custom) -> bool:
    """Return True if the job is suspended."""
    return bool((job.spec.get("runPolicy") or {}).get("suspend"))


def implementation_of(job: Custom) -> str:
    """Return the MPI implementation."""
    name: str = job.spec.get("mpiImplementation", "OpenMPI")
    return name


def _labels(job: Custom, role: str) -> dict[str, str]:
    return {OPERATOR: "mpi-operator", JOB_NAME: job.metadata.name, ROLE: role}


def _works_too(job: Custom) -> bool:
    return bool(job.spec.get("runLauncherAsWorker"))


def name_worker(job: Custom, index: int) -> str:
    """Return the name of a worker."""
    return f"{job.metadata.name}-worker-{index}"


def name_launcher(job: Custom) -> str:
    """Return the name of the launcher's Job."""
    return f"{job.metadata.name}-launcher"


def _domain(job: Custom, pod: str) -> str:
    return f"{pod}.{job.metadata.name}.{job.metadata.namespace}.svc"


def build_service(job: Custom) -> JsonObject:
    """Return the headless Service of launcher and workers."""
    name = job.metadata.name
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "clusterIP": "None",
            "selector": {OPERATOR: "mpi-operator", JOB_NAME: name},
            "publishNotReadyAddresses": _works_too(job),
        },
    }


def build_config(job: Custom, running: Sequence[str]) -> JsonObject:
    """Return the ConfigMap with the hostfile. ``running`` are the names of the workers that run."""
    slots = integer(job.spec, "slotsPerWorker", 1)
    form = "{} slots={}\n" if implementation_of(job) == "OpenMPI" else "{}:{}\n"
    first = [name_launcher(job)] if _works_too(job) else []
    hosts = [*first, *(name_worker(job, index) for index in range(count_workers(job)))]
    script = "".join(f"echo {_domain(job, name)}\n" for name in (*first, *sorted(running)))
    return {
        "metadata": {"name": f"{job.metadata.name}-config", "labels": {"app": job.metadata.name}},
        "data": {
            "hostfile": "".join(form.format(_domain(job, name), slots) for name in hosts),
            "discover_hosts.sh": f"#!/bin/sh\n{script}",
        },
    }


def build_secret(job: Custom) -> JsonObject:
    """Return the Secret with a new key pair."""
    private, public = create_key_pair()
    return {
        "metadata": {"name": f"{job.metadata.name}-ssh", "labels": {"app": job.metadata.name}},
        "type": "kubernetes.io/ssh-auth",
        "data": {
            "ssh-privatekey": base64.b64encode(private).decode(),
            "ssh-publickey": base64.b64encode(public).decode(),
        },
    }


def build_worker(job: Custom, index: int) -> JsonObject:
    """Return a worker."""
    spec = replica_spec(job, "Worker")
    assert spec is not None
    name = name_worker(job, index)
    pod = _begin(job, spec, "worker", name, "Never")
    # If the launcher also works, it has the index 0, and the workers follow.
    pod["metadata"]["labels"][INDEX] = str(index + _works_too(job))
    search = f"{job.metadata.name}.{job.metadata.namespace}.svc.cluster.local"
    pod["spec"].setdefault("dnsConfig", {}).setdefault("searches", []).append(search)
    container = pod["spec"]["containers"][0]
    if not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    container.setdefault("env", []).append({"name": "K_MPI_JOB_ROLE", "value": "worker"})
    _mount_key(job, pod["spec"])
    meta = pod["metadata"]
    kept = {"name": name, "labels": meta["labels"], "annotations": meta.get("annotations") or {}}
    return {"metadata": kept, "spec": pod["spec"]}


def build_launcher_template(job: Custom) -> JsonObject:
    """Return the pod template of the launcher."""
    spec = replica_spec(job, "Launcher")
    assert spec is not None
    pod = _begin(job, spec, "launcher", name_launcher(job), "OnFailure")
    if _works_too(job):
        pod["metadata"]["labels"][INDEX] = "0"
    container = pod["spec"]["containers"][0]
    variables, slots = _ENVIRONMENT[implementation_of(job)]
    added = {"K_MPI_JOB_ROLE": "launcher", **variables}
    if slots:
        added[slots] = str(integer(job.spec, "slotsPerWorker", 1))
    if not _works_too(job):
        # A launcher that does not work itself must not see the node's GPUs.
        added |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    environment = container.setdefault("env", [])
    environment.extend({"name": key, "value": value} for key, value in added.items())
    _mount_key(job, pod["spec"])
    items = [
        {"key": "hostfile", "path": "hostfile", "mode": 0o444},
        {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
    ]
    source = {"name": f"{job.metadata.name}-config", "items": items}
    pod["spec"]["volumes"].append({"name": "mpi-job-config", "configMap": source})
    container["volumeMounts"].append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
    return pod


def build_launcher(job: Custom) -> JsonObject:
    """Return the Job of the launcher."""
    policy = job.spec.get("runPolicy") or {}
    limits = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    spec = {name: policy[name] for name in limits if policy.get(name) is not None}
    spec |= {"template": build_launcher_template(job), "podReplacementPolicy": "Failed"}
    if is_suspended(job):
        spec["suspend"] = True
    return {
        "metadata": {"name": name_launcher(job), "labels": {"app": job.metadata.name}},
        "spec": spec,
    }


def _begin(job: Custom, spec: JsonObject, role: str, name: str, restart: str) -> JsonObject:
    pod: JsonObject = copy.deepcopy(spec["template"])
    meta = pod.get("metadata") or {}
    pod["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **_labels(job, role)}}
    pod["spec"] |= {"hostname": name, "subdomain": job.metadata.name}
    if pod["spec"].get("hostNetwork"):
        pod["spec"]["dnsPolicy"] = "ClusterFirstWithHostNet"
    policy = spec.get("restartPolicy") or restart
    pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    return pod


def _mount_key(job: Custom, spec: JsonObject) -> None:
    path = job.spec.get("sshAuthMountPath") or _ROOT_SSH
    secret = {
        "secretName": f"{job.metadata.name}-ssh",
        "items": [
            {"key": "ssh-privatekey", "path": "id_rsa"},
            {"key": "ssh-publickey", "path": "id_rsa.pub"},
            {"key": "ssh-publickey", "path": "authorized_keys"},
        ],
        **({"defaultMode": 0o600} if path == _ROOT_SSH else {}),
    }
    spec.setdefault("volumes", []).append({"name": "ssh-auth", "secret": secret})
    mounts = spec["containers"][0].setdefault("volumeMounts", [])
    mounts.append({"name": "ssh-auth", "mountPath": path})
