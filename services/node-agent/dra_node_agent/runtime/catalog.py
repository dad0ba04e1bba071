"""The container runtimes that a node can have, by the name that ``--runtime`` takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dra_shared.clock import Clock

from dra_node_agent.runtime.base import Runtime
from dra_node_agent.runtime.container import Programs
from dra_node_agent.runtime.fake import EnvironmentEdits, FakeRuntime, no_edits
from dra_node_agent.runtime.images import Images


@dataclass(frozen=True)
class RuntimeNode:
    """A node as a runtime sees it.

    Args:
        home: the node's directory.
        kubelet_root: the kubelet's directory, from which containers may have mounts.
        cdi_directory: the directory of CDI files.
        address: the node's address.
        subnet: the node's network for pods.
        programs: the programs that devices bring into simulated containers.
        images: the behaviour of simulated images.
        environment_edits: returns the edits of a vendor's container runtime for a simulated container, from its
            environment and the targets of its mounts.
        network: the engine's network for pods; empty for its default.
        host_access: whether containers may have the host's files, devices and network.
    """

    name: str
    home: Path
    kubelet_root: Path
    cdi_directory: Path
    clock: Clock
    address: str
    subnet: str
    programs: Programs
    images: Images
    environment_edits: EnvironmentEdits = no_edits
    network: str = ""
    host_access: bool = False


def _fake(node: RuntimeNode) -> Runtime:
    return FakeRuntime(
        node.home / "runtime",
        node.cdi_directory,
        node.clock,
        subnet=node.subnet,
        programs=node.programs,
        images=node.images,
        readable=(node.kubelet_root,),
        node_ip=node.address,
        environment_edits=node.environment_edits,
    )


def _docker(node: RuntimeNode) -> Runtime:
    # Import here, because importing the engine's client takes long and most nodes do not need it.
    try:
        from dra_node_agent.runtime.docker import DockerRuntime
    except ModuleNotFoundError as error:
        raise OSError(f"--runtime docker needs {error.name}: pip install 'dralab[docker]'") from error

    return DockerRuntime(
        node.name,
        node.cdi_directory,
        node.clock,
        network=node.network,
        confined_to=None if node.host_access else node.kubelet_root / "pods",
    )


RUNTIMES: Mapping[str, Callable[[RuntimeNode], Runtime]] = {"fake": _fake, "docker": _docker}
