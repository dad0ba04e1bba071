"""The driver kit: DRA drivers in Python, as ``k8s.io/dynamic-resource-allocation/kubeletplugin`` provides for Go.

A driver is a :class:`Handler`, which prepares claims, and a :class:`DriverServer` around it, which registers with the
kubelet and publishes devices. :class:`ClaimStore` records prepared claims and writes CDI files, :class:`Configs`
decodes the claims' configuration, and :func:`run` runs the driver's process. docs/writing-a-driver.md has an example.
"""

from dra_driverkit.cdi import ContainerEdits, DeviceNode, Hook, Mount, NetDevice
from dra_driverkit.claims import ClaimHandler as Handler
from dra_driverkit.claims import ClaimRef, DeviceMetadata, PreparedDevice
from dra_driverkit.devices import attribute, capacity, node_pool, pool
from dra_driverkit.devicestatus import report_device_status
from dra_driverkit.directories import Directories
from dra_driverkit.errors import CheckpointError, DriverConfigError, PrepareError
from dra_driverkit.health import Health, HealthBoard
from dra_driverkit.locks import FileLock, LockTimeout
from dra_driverkit.metadata import V1ALPHA1 as METADATA_V1ALPHA1
from dra_driverkit.metadata import V1BETA1 as METADATA_V1BETA1
from dra_driverkit.metadata import MetadataError, MetadataWriter
from dra_driverkit.opaque import Config, Configs
from dra_driverkit.problems import DroppedFieldsError, HandleError
from dra_driverkit.program import Surroundings, run
from dra_driverkit.resources import DriverResources, Pool, PoolError, PoolSlice
from dra_driverkit.server import DriverServer
from dra_driverkit.statefile import StateFile
from dra_driverkit.store import ClaimStore, Ready, own_results
from dra_shared.api.meta import Condition
from dra_shared.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_shared.api.resource import (
    AllocatedDeviceStatus,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceRequestAllocationResult,
    DeviceTaint,
    NetworkDeviceData,
    ResourceClaim,
)
from dra_shared.client.rest import Client
from dra_shared.clock import Clock, SystemClock

__all__ = [
    "METADATA_V1ALPHA1",
    "METADATA_V1BETA1",
    "AllocatedDeviceStatus",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyRange",
    "CheckpointError",
    "ClaimRef",
    "ClaimStore",
    "Client",
    "Clock",
    "Condition",
    "Config",
    "Configs",
    "ContainerEdits",
    "Counter",
    "CounterSet",
    "Device",
    "DeviceAttribute",
    "DeviceCapacity",
    "DeviceCounterConsumption",
    "DeviceMetadata",
    "DeviceNode",
    "DeviceRequestAllocationResult",
    "DeviceTaint",
    "Directories",
    "DriverConfigError",
    "DriverResources",
    "DriverServer",
    "DroppedFieldsError",
    "FileLock",
    "HandleError",
    "Handler",
    "Health",
    "HealthBoard",
    "Hook",
    "LockTimeout",
    "MetadataError",
    "MetadataWriter",
    "Mount",
    "NetDevice",
    "NetworkDeviceData",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Pool",
    "PoolError",
    "PoolSlice",
    "PrepareError",
    "PreparedDevice",
    "Ready",
    "ResourceClaim",
    "StateFile",
    "Surroundings",
    "SystemClock",
    "attribute",
    "capacity",
    "node_pool",
    "own_results",
    "pool",
    "report_device_status",
    "run",
]
