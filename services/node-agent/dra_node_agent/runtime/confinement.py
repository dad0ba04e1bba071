"""The rules that keep a container of a real engine from the host, unless ``--allow-host-access`` lifts them."""

from dataclasses import replace
from pathlib import Path

from dra_node_agent.runtime.base import ContainerSpec, RuntimeFailure


def confine(spec: ContainerSpec, directory: Path) -> ContainerSpec:
    """Return the container if all sources of its mounts are below ``directory``, after resolving symbolic links.

    Raises:
        RuntimeFailure: the container would get access to the host's files, devices or network.
    """
    if spec.privileged:
        raise _refusal("privileged containers are")
    if spec.host_network:
        raise _refusal("the host's network is")
    own = directory.resolve()
    mounts = []
    for mount in spec.mounts:
        # Resolve links: a container may have put a symbolic link to the host's files into a volume that another
        # one mounts.
        source = Path(mount.source).resolve()
        if mount.source and not source.is_relative_to(own):
            raise _refusal(f"mounting {source} of the host is")
        mounts.append(replace(mount, source=str(source) if mount.source else ""))
    return replace(spec, mounts=tuple(mounts))


def _refusal(what: str) -> RuntimeFailure:
    return RuntimeFailure(
        "CreateContainerError", f"{what} not allowed; the node agent's --allow-host-access allows it"
    )
