"""Clusters whose parent process or directory is gone."""

import os
import shutil
from pathlib import Path

import pytest
from dra_kube.cluster import Cluster
from dra_lab import lifetime, run, status
from dra_lab.lifetime import PARENT, reason_to_stop, take_parent
from dra_shared.errors import UserError


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetime, "_EVERY", 0)


def test_the_environment_variable_with_the_parent_pid_is_not_inherited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PARENT, "12")
    assert take_parent() == 12
    assert PARENT not in os.environ
    assert take_parent() == 0


async def test_a_cluster_ends_when_its_parent_process_ends(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with cluster.locked():
        # No parent has the pid of this process.
        reason = await reason_to_stop(cluster, os.getpid())
    assert reason == f"process {os.getpid()}, which started it, has ended"


@pytest.mark.parametrize("again", [False, True])
async def test_a_cluster_ends_when_its_directory_is_removed(again: bool, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "data")
    with cluster.locked():
        assert not cluster.is_lost()
        shutil.rmtree(cluster.data)
        if again:
            # Another cluster starts in the directory of this one.
            with Cluster(cluster.data).locked():
                assert cluster.is_lost()
        assert await reason_to_stop(cluster, os.getppid()) == f"{cluster.data} was removed"


async def test_status_and_down_find_a_cluster_without_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path / "data")
    sent: list[int] = []
    with cluster.locked():
        assert cluster.holder() == os.getpid()
        with pytest.raises(UserError, match=rf"\(pid {os.getpid()}\) is not ready"):
            await status.show(cluster.data)
        shutil.rmtree(cluster.data)
        assert cluster.holder() == os.getpid()
        with pytest.raises(UserError, match=rf"\(pid {os.getpid()}\) has lost its directory and stops"):
            await status.show(cluster.data)
        monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(pid))
        monkeypatch.setattr(run, "_STOP_TIMEOUT", 0)
        with pytest.raises(UserError, match=f"process {os.getpid()} does not stop"):
            run.down(cluster.data)
    assert sent == [os.getpid()]
    assert cluster.holder() == 0
    with pytest.raises(UserError, match="no cluster is running"):
        run.down(cluster.data)
