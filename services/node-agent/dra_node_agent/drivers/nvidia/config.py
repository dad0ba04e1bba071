"""The driver's opaque configuration objects (api/nvidia.com/resource/v1beta1 of its repository)."""

from typing import Any, dataclass_transform

import msgspec
from dra_driverkit.errors import PrepareError
from dra_driverkit.opaque import decode_strict
from dra_shared.quantity import Quantity, QuantityError

from dra_node_agent.drivers.nvidia import gates
from dra_node_agent.drivers.nvidia.gates import NvidiaGates

API_VERSION = "resource.nvidia.com/v1beta1"

TIME_SLICING = "TimeSlicing"
MPS = "MPS"
_INTERVALS = ("Default", "Short", "Medium", "Long")
_BACKENDS = ("LegacyOnly", "PreferIommuFD")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class TimeSlicingConfig(_Config, kw_only=True):
    """The time that a process may compute before the next one."""

    interval: str | None = None

    @property
    def number(self) -> int:
        """The interval as an argument of nvidia-smi's ``compute-policy --set-timeslice``."""
        return _INTERVALS.index(self.interval or "Default")


class MpsConfig(_Config, kw_only=True):
    """Settings of the MPS control daemon."""

    default_active_thread_percentage: int | None = None
    default_pinned_device_memory_limit: str | int | None = None
    default_per_device_pinned_memory_limit: dict[str, str | int] = msgspec.field(default_factory=dict)
    multi_user: bool | None = None

    def pinned_limits(self, uuids: list[str]) -> dict[str, str]:
        """Return the memory limit of each device in whole MiB, as ``10240M``.

        Raises:
            PrepareError: a limit is below 1 MiB, or names none of the devices.
        """
        limits: dict[str, str] = {}
        if self.default_pinned_device_memory_limit is not None:
            limit = _mebibytes(self.default_pinned_device_memory_limit)
            if limit is None:
                raise PrepareError(
                    f"invalid limit: default value set too low: {self.default_pinned_device_memory_limit}"
                )
            limits = dict.fromkeys(uuids, limit)
        for key, value in self.default_per_device_pinned_memory_limit.items():
            limit = _mebibytes(value)
            if limit is None:
                raise PrepareError(f"invalid limit: value set too low: {key}: {value}")
            limits[_device_uuid(key, uuids)] = limit
        return limits


class GpuSharing(_Config, kw_only=True):
    """The way in which several containers share a GPU."""

    strategy: str = ""
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None


class MigSharing(_Config, kw_only=True):
    """The way in which several containers share a MIG device."""

    strategy: str = ""
    mps_config: MpsConfig | None = None


class GpuConfig(_Config, kw_only=True):
    """Configuration of whole GPUs."""

    sharing: GpuSharing | None = None


class MigDeviceConfig(_Config, kw_only=True):
    """Configuration of MIG devices."""

    sharing: MigSharing | None = None


class IommuConfig(_Config, kw_only=True):
    """The IOMMU interface for a virtual machine."""

    backend_policy: str = ""
    enable_api_device: bool | None = msgspec.field(default=None, name="enableAPIDevice")


class VfioDeviceConfig(_Config, kw_only=True):
    """Configuration of passthrough devices."""

    iommu: IommuConfig | None = None


class ComputeDomainChannelConfig(_Config, kw_only=True):
    """The domain of an IMEX channel. The allocation mode ``All`` gives every channel."""

    domain_id: str = msgspec.field(default="", name="domainID")
    allocation_mode: str = ""


class ComputeDomainDaemonConfig(_Config, kw_only=True):
    """The config of a daemon's claim: the domain of the daemon."""

    domain_id: str = msgspec.field(default="", name="domainID")


DeviceConfig = GpuConfig | MigDeviceConfig | VfioDeviceConfig
DomainConfig = ComputeDomainChannelConfig | ComputeDomainDaemonConfig

# The kinds of both drivers, because each driver recognizes the other's configs.
_KINDS: dict[str, type[_Config]] = {
    "GpuConfig": GpuConfig,
    "MigDeviceConfig": MigDeviceConfig,
    "VfioDeviceConfig": VfioDeviceConfig,
    "ComputeDomainChannelConfig": ComputeDomainChannelConfig,
    "ComputeDomainDaemonConfig": ComputeDomainDaemonConfig,
}


def decode(parameters: Any) -> DeviceConfig:
    """Decode a config from a claim's parameters.

    Raises:
        PrepareError: it is malformed, has unknown fields, or is not one for GPUs.
    """
    config = decode_strict(parameters, API_VERSION, _KINDS)
    if not isinstance(config, GpuConfig | MigDeviceConfig | VfioDeviceConfig):
        raise PrepareError("runtime object is not a recognized configuration")
    return config


def decode_domain(parameters: Any) -> DomainConfig:
    """Decode a config for compute domains from a claim's parameters.

    Raises:
        PrepareError: it is malformed, has unknown fields, or is not one for compute domains.
    """
    config = decode_strict(parameters, API_VERSION, _KINDS)
    if not isinstance(config, ComputeDomainChannelConfig | ComputeDomainDaemonConfig):
        raise PrepareError("runtime object is not a recognized configuration")
    return config


def defaults(feature_gates: NvidiaGates) -> list[DeviceConfig]:
    """Return the configs that apply if neither class nor claim has one: one for each type of device."""
    slicing = feature_gates.is_enabled(gates.TIME_SLICING)
    found: list[DeviceConfig] = [
        MigDeviceConfig(sharing=MigSharing(strategy=TIME_SLICING) if slicing else None),
        GpuConfig(
            sharing=GpuSharing(
                strategy=TIME_SLICING, time_slicing_config=TimeSlicingConfig(interval="Default")
            )
            if slicing
            else None
        ),
    ]
    if feature_gates.is_enabled(gates.PASSTHROUGH):
        found.insert(0, normalize(VfioDeviceConfig(), feature_gates))
    return found


def normalize(config: DeviceConfig, feature_gates: NvidiaGates) -> DeviceConfig:
    """Return the config with all implied values filled in."""
    replace = msgspec.structs.replace
    if isinstance(config, VfioDeviceConfig):
        iommu = config.iommu or IommuConfig()
        return VfioDeviceConfig(
            iommu=IommuConfig(
                backend_policy=iommu.backend_policy or "LegacyOnly",
                enable_api_device=bool(iommu.enable_api_device),
            )
        )
    slicing = feature_gates.is_enabled(gates.TIME_SLICING)
    if config.sharing is None:
        if not slicing:
            return config
        if isinstance(config, GpuConfig):
            config = GpuConfig(sharing=GpuSharing(strategy=TIME_SLICING))
        else:
            config = MigDeviceConfig(sharing=MigSharing(strategy=TIME_SLICING))
    sharing = config.sharing
    if isinstance(sharing, GpuSharing) and slicing and sharing.strategy == TIME_SLICING:
        sharing = replace(
            sharing, time_slicing_config=sharing.time_slicing_config or TimeSlicingConfig(interval="Default")
        )
    if sharing is not None and sharing.strategy == MPS and feature_gates.is_enabled(gates.MPS):
        sharing = replace(sharing, mps_config=sharing.mps_config or MpsConfig())
    if isinstance(config, GpuConfig):
        return GpuConfig(sharing=sharing if isinstance(sharing, GpuSharing) else None)
    return MigDeviceConfig(sharing=sharing if isinstance(sharing, MigSharing) else None)


def validate(config: DeviceConfig, feature_gates: NvidiaGates) -> None:
    """Check a normalized config.

    Raises:
        PrepareError: a value is out of its range, or needs a feature gate that is off.
    """
    if isinstance(config, VfioDeviceConfig):
        if config.iommu is not None and config.iommu.backend_policy not in _BACKENDS:
            raise PrepareError(
                f"unknown IOMMU backend policy: {config.iommu.backend_policy}, "
                f"supported IOMMU backend policies: {', '.join(_BACKENDS)}"
            )
        return
    if config.sharing is None:
        return
    _validate_strategy(config.sharing.strategy, feature_gates)
    if config.sharing.strategy == MPS:
        percentage = (config.sharing.mps_config or MpsConfig()).default_active_thread_percentage
        if percentage is not None and percentage < 0:
            raise PrepareError("active thread percentage must not be negative")
        if percentage is not None and percentage > 100:
            raise PrepareError("active thread percentage must not be greater than 100")
    elif isinstance(config.sharing, GpuSharing) and config.sharing.time_slicing_config is not None:
        interval = config.sharing.time_slicing_config.interval
        if interval not in _INTERVALS:
            raise PrepareError(
                f"unknown time-slice interval: {interval or ''}, "
                f"supported time-slice intervals: {', '.join(_INTERVALS)}"
            )


def check_exclusive(sharing: GpuSharing | MigSharing) -> None:
    """Check that a GPU's sharing only has settings of its own strategy.

    Raises:
        PrepareError: it has settings of the other strategy.
    """
    if isinstance(sharing, GpuSharing):
        if sharing.strategy == TIME_SLICING and sharing.mps_config is not None:
            raise PrepareError(f"cannot use MpsConfig with the '{TIME_SLICING}' strategy")
        if sharing.strategy == MPS and sharing.time_slicing_config is not None:
            raise PrepareError(f"cannot use TimeSlicingConfig with the '{MPS}' strategy")


def _validate_strategy(strategy: str, feature_gates: NvidiaGates) -> None:
    needed = {TIME_SLICING: gates.TIME_SLICING, MPS: gates.MPS}.get(strategy)
    if needed is None:
        raise PrepareError(
            f"unknown GPU sharing strategy: {strategy}, "
            f"supported GPU sharing strategies: {TIME_SLICING}, {MPS}"
        )
    if not feature_gates.is_enabled(needed):
        raise PrepareError(
            f'"{strategy}" is selected as the GPU sharing strategy, but the "{needed}" feature gate is not enabled'
        )


def _mebibytes(limit: str | int) -> str | None:
    try:
        whole = Quantity.parse(str(limit)).value() // (1024 * 1024)
    except QuantityError as error:
        raise PrepareError(f"cannot decode memory limit {limit!r}: {error}") from error
    return f"{whole}M" if whole > 0 else None


def _device_uuid(key: str, uuids: list[str]) -> str:
    if key in uuids:
        return key
    if not key.lstrip("+-").isdigit():
        raise PrepareError(f"invalid device: unable to parse key as an integer: {key}")
    if not 0 <= int(key) < len(uuids):
        raise PrepareError(f"invalid device: invalid device index: {int(key)}")
    return uuids[int(key)]
