"""Options and environment of a driver's process."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from dra_driverkit import program
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.program import Surroundings, run
from dra_shared.client.kubeconfig import Access, KubeconfigError, in_cluster
from dra_shared.clock import FakeClock
from dra_shared.listening import CANNOT_RUN

from tests.support.sameprocess import same_process

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
"""


@pytest.fixture(autouse=True)
def _same_process() -> Iterator[None]:
    with same_process():
        yield


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(_KUBECONFIG)
    return str(path)


def test_a_driver_starts_with_environment_variables_instead_of_options(kubeconfig: str) -> None:
    found = []

    async def main(surroundings: Surroundings) -> None:
        found.append(surroundings)

    environment = {"NODE_NAME": "node-7", "KUBECONFIG": kubeconfig, "POD_UID": "u-1", "CDI_ROOT": "/etc/cdi"}
    assert run("dongle.example.com", main, [], environment) == 0
    (surroundings,) = found
    assert (surroundings.node_name, surroundings.instance) == ("node-7", "u-1")
    assert str(surroundings.directories.plugin) == "/var/lib/kubelet/plugins/dongle.example.com"
    assert str(surroundings.directories.registrar) == "/var/lib/kubelet/plugins_registry"
    assert str(surroundings.directories.cdi) == "/etc/cdi"


def test_command_line_options_override_environment_variables(kubeconfig: str) -> None:
    found = []

    async def main(surroundings: Surroundings) -> None:
        found.append(surroundings)

    arguments = ["--node-name", "a", "--kubelet-plugins-directory-path", "/p", "--kubeconfig", kubeconfig]
    assert run("dongle.example.com", main, arguments, {"NODE_NAME": "b"}) == 0
    assert (found[0].node_name, str(found[0].directories.plugin)) == ("a", "/p/dongle.example.com")


def test_a_driver_that_cannot_run_exits_with_its_reason(
    kubeconfig: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main(_: Surroundings) -> None:
        raise DriverConfigError("no dongles here")

    assert run("d.example.com", main, ["--node-name", "a", "--kubeconfig", kubeconfig], {}) == CANNOT_RUN
    assert "no dongles here" in "".join(capfd.readouterr())


def test_a_kubeconfig_is_required_outside_a_pod(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(_: Surroundings) -> None:
        raise AssertionError

    monkeypatch.delitem(os.environ, "KUBERNETES_SERVICE_HOST", raising=False)
    assert run("d.example.com", main, ["--node-name", "a"], {}) == 1
    assert "does not run in a pod" in "".join(capfd.readouterr())


def test_a_missing_service_account_in_a_pod_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot use the service account"):
        in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"})


async def test_the_service_account_token_file_is_read_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    clock = FakeClock()
    access = Access("http://api", "first", token_file=file)
    monkeypatch.setattr(program, "in_cluster", lambda: access)
    options = program.option_parser("d", {"NODE_NAME": "a"}).parse_args([])
    async with program.open_surroundings("d", options, clock) as found:
        file.write_text("second\n")
        await clock.advance(61)
        assert found.client._headers["authorization"] == "Bearer second"
