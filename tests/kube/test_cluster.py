import fcntl
import os
from pathlib import Path

import pytest
import yaml
from dra_kube.cluster import Cluster, Record
from dra_shared.errors import UserError


def test_a_directory_has_one_cluster_at_a_time(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with cluster.locked():
        cluster.write(Record(pid=os.getpid(), server="http://127.0.0.1:1"))
        with (
            pytest.raises(UserError, match=rf"already running in {tmp_path} \(pid {os.getpid()}\)"),
            Cluster(tmp_path).locked(),
        ):
            pass
        assert Cluster(tmp_path).record().server == "http://127.0.0.1:1"
    with cluster.locked():
        pass


def test_a_record_left_by_a_crash_is_ignored(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with cluster.locked():
        cluster.write(Record(pid=1, server="http://127.0.0.1:1"))
    with pytest.raises(UserError, match="no cluster is running"):
        cluster.record()


def test_the_record_of_a_killed_cluster_is_ignored_by_the_next_one(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with cluster.locked():
        cluster.write(Record(pid=1, server="http://127.0.0.1:1", ready=True))
    with cluster.locked(), pytest.raises(UserError, match="no cluster is running"):
        cluster.record()


def test_suggested_commands_quote_paths_with_spaces(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"dralab up --data '{tmp_path}/a b'`"):
        Cluster(tmp_path / "a b").record()


def test_kubeconfig_points_at_the_server(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.write_kubeconfig("http://127.0.0.1:8080")
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "http://127.0.0.1:8080"
    assert config["contexts"][0]["name"] == config["current-context"]


def test_an_unusable_directory_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match="cannot use"), Cluster(file).locked():
        pass


def test_a_command_that_reads_does_not_prevent_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path)
    with cluster.locked():
        pass
    looking = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr("dra_kube.cluster.time.sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
    assert not cluster.is_running()
    with cluster.locked():
        assert cluster.is_running()
    os.close(looking)
