"""The effects of CDI edits on a simulated container, except environment, device nodes and mounts.

Hooks have the effect of the programs that they name. Network devices and additional groups show in the files
and programs of the container.
"""

import posixpath
from collections.abc import Mapping, Sequence

from dra_driverkit.cdi import ContainerEdits, HookEffects, NetDevice, collect_effects
from dra_shared.log import logger

from dra_node_agent.runtime.shell.files import Files
from dra_node_agent.runtime.shell.options import Given, Syntax, UsageError, declare
from dra_node_agent.runtime.shell.world import Process, Program

_CACHE = "/etc/ld.so.cache"
_PARAMETERS = "/proc/driver/nvidia/params"
_NETWORKS = "/sys/class/net"

_log = logger(__name__)


def inject(edits: ContainerEdits, files: Files, container: str) -> None:
    """Apply the edits to the files of the container. Its mounts are there already."""
    found = collect_effects(edits.hooks)
    for target, path in found.links:
        _link(files, target, path)
    if found.library_folders:
        _update_cache(files, found)
    if found.fixed_device_nodes:
        files.content[_PARAMETERS] = "ModifyDeviceFiles: 0\n"
    for interface in edits.net_devices:
        files.content[f"{_NETWORKS}/{interface.name}/operstate"] = "up\n"
    if edits.net_devices:
        for name in ("lo", "eth0"):
            files.content[f"{_NETWORKS}/{name}/operstate"] = "up\n"
    if found.unknown:
        _log.warning(
            "hooks of CDI devices are not simulated",
            container=container,
            hooks=[" ".join(hook.args) or hook.path for hook in found.unknown],
        )


def injected_programs(edits: ContainerEdits) -> Mapping[str, Program]:
    """Return the programs that show groups and network devices."""
    return {"id": _id(edits.additional_gids), "ip": _ip(edits.net_devices), "ldconfig": _ldconfig}


def _link(files: Files, target: str, path: str) -> None:
    """Add a symbolic link. If the path exists, it stays as it is; the real hook does the same."""
    if path in files.content:
        return
    files.links[path] = target
    files.content[path] = files.content.get(
        posixpath.normpath(posixpath.join(posixpath.dirname(path), target)), ""
    )


def _update_cache(files: Files, found: HookEffects) -> None:
    libraries = [
        path
        for folder in found.library_folders
        for path in sorted(files.content)
        if posixpath.dirname(path) == folder.rstrip("/") and ".so" in posixpath.basename(path)
    ]
    files.content["/etc/ld.so.conf.d/00-nvcr.conf"] = "".join(
        f"{folder}\n" for folder in found.library_folders
    )
    files.content[_CACHE] = "".join(f"{path}\n" for path in libraries)


@declare(Syntax(flags="p", long={"print-cache": "p"}))
async def _ldconfig(process: Process, given: Given) -> int:
    # Ignore a call without options, which only updates the cache.
    if "p" in given:
        paths = process.files.content.get(_CACHE, "").splitlines()
        process.out(f"{len(paths)} libs found in cache `{_CACHE}'\n")
        for path in paths:
            process.out(f"\t{posixpath.basename(path)} (libc6,x86-64) => {path}\n")
    return 0


def _id(gids: Sequence[int]) -> Program:
    @declare(Syntax(flags="ugGnr", long={"user": "u", "group": "g", "groups": "G", "name": "n", "real": "r"}))
    async def program(process: Process, given: Given) -> int:
        if given.operands:
            raise UsageError("other users are not simulated")
        numbers = list(dict.fromkeys((0, *gids)))
        groups = ",".join("0(root)" if gid == 0 else str(gid) for gid in numbers)
        if "G" in given:
            if "n" in given and len(numbers) > 1:
                raise UsageError("names of groups are not simulated")
            process.out("root\n" if "n" in given else " ".join(map(str, numbers)) + "\n")
        elif given.last("ug"):
            process.out("root\n" if "n" in given else "0\n")
        else:
            process.out(f"uid=0(root) gid=0(root) groups={groups}\n")
        return 0

    return program


def _ip(interfaces: Sequence[NetDevice]) -> Program:
    names = ["lo", "eth0", *(interface.name for interface in interfaces)]

    async def program(process: Process) -> int:
        words = list(process.argv[1:])
        if options := [word for word in words if word.startswith("-")]:
            process.complain(f"ip: option {options[0]} is not simulated\n")
            return 1
        wanted = [word for word in words[1:] if word not in ("show", "list", "ls", "dev")]
        if not words or not any(words[0].startswith(kind) for kind in ("l", "a")):
            process.complain("dralab: of ip all but link and address is not simulated\n")
            return 1
        for number, name in enumerate(names, 1):
            if wanted and name not in wanted:
                continue
            process.out(f"{number}: {name}: <UP,LOWER_UP> mtu {65536 if name == 'lo' else 1500} state UP\n")
        for name in wanted:
            if name not in names:
                process.err(f'Device "{name}" does not exist.\n')
                return 1
        return 0

    return program
