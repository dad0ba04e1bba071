"""resource.k8s.io/v1alpha3 ResourcePoolStatusRequest."""

from msgspec import field

from dra_shared.api.meta import Condition, Object, Struct


class ResourcePoolStatusRequestSpec(Struct):
    default_partition_type_attribute: str | None = None
    driver: str = ""
    limit: int = 0
    pool_name: str | None = None


class PartitionTypeStatus(Struct):
    allocatable: int | None = None
    attribute: str = ""
    total: int | None = None
    type: str = ""


class ShareableCapacityStatus(Struct):
    available: str | None = None
    consumed: str | None = None
    name: str = ""
    total: str | None = None


class ShareableSummaryStatus(Struct):
    capacity: tuple[ShareableCapacityStatus, ...] = ()
    fully_available_devices: int | None = None
    partially_available_devices: int | None = None


class PoolStatus(Struct):
    allocated_devices: int | None = None
    available_devices: int | None = None
    driver: str = ""
    generation: int = 0
    node_name: str | None = None
    partition_summary: tuple[PartitionTypeStatus, ...] = ()
    pool_name: str = ""
    resource_slice_count: int | None = None
    shareable_summary: ShareableSummaryStatus | None = None
    total_devices: int | None = None
    unavailable_devices: int | None = None
    validation_error: str | None = None


class ResourcePoolStatusRequestStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    pool_count: int | None = None
    pools: tuple[PoolStatus, ...] = ()


class ResourcePoolStatusRequest(Object):
    spec: ResourcePoolStatusRequestSpec = field(default_factory=ResourcePoolStatusRequestSpec)
    status: ResourcePoolStatusRequestStatus | None = None
