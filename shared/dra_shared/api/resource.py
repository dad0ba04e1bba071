"""resource.k8s.io/v1: classes, claims, templates and slices."""

from typing import Any

from msgspec import field

from dra_shared.api.meta import Condition, Object, ObjectMeta, Struct
from dra_shared.api.node import NodeSelector


class OpaqueDeviceConfiguration(Struct):
    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None


class CELDeviceSelector(Struct):
    expression: str = ""


class DeviceSelector(Struct):
    cel: CELDeviceSelector | None = None


class DeviceClassSpec(Struct):
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(Object):
    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)


class DeviceAttribute(Struct):
    bool_: bool | None = None
    bools: tuple[bool, ...] = ()
    int_: int | None = None
    ints: tuple[int, ...] = ()
    string: str | None = None
    strings: tuple[str, ...] = ()
    version: str | None = None
    versions: tuple[str, ...] = ()


class CapacityRequestPolicyRange(Struct):
    max: str | None = None
    min: str | None = None
    step: str | None = None


class CapacityRequestPolicy(Struct):
    default: str | None = None
    valid_range: CapacityRequestPolicyRange | None = None
    valid_values: tuple[str, ...] = ()


class DeviceCapacity(Struct):
    request_policy: CapacityRequestPolicy | None = None
    value: str = "0"


class Counter(Struct):
    value: str = "0"


class DeviceCounterConsumption(Struct):
    compatibility_groups: tuple[str, ...] = ()
    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class NodeAllocatableResourceMapping(Struct):
    allocation_multiplier: str | None = None
    capacity_key: str | None = None


class NodeAllocatableMapping(Struct):
    capacity_key: str | None = None
    capacity_multiplier: str | None = None
    device_multiplier: str | None = None


class NodeAllocatableOverhead(Struct):
    per_container: str | None = None
    per_pod: str | None = None


class NodeAllocatableResource(Struct):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class DeviceTaint(Struct):
    effect: str = ""
    key: str = ""
    time_added: str | None = None
    value: str = ""


class Device(Struct):
    all_nodes: bool | None = None
    allow_multiple_allocations: bool | None = None
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    binds_to_node: bool | None = None
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    name: str = ""
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] = field(
        default_factory=dict
    )
    node_allocatable_resources: dict[str, NodeAllocatableResource] = field(default_factory=dict)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    taints: tuple[DeviceTaint, ...] = ()


class ResourcePool(Struct):
    generation: int = 0
    name: str = ""
    resource_slice_count: int = 0


class CounterSet(Struct):
    counters: dict[str, Counter] = field(default_factory=dict)
    name: str = ""


class ResourceSliceSpec(Struct):
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    driver: str = ""
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    partition_type_attribute: str | None = None
    per_device_node_selection: bool | None = None
    pool: ResourcePool = field(default_factory=ResourcePool)
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(Object):
    spec: ResourceSliceSpec = field(default_factory=ResourceSliceSpec)


class DeviceClaimConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None
    requests: tuple[str, ...] = ()


class DeviceConstraint(Struct):
    distinct_attribute: str | None = None
    match_attribute: str | None = None
    requests: tuple[str, ...] = ()


class CapacityRequirements(Struct):
    requests: dict[str, str] = field(default_factory=dict)


class DeviceToleration(Struct):
    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: int | None = None
    value: str = ""


class DeviceDerivedAttribute(Struct):
    expression: str = ""
    name: str = ""


class ExactDeviceRequest(Struct):
    admin_access: bool | None = None
    allocation_mode: str = ""
    capacity: CapacityRequirements | None = None
    count: int | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceSubRequest(Struct):
    allocation_mode: str = ""
    capacity: CapacityRequirements | None = None
    count: int | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()
    device_class_name: str = ""
    name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceRequest(Struct):
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()
    name: str = ""


class DeviceClaim(Struct):
    config: tuple[DeviceClaimConfiguration, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = field(default_factory=DeviceClaim)


class DeviceAllocationConfiguration(Struct):
    opaque: OpaqueDeviceConfiguration | None = None
    requests: tuple[str, ...] = ()
    source: str = ""


class DeviceRequestAllocationResult(Struct):
    admin_access: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    consumed_capacity: dict[str, str] = field(default_factory=dict)
    device: str = ""
    driver: str = ""
    pool: str = ""
    request: str = ""
    share_id: str | None = field(default=None, name="shareID")
    skip_node_operations: tuple[str, ...] = ()
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceAllocationResult(Struct):
    config: tuple[DeviceAllocationConfiguration, ...] = ()
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Struct):
    allocation_timestamp: str | None = None
    devices: DeviceAllocationResult = field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None


class NetworkDeviceData(Struct):
    hardware_address: str = ""
    interface_name: str = ""
    ips: tuple[str, ...] = ()


class AllocatedDeviceStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    device: str = ""
    driver: str = ""
    network_data: NetworkDeviceData | None = None
    pool: str = ""
    share_id: str | None = field(default=None, name="shareID")


class ResourceClaimConsumerReference(Struct):
    api_group: str = ""
    name: str = ""
    resource: str = ""
    uid: str = ""


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    devices: tuple[AllocatedDeviceStatus, ...] = ()
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class ResourceClaim(Object):
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)


class ResourceClaimTemplateSpec(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(Object):
    spec: ResourceClaimTemplateSpec = field(default_factory=ResourceClaimTemplateSpec)
