"""MPIJobs on a real API server: launcher, workers, hostfile, key, and the conditions of the operator."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from dra_controller.jobkinds.mpi.pods import INDEX, ROLE
from dra_controller.jobkinds.mpi.sshkey import create_key_pair
from dra_controller.jobkinds.operators import MPI_JOBS
from dra_shared.api.pod import Pod
from dra_shared.api.resources import CONFIG_MAPS, JOBS, PODS, SECRETS, SERVICES
from dra_shared.jsontypes import JsonObject

from tests.controller.cluster import Cluster, controllers
from tests.controller.jobkinds.kinds import NAMESPACE, Kinds, conditions, is_true, pod_template


def _describe(workers: int = 2, **spec: Any) -> JsonObject:
    replicas = {
        "Launcher": {"template": pod_template()},
        "Worker": {"replicas": workers, "template": pod_template()},
    }
    return {"slotsPerWorker": 2, "mpiReplicaSpecs": replicas, "runPolicy": {}, **spec}


def _by_role(pods: list[Pod], role: str) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.labels[ROLE] == role]


@pytest.fixture
async def kinds(cluster: Cluster) -> AsyncIterator[Kinds]:
    names = ("mpijob", "job", "garbagecollector")
    async with controllers(cluster, *names, operators=("mpi",)):
        yield Kinds(cluster)


async def test_an_mpijob_creates_a_launcher_workers_a_hostfile_and_a_key(kinds: Kinds) -> None:
    spec = _describe(runPolicy={"cleanPodPolicy": "Running"})
    await kinds.create(MPI_JOBS, "pi", spec)
    pods = await kinds.wait_for_pods(3)
    workers = _by_role(pods, "worker")
    assert [pod.metadata.name for pod in workers] == ["pi-worker-0", "pi-worker-1"]
    assert workers[1].metadata.labels[INDEX] == "1"
    assert (workers[0].spec.hostname, workers[0].spec.subdomain) == ("pi-worker-0", "pi")
    assert workers[0].spec.containers[0].command == ("/usr/sbin/sshd", "-De")
    assert workers[0].spec.restart_policy == "Never"
    (launcher,) = _by_role(pods, "launcher")
    variables = {one.name: one.value for one in launcher.spec.containers[0].env}
    assert variables["OMPI_MCA_orte_set_default_slots"] == "2"
    assert variables["NVIDIA_VISIBLE_DEVICES"] == ""
    assert launcher.spec.restart_policy == "OnFailure"
    config = await kinds.get(CONFIG_MAPS, "pi-config")
    domains = [f"pi-worker-{index}.pi.default.svc" for index in (0, 1)]
    assert config.data["hostfile"] == "".join(f"{domain} slots=2\n" for domain in domains)
    service = await kinds.get(SERVICES, "pi")
    assert (service.spec.cluster_ip, service.spec.publish_not_ready_addresses) == ("None", None)
    assert (await kinds.get(SECRETS, "pi-ssh")).type == "kubernetes.io/ssh-auth"
    running = await kinds.wait(MPI_JOBS, "pi", is_true("Running"))
    assert conditions(running) == {
        "Created": ("True", "MPIJobCreated"),
        "Running": ("True", "MPIJobRunning"),
    }
    assert running.status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}
    script = "#!/bin/sh\n" + "".join(f"echo {domain}\n" for domain in domains)
    await kinds.wait(CONFIG_MAPS, "pi-config", lambda one: one.data["discover_hosts.sh"] == script)
    await kinds.end([launcher])
    done = await kinds.wait(MPI_JOBS, "pi", is_true("Succeeded"))
    assert conditions(done)["Running"] == ("False", "MPIJobRunning")
    assert done.status["completionTime"]
    await kinds.wait(PODS, "pi-worker-0", lambda pod: pod is None)


async def test_an_mpijob_fails_if_its_launcher_fails(kinds: Kinds) -> None:
    await kinds.create(MPI_JOBS, "pi", _describe(1, runPolicy={"backoffLimit": 0}))
    (launcher,) = _by_role(await kinds.wait_for_pods(2), "launcher")
    await kinds.end([launcher], "Failed")
    done = await kinds.wait(MPI_JOBS, "pi", is_true("Failed"))
    assert conditions(done)["Failed"][1] == "BackoffLimitExceeded/"
    assert done.status["replicaStatuses"]["Launcher"] == {"failed": 1}
    # The job sets no cleanPodPolicy, so its workers are kept.
    assert await kinds.get(PODS, "pi-worker-0") is not None


async def test_a_suspended_mpijob_has_no_workers(kinds: Kinds) -> None:
    await kinds.create(MPI_JOBS, "pi", _describe(1, runPolicy={"suspend": True}))
    waiting = await kinds.wait(MPI_JOBS, "pi", is_true("Suspended"))
    assert conditions(waiting)["Suspended"] == ("True", "MPIJobSuspended")
    assert await kinds.pods() == []
    assert (await kinds.get(JOBS, "pi-launcher")).spec.suspend
    await kinds.client.patch(MPI_JOBS, "pi", {"spec": {"runPolicy": {"suspend": False}}}, NAMESPACE)
    await kinds.wait_for_pods(2)
    await kinds.wait(MPI_JOBS, "pi", is_true("Running"))


async def test_a_launcher_that_is_also_a_worker_starts_after_the_other_workers_are_ready(
    kinds: Kinds,
) -> None:
    spec = _describe(1, launcherCreationPolicy="WaitForWorkersReady", runLauncherAsWorker=True)
    await kinds.create(MPI_JOBS, "pi", spec)
    (worker,) = await kinds.wait_for_pods(1, run=False)
    assert worker.metadata.labels[INDEX] == "1"
    assert await kinds.get(JOBS, "pi-launcher") is None
    (launcher,) = _by_role(await kinds.wait_for_pods(2), "launcher")
    assert launcher.metadata.labels[INDEX] == "0"
    hosts = (await kinds.get(CONFIG_MAPS, "pi-config")).data["hostfile"].splitlines()
    assert hosts == ["pi-launcher.pi.default.svc slots=2", "pi-worker-0.pi.default.svc slots=2"]


def test_the_generated_key_has_the_format_of_openssh() -> None:
    private, public = create_key_pair()
    key = load_pem_private_key(private, None).public_key()
    assert key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) == public.strip()
    assert base64.b64decode(public.split()[1]).startswith(b"\0\0\0\x13ecdsa-sha2-nistp521")
