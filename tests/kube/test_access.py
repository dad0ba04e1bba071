"""The cluster that options select."""

from pathlib import Path

import pytest
from dra_cli.access import chosen_cluster, cluster_options
from dra_cli.commandline import Parser
from dra_kube.access import ChosenCluster
from dra_kube.cluster import Cluster, Record, kubeconfig
from dra_shared.errors import UserError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DRALAB_DATA", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


def _choose(*words: str) -> ChosenCluster:
    parser = Parser("get", "")
    cluster_options(parser)
    return chosen_cluster(parser.read(words))


def test_commands_use_the_cluster_in_the_data_directory_by_default() -> None:
    assert _choose() == ChosenCluster(data=Path(".dralab"))


def test_the_kubeconfig_is_used_if_no_cluster_runs_in_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert _choose() == ChosenCluster(kubeconfig=tmp_path / "config")
    cluster = Cluster(tmp_path / ".dralab")
    with cluster.locked():
        cluster.write(Record(pid=1, server="http://127.0.0.1:1"))
        assert _choose() == ChosenCluster(data=Path(".dralab"))


def test_the_server_option_needs_no_kubeconfig() -> None:
    assert _choose("--server", "http://localhost:8080/").access().server == "http://localhost:8080"


def test_a_context_is_looked_up_in_the_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(
        kubeconfig("http://127.0.0.1:1", {"one": {"token": "token-1"}, "two": {"token": "token-2"}})
    )
    assert _choose("--kubeconfig", str(file)).access().token == "token-1"
    access = _choose("--kubeconfig", str(file), "--context", "dralab-1", "--server", "http://x/").access()
    assert (access.token, access.server) == ("token-2", "http://x")
    with pytest.raises(UserError, match='context "none" does not exist'):
        _choose("--kubeconfig", str(file), "--context", "none").access()


@pytest.mark.parametrize("other", ["--kubeconfig", "--context", "--server"])
def test_the_data_directory_cannot_be_combined_with_options_for_another_cluster(other: str) -> None:
    with pytest.raises(UserError, match="name two clusters"):
        _choose("--data", "x", other, "y")
