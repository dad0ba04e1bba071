"""Run JobSet's own program with a cluster, installed by kustomize and by Helm; see docs/operators.md."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lab import Setup, dralab
from tests.support.waiting import blocking_until

_SOURCES = os.environ.get("DRALAB_JOBSET", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (_SOURCES and shutil.which("go")), reason="needs Go and JobSet's sources: DRALAB_JOBSET"
    ),
]
_SETUP = Setup("operators", ("gpu.nvidia.com",), nodes=2)
_CONFIGURATION = """\
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
internalCertManagement: {{enable: false}}
webhook: {{port: {port}, certDir: {folder}/certificates}}
metrics: {{bindAddress: "0"}}
health: {{healthProbeBindAddress: "0"}}
leaderElection: {{leaderElect: true, resourceNamespace: jobset-system}}
"""
_JOB_SET = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec:
  spec:
    devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: worker
    replicas: 2
    template:
      spec:
        template:
          spec:
            restartPolicy: Never
            resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
            containers:
            - name: train
              image: busybox
              command: [sleep, "1"]
              resources: {claims: [{name: gpu}]}
"""


@pytest.fixture(scope="module")
def manager() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        program = Path(folder, "jobset")
        subprocess.run(["go", "build", "-mod=mod", "-o", program, "."], cwd=_SOURCES, check=True)
        yield program


@pytest.fixture
def data() -> Iterator[Path]:
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        _SETUP.start(Path(folder))
        yield Path(folder)
        _SETUP.stop(Path(folder))


def _install_kustomization(data: Path) -> None:
    dralab(data, "apply", "-k", f"{_SOURCES}/config/default")


def _install_chart(data: Path) -> None:
    namespace = ("--namespace", "jobset-system", "--create-namespace")
    command = ["helm", "install", "jobset", f"{_SOURCES}/charts/jobset", *namespace]
    subprocess.run(command, env={**os.environ, "KUBECONFIG": str(data / "kubeconfig")}, check=True)


_INSTALLERS = {"kubectl": _install_kustomization, "helm": _install_chart}


@pytest.mark.parametrize("installer", _INSTALLERS)
def test_jobset_runs_as_a_process(data: Path, manager: Path, installer: str) -> None:
    if shutil.which(installer) is None:
        pytest.skip(f"needs {installer}")
    _INSTALLERS[installer](data)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service = ("jobset-webhook-service", "--namespace", "jobset-system")
    certificates = str(data / "certificates")
    url = f"https://127.0.0.1:{port}"
    dralab(data, "webhook", *service, "--url", url, "--certificates", certificates)
    (data / "jobset.yaml").write_text(_CONFIGURATION.format(port=port, folder=data))
    (data / "train.yaml").write_text(_JOB_SET)
    environment = {**os.environ, "KUBECONFIG": str(data / "kubeconfig")}
    command = [str(manager), "--config", str(data / "jobset.yaml")]
    with (
        (data / "jobset.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            _apply_when_ready(data)
            dralab(data, "wait", "--for", "condition=Completed", "jobset/train", "--timeout", "90s")
        finally:
            process.terminate()
    dralab(data, "wait", "--for", "condition=Complete", "job/train-worker-0", "job/train-worker-1")


def _apply_when_ready(data: Path) -> None:
    """Apply the JobSet once the webhook listens."""

    def apply() -> bool:
        try:
            dralab(data, "apply", "-f", str(data / "train.yaml"))
        except AssertionError as error:
            if "failed calling webhook" not in str(error):
                raise
            return False
        return True

    blocking_until(apply)
