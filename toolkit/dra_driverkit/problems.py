"""Report problems that a driver finds in the background, and react to them.

``HandleError`` of k8s.io/dynamic-resource-allocation/kubeletplugin and ``DroppedFieldsError`` of its
resourceslice. All problems that are currently reported are recoverable: the publisher retries.
"""

from collections.abc import Callable, Sequence

from dra_shared.api.resource import Device
from dra_shared.log import logger
from dra_shared.quoting import go_quote

from dra_driverkit.resources import PoolSlice

# Called with an error and the action that failed.
HandleError = Callable[[Exception, str], None]

_log = logger(__name__)


class DroppedFieldsError(Exception):
    """A slice could not be published exactly as the driver wants it."""

    def __init__(self, pool: str, index: int, wanted: PoolSlice, stored: PoolSlice) -> None:
        self.pool_name, self.slice_index = pool, index
        self.disabled_features = _disabled_features(wanted, stored)
        features = " ".join(self.disabled_features or ["unknown"])
        super().__init__(
            f"pool {go_quote(pool)}, slice #{index}: some fields were dropped by the apiserver, "
            f"probably because these features are disabled: {features}"
        )


def log_error(error: Exception, message: str) -> None:
    """Log the error. This is the default reaction of drivers (HandleErrorWithContext)."""
    _log.error(message, error=str(error))


def _disabled_features(wanted: PoolSlice, stored: PoolSlice) -> list[str]:
    """Return the feature gates whose absence would explain the missing fields."""
    pairs = list(zip(wanted.devices, stored.devices, strict=False))
    counters_dropped = len(wanted.shared_counters) > len(stored.shared_counters)
    checks = (
        ("DRADeviceTaints", any(len(want.taints) > len(have.taints) for want, have in pairs)),
        ("DRAPartitionableDevices", counters_dropped or _differ(pairs, "consumes_counters")),
        (
            "DRADeviceBindingConditions",
            _differ(pairs, "binding_conditions") or _differ(pairs, "binding_failure_conditions"),
        ),
        (
            "DRAConsumableCapacity",
            any(
                want.allow_multiple_allocations is not None and have.allow_multiple_allocations is None
                for want, have in pairs
            ),
        ),
    )
    return [feature for feature, dropped in (*checks, *_since_1_37(wanted, stored, pairs)) if dropped]


def _since_1_37(
    wanted: PoolSlice, stored: PoolSlice, pairs: Sequence[tuple[Device, Device]]
) -> Sequence[tuple[str, bool]]:
    partition_types = (wanted.partition_type_attribute, stored.partition_type_attribute)
    return (
        ("DRAPartitionableDevicesType", partition_types[0] != partition_types[1]),
        ("DRAOptionalNodeOperations", wanted.skip_node_operations != stored.skip_node_operations),
        ("DRADeviceCompatibilityGroups", any(_groups(want) != _groups(have) for want, have in pairs)),
    )


def _differ(pairs: Sequence[tuple[Device, Device]], field: str) -> bool:
    return any(len(getattr(want, field)) != len(getattr(have, field)) for want, have in pairs)


def _groups(device: Device) -> int:
    return sum(len(consumption.compatibility_groups) for consumption in device.consumes_counters)
