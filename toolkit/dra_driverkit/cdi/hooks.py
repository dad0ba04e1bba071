"""The effects of a spec's hooks on a container, for runtimes that cannot run hooks.

The programs are those of NVIDIA's container toolkit: ``nvidia-cdi-hook NAME …`` and ``nvidia-ctk hook NAME
…`` (cmd/nvidia-cdi-hook of nvidia-container-toolkit).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dra_driverkit.cdi.spec import Hook

_STAGE = "createContainer"


@dataclass(frozen=True)
class HookEffects:
    """The effects of hooks.

    Args:
        links: (target, path) of symbolic links, each in the order in which they are made.
        library_folders: folders that are added to the dynamic linker's cache.
        modes: (path, mode) of files.
        fixed_device_nodes: True if NVIDIA's libraries must not create device nodes themselves.
        unknown: the hooks that are not understood, or of another stage.
    """

    links: tuple[tuple[str, str], ...] = ()
    library_folders: tuple[str, ...] = ()
    modes: tuple[tuple[str, str], ...] = ()
    fixed_device_nodes: bool = False
    unknown: tuple[Hook, ...] = ()


def collect_effects(hooks: Iterable[Hook]) -> HookEffects:
    """Return the effects of the hooks, in their order."""
    links: list[tuple[str, str]] = []
    folders: list[str] = []
    modes: list[tuple[str, str]] = []
    unknown: list[Hook] = []
    fixed = False
    for hook in hooks:
        match _command(hook):
            case "create-symlinks", *words:
                pairs = (value.partition("::") for value in _values(words, "link"))
                links += [(target, path) for target, separator, path in pairs if separator]
            case "update-ldcache", *words:
                folders += _values(words, "folder")
            case "chmod", *words:
                mode = next(iter(_values(words, "mode")), "")
                modes += [(path, mode) for path in _values(words, "path")]
            case "disable-device-node-modification", *_:
                fixed = True
            case "enable-cuda-compat", *_:
                # This hook only matters for images that contain a newer CUDA driver library.
                continue
            case _:
                unknown.append(hook)
    return HookEffects(
        tuple(dict.fromkeys(links)), tuple(dict.fromkeys(folders)), tuple(modes), fixed, tuple(unknown)
    )


def _command(hook: Hook) -> Sequence[str]:
    """Return the toolkit's command and its arguments. Empty if the hook is something else."""
    program = hook.path.rpartition("/")[2]
    if hook.hook_name != _STAGE:
        return ()
    if program == "nvidia-cdi-hook":
        return hook.args[1:]
    if program == "nvidia-ctk" and hook.args[1:2] == ("hook",):
        return hook.args[2:]
    return ()


def _values(words: Iterable[str], option: str) -> Iterator[str]:
    """Yield the values of a repeated option: ``--link a`` or ``--link=a``."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name.lstrip("-") == option and name.startswith("-"):
            yield value if equals else next(rest, "")
