"""``dralab up`` and related commands, with real processes."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from dra_kube.cluster import Cluster
from dra_shared.api.core import ConfigMap
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import CONFIG_MAPS, NODES, RESOURCE_SLICES
from dra_shared.client.rest import Client

from tests.support.waiting import blocking_until, is_running, until

pytestmark = pytest.mark.slow


def dralab(data: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [sys.executable, "-m", "dra_cli.main", *arguments, "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if check:
        assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Path]:
    dralab(tmp_path, "up", "--detach", "--port", "0", "--nodes", "1")
    yield tmp_path
    if Cluster(tmp_path).is_running():
        dralab(tmp_path, "down")


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a cluster for tests that do not change it."""
    data = tmp_path_factory.mktemp("shared")
    dralab(data, "up", "--detach", "--port", "0", "--nodes", "1")
    yield data
    dralab(data, "down")


@asynccontextmanager
async def _client(data: Path) -> AsyncIterator[Client]:
    async with Client(Cluster(data).record().server) as client:
        yield client


def test_detached_up_is_ready_when_it_returns(shared_cluster: Path) -> None:
    status = dralab(shared_cluster, "status")
    assert status.stdout.count(" ready ") == 4
    assert "Ready" in dralab(shared_cluster, "get", "nodes").stdout
    assert dralab(shared_cluster, "get", "resourceslices", "-o", "name").stdout.count("resourceslice") >= 1


def test_other_users_of_the_machine_cannot_read_the_data(shared_cluster: Path) -> None:
    def readable(folder: Path) -> Iterator[Path]:
        for path in folder.iterdir():
            mode = path.lstat().st_mode
            if path.is_dir() and mode & stat.S_IXOTH:
                yield from readable(path)
            elif not path.is_dir() and mode & (stat.S_IROTH | stat.S_IWOTH):
                yield path

    (database,) = shared_cluster.rglob("dralab.sqlite3")
    assert {stat.S_IMODE(path.stat().st_mode) for path in database.parent.glob("dralab.sqlite3*")} == {0o600}
    # Files that drivers mount into containers are the same everywhere.
    assert [
        path for path in readable(shared_cluster) if shared_cluster / "driver-root" not in path.parents
    ] == []


def test_kubeconfig_prints_a_file_with_the_server(shared_cluster: Path) -> None:
    path = Path(dralab(shared_cluster, "kubeconfig").stdout.strip())
    server = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]
    assert server == Cluster(shared_cluster).record().server


def test_a_second_up_in_the_same_directory_is_rejected(shared_cluster: Path) -> None:
    result = dralab(shared_cluster, "up", "--port", "0", check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("dralab: a cluster is already running in")
    assert result.stderr.count("\n") == 1


def test_a_port_in_use_is_named(shared_cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    port = Cluster(shared_cluster).record().server.rsplit(":", 1)[1]
    result = dralab(tmp_path_factory.mktemp("other"), "up", "--port", port, check=False)
    assert result.returncode == 1
    assert f"port {port} is in use" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_cluster_ends_when_its_directory_is_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    dralab(data, "up", "--detach", "--port", "0", "--nodes", "1")
    record = Cluster(data).record()
    shutil.rmtree(data)
    pids = [record.pid, *(service.pid for service in record.services.values())]
    blocking_until(lambda: not any(map(is_running, pids)))
    assert not data.exists()


async def test_state_survives_down_and_up(up: Path) -> None:
    async with _client(up) as client:
        made = await client.create(
            CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="keep", namespace="default"), data={"a": "b"})
        )
    dralab(up, "down")
    assert not Cluster(up).is_running()
    dralab(up, "up", "--detach", "--port", "0", "--nodes", "1")
    async with _client(up) as client:
        kept = await client.get(CONFIG_MAPS, "keep", "default")
    assert (kept.metadata.uid, kept.metadata.resource_version, kept.data) == (
        made.metadata.uid,
        made.metadata.resource_version,
        {"a": "b"},
    )


async def test_a_killed_service_is_restarted_without_data_loss(up: Path) -> None:
    async with _client(up) as client:
        await client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="keep", namespace="default")))
        slices = {item.metadata.uid for item in (await client.list(RESOURCE_SLICES)).items}
        assert slices
        for name in ("apiserver", "scheduler", "controller"):
            before = Cluster(up).record().services[name]
            os.kill(before.pid, signal.SIGKILL)

            async def is_restarted(name: str = name, pid: int = before.pid) -> bool:
                if Cluster(up).record().services[name].pid == pid:
                    return False
                return dralab(up, "status", check=False).returncode == 0

            await until(is_restarted)
        assert (await client.get(CONFIG_MAPS, "keep", "default")).metadata.name == "keep"
        assert [node.metadata.name for node in (await client.list(NODES)).items] == ["node-0"]
        assert {item.metadata.uid for item in (await client.list(RESOURCE_SLICES)).items} == slices
    assert "was killed by SIGKILL; restarting it" in (up / "logs" / "up.log").read_text()


def test_an_unknown_gpu_model_lists_the_known_ones(tmp_path: Path) -> None:
    result = dralab(tmp_path, "up", "--port", "0", "--gpus", "8xG9000", check=False)
    assert result.returncode == 2
    assert "G9000" in result.stderr
    assert "A100-SXM4-40GB" in result.stderr


def test_commands_without_a_cluster_tell_how_to_start_one(tmp_path: Path) -> None:
    for command in (("status",), ("down",), ("get", "pods")):
        result = dralab(tmp_path, *command, check=False)
        assert result.returncode == 1
        assert "no cluster is running in" in result.stderr
        assert "dralab up" in result.stderr


def test_a_manifest_is_created_updated_and_deleted_by_commands(shared_cluster: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "map.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: '1'}\n")
    assert "configmap/settings created" in dralab(shared_cluster, "apply", "-f", str(manifest)).stdout
    assert "configmap/settings unchanged" in dralab(shared_cluster, "apply", "-f", str(manifest)).stdout
    manifest.write_text(manifest.read_text().replace("'1'", "'2'"))
    assert "configmap/settings configured" in dralab(shared_cluster, "apply", "-f", str(manifest)).stdout
    assert yaml.safe_load(dralab(shared_cluster, "get", "cm", "settings", "-o", "yaml").stdout)["data"] == {
        "level": "2"
    }
    assert "configmap/settings deleted" in dralab(shared_cluster, "delete", "-f", str(manifest)).stdout
    gone = dralab(shared_cluster, "get", "configmap/settings", check=False)
    assert gone.returncode == 1
    assert 'configmaps "settings" not found' in gone.stderr
    unknown = dralab(shared_cluster, "get", "gadgets", check=False)
    assert 'the server doesn\'t have a resource type "gadgets"' in unknown.stderr
