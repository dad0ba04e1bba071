"""The pytest plugin, in a separate run of pytest."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.system]


def _pytest(folder: Path, text: str, *arguments: str) -> str:
    (folder / "test_it.py").write_text(text)
    # A plugin of the outer run must not affect the inner run.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--rootdir",
            ".",
            *arguments,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return result.stdout + result.stderr


def test_a_failed_test_shows_events_and_explanations_of_its_cluster(tmp_path: Path) -> None:
    shown = _pytest(
        tmp_path,
        """
import os

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"},
       "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9999"}}}]}}

def test_sync(dra_cluster):
    print("process:", os.getpid(), "of the test")
    dra_cluster.apply(POD)
    dra_cluster.pod("big").wait_for(lambda pod: pod["status"].get("conditions"))
    assert dra_cluster.until(dra_cluster.events) == "what I expected"

async def test_async(dra_cluster):
    await dra_cluster.apply(POD)
    await dra_cluster.pod("big").wait_for("PodScheduled", timeout=1)
""",
        "-o",
        "asyncio_mode=auto",
    )
    assert "2 failed" in shown
    for title in ("dralab events", "dralab explain", "dralab bundle"):
        assert shown.count(f"- {title} -") == 2
    assert "FailedScheduling" in shown
    assert "Insufficient cpu" in shown
    bundle = Path(shown.partition("dralab bundle")[2].partition("\n")[2].partition("\n")[0].strip())
    assert bundle.name == "dralab-bundle.tar.gz"
    with tarfile.open(bundle) as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert {"events.txt", "explain.txt", "services.log", "pods.core.yaml"} <= names
    # The log of warnings is deleted with the process.
    process = shown.partition("process: ")[2].split()[0]
    assert not list(Path("/tmp").glob(f"dralab-{process}-*"))


def test_an_invalid_marker_is_reported(tmp_path: Path) -> None:
    messages = {
        "scope='class'": "dra_cluster: unknown scope 'class': choose function, module, session",
        "node=3": "dra_cluster: unknown node: "
        "choose nodes, gpus, drivers, version, gates, processes, fake_clock, operators, scope",
        "gates={'Nope': True}": "dra_cluster: unrecognized feature gate: Nope",
        "processes=True, fake_clock=True": "processes have clocks of their own",
    }
    tests = [
        f"@pytest.mark.dra_cluster({marker})\ndef test_{number}(dra_cluster): pass\n"
        for number, marker in enumerate(messages)
    ]

    shown = _pytest(tmp_path, "import pytest\n" + "".join(tests))

    assert "4 errors" in shown
    for number, message in enumerate(messages.values()):
        section = shown.partition(f"ERROR at setup of test_{number} ")[2].partition("ERROR at setup of")[0]
        assert message in section


def test_shared_cluster_starts_once_and_ends_with_the_session(tmp_path: Path) -> None:
    shown = _pytest(
        tmp_path,
        """
import pytest
urls = set()

@pytest.mark.parametrize("number", range(3))
def test_it(dra_cluster, number):
    urls.add(dra_cluster.url)
    dra_cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}})
    names = {one["metadata"]["name"] for one in dra_cluster.list("namespaces")}
    assert names & {"n0", "n1", "n2"} == {f"n{number}"}

def test_one():
    assert len(urls) == 1
""",
        "--dra-scope=session",
        "-n0",
    )
    assert "4 passed" in shown


def test_pytest_imports_no_service_if_no_test_uses_a_cluster() -> None:
    program = (
        "import sys, dra_testing.plugin\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules if name.startswith('dra_')}))\n"
        "from dralab.testing import Cluster, AsyncCluster, AsyncPod, Options, Pod, WaitTimeout\n"
        "print('dra_apiserver' in sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "['dra_testing']\nTrue\n"
