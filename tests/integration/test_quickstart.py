"""The whole way, as the README's first command walks it: real processes, real sockets, real files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference import REPOSITORY, manifest_dir

PHASES = (
    "1. Devices",
    "2. Class",
    "3. Claims",
    "4. Scheduler",
    "5. Kubelet and driver",
    "6. Containers",
    "Cleaning up",
)


def _demo(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dra_cli.main", "demo", "--data", str(data), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def _survivors(data: Path) -> list[str]:
    """Command lines of processes that were started for the cluster in ``data``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(data) in command and "pytest" not in command:
                found.append(command)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("manifests", ["quickstart", "nvidia"])
def test_the_demo_tells_the_whole_story(tmp_path: Path, manifests: str) -> None:
    arguments = ["-f", str(manifest_dir("nvidia"))] if manifests == "nvidia" else []
    result = _demo(tmp_path, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    positions = [result.stdout.find(f"\n{phase}") for phase in PHASES]
    assert -1 not in positions
    assert positions == sorted(positions)
    assert "(UUID: GPU-" in result.stdout
    assert "(UUID: MIG-" in result.stdout
    assert "cdi/k8s.gpu.nvidia.com-claim_" in result.stdout
    assert not _survivors(tmp_path)


@pytest.mark.slow
def test_a_demo_that_cannot_finish_says_which_phase_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "impossible.yaml"
    manifest.write_text(
        """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: huge}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        selectors:
        - cel: {expression: "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('1Ti'))"}
---
apiVersion: v1
kind: Pod
metadata: {name: hopeless}
spec:
  containers:
  - {name: main, image: ubuntu, resources: {claims: [{name: gpu}]}}
  resourceClaims:
  - {name: gpu, resourceClaimName: huge}
"""
    )
    monkeypatch.setenv("DRALAB_DEMO_PHASE_TIMEOUT", "5")
    result = _demo(tmp_path / "data", "-f", str(manifest))
    assert result.returncode == 1
    assert "phase 4 stopped" in result.stderr
    assert "pod default/hopeless" in result.stderr
    assert "cannot allocate all claims" in result.stderr
    assert not _survivors(tmp_path / "data")
