"""Allocated claims for tests of drivers."""

from typing import Any

from dra_driverkit.claims import ClaimRef
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceClaimStatus,
)


def claim(
    uid: str,
    *devices: str | DeviceRequestAllocationResult,
    driver: str = "gpu.nvidia.com",
    configs: tuple[DeviceAllocationConfiguration, ...] = (),
    pool: str = "node-0",
) -> ResourceClaim:
    """Return a claim in namespace ``ns`` with a request ``r0``, ``r1``, … for each device."""
    results = tuple(
        result(device, f"r{place}", driver=driver, pool=pool) if isinstance(device, str) else device
        for place, device in enumerate(devices)
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=f"claim-{uid}", namespace="ns", uid=uid),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=results, config=configs))
        ),
    )


def result(
    device: str, request: str = "r0", driver: str = "gpu.nvidia.com", pool: str = "node-0", **fields: Any
) -> DeviceRequestAllocationResult:
    """Return one device of an allocation."""
    return DeviceRequestAllocationResult(device=device, driver=driver, pool=pool, request=request, **fields)


def opaque(
    parameters: Any, *requests: str, source: str = "FromClaim", driver: str = "gpu.nvidia.com"
) -> DeviceAllocationConfiguration:
    """Return one configuration of an allocation."""
    return DeviceAllocationConfiguration(
        opaque=OpaqueDeviceConfiguration(driver=driver, parameters=parameters),
        requests=requests,
        source=source,
    )


def ref(of: ResourceClaim) -> ClaimRef:
    """Return the reference to the claim in the kubelet's calls."""
    return ClaimRef(of.metadata.namespace, of.metadata.name, of.metadata.uid)
