"""The configuration of the device plugin: flags, environment, config file (api/config/v1)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from dra_driverkit.errors import DriverConfigError
from dra_shared.boundedfiles import read_file
from dra_shared.log import logger
from dra_shared.yamltext import YamlError, load

from dra_node_agent.drivers.base import DriverOption
from dra_node_agent.drivers.nvidia.health import APPLICATION_XIDS

NONE, SINGLE, MIXED = "none", "single", "mixed"
ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
UUID, INDEX = "uuid", "index"
DISTRIBUTED, PACKED = "distributed", "packed"

_MIG, _LISTS, _IDS = "mig-strategy", "device-list-strategy", "device-id-strategy"
_FILE, _DISABLE, _ENABLE = "device-plugin-config", "dp-disable-healthchecks", "dp-enable-healthchecks"
_SHARED = ".shared"
# The variables that NVIDIA's container runtime adds for storage and networks with direct GPU access.
_STORAGE = {"gdrcopyEnabled": "NVIDIA_GDRCOPY", "gdsEnabled": "NVIDIA_GDS", "mofedEnabled": "NVIDIA_MOFED"}
_ALL_XIDS = 0

OPTIONS = (
    DriverOption(_MIG, "NVIDIA's device plugin: none, single or mixed"),
    DriverOption(
        _LISTS, "NVIDIA's device plugin: envvar, volume-mounts, cdi-annotations, cdi-cri; several by comma"
    ),
    DriverOption(_IDS, "NVIDIA's device plugin: uuid or index"),
    DriverOption(_FILE, "NVIDIA's device plugin: its config file, for time-slicing among others"),
    DriverOption(_DISABLE, "NVIDIA's device plugin: all, or XIDs that do not make a GPU unhealthy"),
    DriverOption(_ENABLE, "NVIDIA's device plugin: all, or XIDs that do"),
)

_log = logger(__name__)


@dataclass(frozen=True)
class Replicated:
    """A resource whose devices several containers may share."""

    name: str
    rename: str
    replicas: int


@dataclass(frozen=True)
class PluginConfig:
    """The plugin's configuration."""

    mig_strategy: str = NONE
    list_strategies: tuple[str, ...] = (ENVVAR,)
    id_strategy: str = UUID
    pass_device_specs: bool = False
    policy: str = DISTRIBUTED
    replicated: tuple[Replicated, ...] = ()
    one_replica_at_most: bool = False
    disabled_xids: Mapping[int, bool] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def cdi(self) -> bool:
        """True if devices are passed through CDI."""
        return any(strategy.startswith("cdi-") for strategy in self.list_strategies)

    def is_ignored(self, xid: int) -> bool:
        """True if a GPU stays usable after this error."""
        disabled = self.disabled_xids or {}
        if disabled.get(_ALL_XIDS) is False:
            return False
        return disabled.get(xid, disabled.get(_ALL_XIDS, False))


def parse(values: Mapping[str, str]) -> PluginConfig:
    """Parse the values of the options. Flags override the config file.

    Raises:
        DriverConfigError: a value is invalid.
    """
    file = _read(Path(values[_FILE])) if values.get(_FILE) else {}
    flags = file.get("flags") or {}
    plugin = flags.get("plugin") or {}
    lists = values.get(_LISTS) or plugin.get("deviceListStrategy") or ENVVAR
    sharing = file.get("sharing") or {}
    if sharing.get("mps"):
        raise DriverConfigError("NVIDIA's device plugin: sharing.mps is not simulated, timeSlicing is")
    _check_channels(file.get("imex") or {})
    slicing = sharing.get("timeSlicing") or {}
    return PluginConfig(
        mig_strategy=_one_of(
            values.get(_MIG) or flags.get("migStrategy") or NONE,
            (NONE, SINGLE, MIXED),
            "unknown MIG strategy: {}",
        ),
        list_strategies=tuple(
            _one_of(
                one,
                (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI),
                "invalid --device-list-strategy option: invalid strategy: {}",
            )
            for one in (lists.split(",") if isinstance(lists, str) else lists)
        ),
        id_strategy=_one_of(
            values.get(_IDS) or plugin.get("deviceIDStrategy") or UUID,
            (UUID, INDEX),
            "invalid --device-id-strategy option: {}",
        ),
        pass_device_specs=bool(plugin.get("passDeviceSpecs")),
        policy=_one_of(
            plugin.get("sharedDevicesAllocationPolicy") or DISTRIBUTED,
            (DISTRIBUTED, PACKED),
            "invalid --shared-devices-allocation-policy option: {}",
        ),
        replicated=_parse_replicas(slicing) if slicing else (),
        one_replica_at_most=bool(slicing.get("failRequestsGreaterThanOne")),
        disabled_xids=_parse_xids(values.get(_DISABLE, ""), values.get(_ENABLE, "")),
        environment={name: "enabled" for flag, name in _STORAGE.items() if flags.get(flag)},
    )


def from_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options that the chart sets on the plugin's container."""
    names = {
        _MIG: "MIG_STRATEGY",
        _LISTS: "DEVICE_LIST_STRATEGY",
        _IDS: "DEVICE_ID_STRATEGY",
        _DISABLE: "DP_DISABLE_HEALTHCHECKS",
        _ENABLE: "DP_ENABLE_HEALTHCHECKS",
    }
    return {option: environment[name] for option, name in names.items() if environment.get(name)}


def _read(path: Path) -> dict[str, Any]:
    try:
        content = load(read_file(path)).value or {}
    except OSError as error:
        raise DriverConfigError(f"error opening config file: {path}: {error.strerror}") from error
    except YamlError as error:
        raise DriverConfigError(f"error parsing config file: {path}: {error}") from error
    if not isinstance(content, dict) or content.get("version", "v1") != "v1":
        raise DriverConfigError(f"error parsing config file: {path}: unknown version")
    return content


def _one_of(value: str, known: tuple[str, ...], message: str) -> str:
    if value not in known:
        raise DriverConfigError(f"NVIDIA's device plugin: {message.format(value)}")
    return value


def _check_channels(imex: Mapping[str, Any]) -> None:
    """Check requested IMEX channels, which no simulated node has (internal/imex/imex.go)."""
    for number in imex.get("channelIDs") or ():
        if imex.get("required"):
            raise DriverConfigError(
                f"NVIDIA's device plugin: requested IMEX channel channel{number} does not exist"
            )
        _log.warning("ignoring requested IMEX channel", channel=f"channel{number}")


class _Resource(msgspec.Struct):
    name: str
    replicas: int
    rename: str = ""
    devices: Any = "all"


def _parse_replicas(slicing: Mapping[str, Any]) -> tuple[Replicated, ...]:
    where = "NVIDIA's device plugin: sharing.timeSlicing"
    if not slicing.get("resources"):
        raise DriverConfigError(f"{where}: no resources specified")
    try:
        resources = msgspec.convert(slicing["resources"], list[_Resource])
    except msgspec.ValidationError as error:
        raise DriverConfigError(f"{where}: {error}") from error
    renamed = bool(slicing.get("renameByDefault"))
    found = []
    for resource in resources:
        if resource.replicas < 2:
            raise DriverConfigError(f"{where}: number of replicas must be >= 2")
        name = resource.name if resource.name.startswith("nvidia.com/") else f"nvidia.com/{resource.name}"
        rename = f"{name}{_SHARED}" if renamed else name
        if resource.rename not in ("", rename):
            _log.warning("setting the 'rename' field is not supported by the device plugin, ignoring it")
        if resource.devices != "all":
            _log.warning("customizing the 'devices' field is not supported by the device plugin, ignoring it")
        found.append(Replicated(name, rename, resource.replicas))
    return tuple(found)


def _parse_xids(disable: str, enable: str) -> dict[int, bool]:
    disabled = dict.fromkeys(_xids(disable), True) | dict.fromkeys(APPLICATION_XIDS, True)
    return disabled | dict.fromkeys(_xids(enable), False)


def _xids(text: str) -> Iterable[int]:
    words = [word.strip().lower() for word in text.split(",")]
    if {"all", "xids"} & set(words):
        return [_ALL_XIDS]
    return [int(word) for word in words if word.isdecimal()]
