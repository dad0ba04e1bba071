from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import docker
import pytest
from dra_node_agent.agent import NodeAgent, NodeAgentConfig
from dra_node_agent.agentnode import Place
from dra_node_agent.runtime.base import ContainerSpec, Mount, RuntimeFailure
from dra_node_agent.runtime.confinement import confine
from dra_node_agent.runtime.docker import DockerRuntime
from dra_shared.client.rest import Client
from dra_shared.clock import FakeClock

_SPEC = ContainerSpec(namespace="ns", pod="p", pod_uid="u", name="c", attempt=0, image="i")


def _spec_with_mount(source: Path | str) -> ContainerSpec:
    return replace(_SPEC, mounts=(Mount("/there", str(source), False),))


def test_volumes_of_pods_are_mounted(tmp_path: Path) -> None:
    volume = tmp_path / "pods" / "u" / "volumes" / "v"
    volume.mkdir(parents=True)
    link = tmp_path / "short"
    link.symlink_to(tmp_path / "pods")
    spec = confine(_spec_with_mount(link / "u/volumes/v"), link)
    assert [mount.source for mount in spec.mounts] == [str(volume.resolve())]
    assert confine(_spec_with_mount(""), link).mounts[0].source == ""


@pytest.mark.parametrize(
    "source", ["/", "/etc", "pods/../secret", "pods/u/volumes/v/link", "pods/u/volumes/v/link/etc"]
)
def test_files_of_the_host_are_not_mounted(tmp_path: Path, source: str) -> None:
    volume = tmp_path / "pods" / "u" / "volumes" / "v"
    volume.mkdir(parents=True)
    # A path that one container writes into a volume may be the subPath of another container's mount.
    (volume / "link").symlink_to("/")
    with pytest.raises(
        RuntimeFailure, match="of the host is not allowed; the node agent's --allow-host-access"
    ) as error:
        confine(_spec_with_mount(tmp_path / source), tmp_path / "pods")
    assert error.value.reason == "CreateContainerError"


@pytest.mark.parametrize("spec", [replace(_SPEC, privileged=True), replace(_SPEC, host_network=True)])
def test_devices_and_network_of_the_host_are_not_shared(tmp_path: Path, spec: ContainerSpec) -> None:
    with pytest.raises(RuntimeFailure, match="not allowed"):
        confine(spec, tmp_path)


@pytest.mark.parametrize("host_access", [False, True])
async def test_docker_containers_are_confined_unless_host_access_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host_access: bool
) -> None:
    engine = MagicMock()
    engine.info.return_value = {}
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setattr(docker, "from_env", lambda: engine)
    config = NodeAgentConfig(tmp_path, runtime="docker", host_access=host_access)
    agent = NodeAgent(config, Client("http://127.0.0.1:1"), FakeClock())
    place = Place("node-0", tmp_path, tmp_path / "kubelet", tmp_path / "cdi", "10.128.0.0/24")
    runtime = agent._runtime(place)
    assert isinstance(runtime, DockerRuntime)
    engine.containers.create.side_effect = docker.errors.APIError("created")
    with pytest.raises(
        RuntimeFailure, match="created" if host_access else "mounting /etc of the host is not"
    ):
        await runtime.run(_spec_with_mount("/etc"))
    assert engine.containers.create.called == host_access
    await runtime.close()
