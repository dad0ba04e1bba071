"""The CDI specification's data model (1.1.0), its validation, and the lowest version that can express a spec."""

from typing import Any, dataclass_transform

import msgspec

from dra_driverkit.cdi.names import device_name_problem, kind_problem

# All versions of the specification, oldest first. Engines reject those before 0.3.0.
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_EARLIEST = "0.3.0"

_HOOKS = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
_DEVICE_TYPES = frozenset({"", "b", "c", "u", "p"})


class SpecError(ValueError):
    """A CDI spec breaks the specification."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    pass


class DeviceNode(_Part):
    """A device node to create in the container. Engines stat ``host_path`` unless type and numbers are given."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class Mount(_Part):
    """A mount of a host path into the container."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(_Part):
    """An OCI hook to run."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class IntelRdt(_Part):
    """Cache and memory bandwidth allocation."""

    clos_id: str = msgspec.field(default="", name="closID")
    l3_cache_schema: str = msgspec.field(default="", name="l3CacheSchema")
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False


class NetDevice(_Part):
    """A network interface of the host that is moved into the container."""

    host_interface_name: str
    name: str


class ContainerEdits(_Part):
    """The changes to a container that gets a device."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    def merge(self, other: "ContainerEdits") -> "ContainerEdits":
        """Return both edits, ``other``'s last. The later Intel RDT settings take precedence."""
        return ContainerEdits(
            env=self.env + other.env,
            device_nodes=self.device_nodes + other.device_nodes,
            net_devices=self.net_devices + other.net_devices,
            hooks=self.hooks + other.hooks,
            mounts=self.mounts + other.mounts,
            intel_rdt=other.intel_rdt or self.intel_rdt,
            additional_gids=self.additional_gids + other.additional_gids,
        )

    # Deprecated: the name in 0.1, kept for one release.
    merged = merge

    def environment(self) -> dict[str, str]:
        """Return the environment variables. The later one of two with the same name takes precedence."""
        return dict(entry.partition("=")[::2] for entry in self.env)


class CdiDevice(_Part):
    """One device of a spec."""

    name: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    container_edits: ContainerEdits = msgspec.field(default_factory=ContainerEdits)


class Spec(_Part):
    """A CDI spec file."""

    kind: str
    devices: tuple[CdiDevice, ...]
    container_edits: ContainerEdits = msgspec.field(default_factory=ContainerEdits)
    cdi_version: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)

    def validate(self) -> None:
        """Check the requirements of the specification.

        Raises:
            SpecError: it is broken; the message says where.
        """
        if self.cdi_version not in VERSIONS:
            raise SpecError(f"invalid version {self.cdi_version!r}")
        needed = minimum_version(self)
        if VERSIONS.index(needed) > VERSIONS.index(self.cdi_version):
            raise SpecError(f"the spec version must be at least v{needed}")
        problem = kind_problem(self.kind)
        if problem:
            raise SpecError(problem)
        _check_edits(self.container_edits, "spec")
        names: set[str] = set()
        for device in self.devices:
            problem = device_name_problem(device.name)
            if problem:
                raise SpecError(problem)
            if device.name in names:
                raise SpecError(f"multiple devices with the name {device.name!r}")
            names.add(device.name)
            if device.container_edits == ContainerEdits():
                raise SpecError(f"invalid device {device.name!r}: empty container edits")
            _check_edits(device.container_edits, f"device {device.name!r}")
        if not names:
            raise SpecError("no devices in spec")


def _check_edits(edits: ContainerEdits, where: str) -> None:
    for entry in edits.env:
        if not entry.partition("=")[1]:
            raise SpecError(f"{where}: invalid environment variable {entry!r}")
    for node in edits.device_nodes:
        if not node.path:
            raise SpecError(f"{where}: invalid (empty) device path")
        if node.type not in _DEVICE_TYPES:
            raise SpecError(f"{where}: device {node.path!r} has an invalid type {node.type!r}")
        if set(node.permissions) - set("rwm"):
            raise SpecError(f"{where}: device {node.path!r} has invalid permissions {node.permissions!r}")
    for mount in edits.mounts:
        if not mount.host_path or not mount.container_path:
            raise SpecError(f"{where}: invalid mount, empty host or container path")
    for hook in edits.hooks:
        if hook.hook_name not in _HOOKS:
            raise SpecError(f"{where}: invalid hook name {hook.hook_name!r}")
        if not hook.path:
            raise SpecError(f"{where}: invalid hook {hook.hook_name!r} with empty path")
    for interface in edits.net_devices:
        if not interface.host_interface_name or not interface.name:
            raise SpecError(f"{where}: invalid net device, empty name")


def minimum_version(spec: Spec) -> str:
    """Return the lowest CDI version that can express ``spec``. It is written to the file for older engines."""
    edits = [spec.container_edits, *(device.container_edits for device in spec.devices)]
    rdt = [edit.intel_rdt for edit in edits if edit.intel_rdt is not None]
    if any(edit.net_devices for edit in edits) or any(
        r.schemata is not None or r.enable_monitoring for r in rdt
    ):
        return "1.1.0"
    if rdt or any(edit.additional_gids for edit in edits):
        return "0.7.0"
    if (
        spec.annotations
        or any(device.annotations for device in spec.devices)
        or "." in spec.kind.partition("/")[2]
    ):
        return "0.6.0"
    if any(device.name[:1].isdigit() for device in spec.devices) or any(
        node.host_path for edit in edits for node in edit.device_nodes
    ):
        return "0.5.0"
    if any(mount.type for edit in edits for mount in edit.mounts):
        return "0.4.0"
    return _EARLIEST


def to_document(spec: Spec) -> dict[str, Any]:
    """Return the spec as plain data in the file's order: version and kind first."""
    plain: dict[str, Any] = msgspec.to_builtins(spec)
    ordered: dict[str, Any] = {
        key: plain[key] for key in ("cdiVersion", "kind", "annotations") if key in plain
    }
    ordered["devices"] = [
        {"name": d["name"], **{k: v for k, v in d.items() if k != "name"}}
        | {"containerEdits": d.get("containerEdits", {})}
        for d in plain["devices"]
    ]
    if "containerEdits" in plain:
        ordered["containerEdits"] = plain["containerEdits"]
    return ordered
