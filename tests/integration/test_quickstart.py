"""The README's first command: real processes, real sockets, real files."""

import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.reference import REPOSITORY, manifest_dir

PHASES = (
    "1. Devices",
    "2. Class",
    "3. Claims",
    "4. Scheduler",
    "5. Kubelet and driver",
    "6. Containers",
    "Cleaning up",
)


_DEMO = (sys.executable, "-m", "dra_cli.main", "demo")


def _demo(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_DEMO, "--data", str(data), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.fixture
def user() -> Iterator[tuple[Path, dict[str, str]]]:
    """Return a folder that is a user's home, working folder and /tmp, and the environment for it."""
    # Below /tmp, because a unix socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="d", dir="/tmp") as folder:
        keys = {name: value for name, value in os.environ.items() if name != "DRALAB_DATA"}
        yield Path(folder), {**keys, "HOME": folder, "TMPDIR": folder}


def _left_behind(folder: Path) -> list[str]:
    sockets = [line for line in Path("/proc/net/unix").read_text().splitlines() if str(folder) in line]
    return [*(str(path) for path in folder.rglob("*")), *_survivors(folder), *sockets]


def _survivors(data: Path) -> list[str]:
    """Return the command lines of processes that were started for the cluster in ``data``."""
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


def _is_whole(story: str) -> bool:
    positions = [story.find(f"\n{phase}") for phase in PHASES]
    shown = ("(UUID: GPU-", "(UUID: MIG-", "cdi/k8s.gpu.nvidia.com-claim_")
    return -1 not in positions and positions == sorted(positions) and all(text in story for text in shown)


@pytest.mark.slow
def test_the_demo_shows_all_its_phases(tmp_path: Path) -> None:
    result = _demo(tmp_path, "-f", str(manifest_dir("nvidia")))
    assert result.returncode == 0, result.stdout + result.stderr
    assert _is_whole(result.stdout)
    assert not _survivors(tmp_path)


@pytest.mark.slow
def test_the_demo_leaves_no_processes_and_files(user: tuple[Path, dict[str, str]]) -> None:
    folder, environment = user
    result = subprocess.run(
        _DEMO, cwd=folder, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert _is_whole(result.stdout)
    assert not _left_behind(folder)


@pytest.mark.slow
def test_a_demo_in_steps_waits_for_a_key_and_ends_with_a_signal(
    user: tuple[Path, dict[str, str]],
) -> None:
    folder, environment = user
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*_DEMO, "--step"],
        cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdin=theirs,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    assert process.stdout is not None
    shown: list[str] = []
    for number in (1, 2):
        for line in process.stdout:
            shown.append(line)
            if line.startswith("   [Enter] continues; look around with `dralab get pods -A --data "):
                break
        assert [line[:2] for line in shown if line[:2] in ("1.", "2.", "3.")] == ["1.", "2."][:number]
        if number == 1:
            os.write(ours, b"\n")
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert "3." not in rest
    assert not _left_behind(folder)
    process.stdout.close()
    os.close(ours)


@pytest.mark.slow
def test_a_demo_whose_port_is_in_use_leaves_no_processes_and_files(user: tuple[Path, dict[str, str]]) -> None:
    folder, environment = user
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = subprocess.run(
            [*_DEMO, "--port", str(taken.getsockname()[1])],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert result.returncode == 1
    assert result.stderr.startswith("dralab: port ")
    assert not _left_behind(folder)


@pytest.mark.slow
def test_a_demo_that_cannot_finish_names_the_phase_and_the_reason(
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
    # The limit includes the phases before.
    monkeypatch.setenv("DRALAB_DEMO_PHASE_TIMEOUT", "20")
    result = _demo(tmp_path / "data", "-f", str(manifest))
    assert result.returncode == 1
    assert "phase 4 stopped" in result.stderr
    assert "pod default/hopeless" in result.stderr
    assert "cannot allocate all claims" in result.stderr
    assert not _survivors(tmp_path / "data")
