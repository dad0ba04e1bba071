"""Convert CDI edits to options of the Docker API, for an engine that does not know CDI.

Environment, mounts, devices and groups are options of the container. Symbolic links and the configuration of
the linker are copied into the container before it starts. Only a program in the container could create the
linker's cache, so the folders are added to ``LD_LIBRARY_PATH``.
"""

import io
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_driverkit.cdi import ContainerEdits, HookEffects, collect_effects

_LIBRARY_PATH = "LD_LIBRARY_PATH"


@dataclass(frozen=True)
class Injection:
    """Changes to a container that give it its devices.

    Args:
        options: options for its creation; lists and environments are added to those of the container.
        archive: a tar file to unpack at its root before it starts; may be empty.
        left_out: edits that the engine or the host does not support.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    archive: bytes = b""
    left_out: Sequence[str] = ()

    def add_to(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``options`` extended by those of the injection."""
        merged = dict(options)
        for name, value in self.options.items():
            before = merged.get(name)
            if isinstance(value, Mapping):
                merged[name] = {**(before or {}), **value}
            else:
                merged[name] = [*(before or ()), *value]
        return merged


def library_path(environment: Iterable[str]) -> str:
    """Return the value of ``LD_LIBRARY_PATH`` in the image; empty for none."""
    return next((e.partition("=")[2] for e in environment if e.startswith(f"{_LIBRARY_PATH}=")), "")


def injection_of(edits: ContainerEdits, image_library_path: str = "") -> Injection:
    """Convert edits to an injection. It leaves out what the host does not have, such as a simulated device."""
    found = collect_effects(edits.hooks)
    left_out: list[str] = []
    environment = edits.environment()
    if found.library_folders:
        before = environment.get(_LIBRARY_PATH, image_library_path)
        environment[_LIBRARY_PATH] = ":".join([*([before] if before else []), *found.library_folders])
    volumes = []
    for mount in edits.mounts:
        if Path(mount.host_path).exists():
            mode = "ro" if "ro" in mount.options else "rw"
            volumes.append(f"{mount.host_path}:{mount.container_path}:{mode}")
        else:
            left_out.append(f"mount {mount.host_path}: the host doesn't have it")
    devices = []
    for node in edits.device_nodes:
        host = node.host_path or node.path
        if Path(host).exists():
            devices.append(f"{host}:{node.path}:{node.permissions or 'rwm'}")
        else:
            left_out.append(f"device {host}: the host doesn't have it")
    left_out += _impossible(edits, found)
    options: dict[str, Any] = {"environment": environment, "volumes": volumes, "devices": devices}
    if edits.additional_gids:
        options["group_add"] = [str(gid) for gid in edits.additional_gids]
    return Injection(options, _archive(found), tuple(left_out))


def _impossible(edits: ContainerEdits, found: HookEffects) -> list[str]:
    texts = [f"network device {interface.host_interface_name}" for interface in edits.net_devices]
    texts += [f"mode {mode} of {path}" for path, mode in found.modes]
    texts += ["hook disable-device-node-modification"] if found.fixed_device_nodes else []
    texts += ["Intel RDT"] if edits.intel_rdt is not None else []
    return [*texts, *(f"hook {' '.join(hook.args) or hook.path}" for hook in found.unknown)]


def _archive(found: HookEffects) -> bytes:
    if not found.links and not found.library_folders:
        return b""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for target, path in found.links:
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(link)
        if found.library_folders:
            text = "".join(f"{folder}\n" for folder in found.library_folders).encode()
            file = tarfile.TarInfo("etc/ld.so.conf.d/00-nvcr.conf")
            file.size, file.mode = len(text), 0o644
            archive.addfile(file, io.BytesIO(text))
    return data.getvalue()
