"""Selection of opaque configs for a claim's devices (cmd/compute-domain-kubelet-plugin/device_state.go)."""

from dra_driverkit.errors import PrepareError
from dra_driverkit.opaque import applies_to, configs_for
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim

from dra_node_agent.drivers.nvidia.checkpoint import PreparedClaim
from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME, devices
from dra_node_agent.drivers.nvidia.config import (
    ComputeDomainChannelConfig,
    ComputeDomainDaemonConfig,
    DomainConfig,
    decode_domain,
)

_KINDS: dict[type[DomainConfig], str] = {
    ComputeDomainChannelConfig: devices.CHANNEL,
    ComputeDomainDaemonConfig: devices.DAEMON,
}


class PermanentError(PrepareError):
    """The error is permanent, so the operation is not retried."""


def own_results(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    assert claim.status.allocation is not None
    return [result for result in claim.status.allocation.devices.results if result.driver == DRIVER_NAME]


def configs(claim: ResourceClaim) -> list[tuple[tuple[str, ...], DomainConfig]]:
    """Return the default configs, then those of the class, then those of the claim. Raises PrepareError."""
    assert claim.status.allocation is not None
    found: list[tuple[tuple[str, ...], DomainConfig]] = [
        ((), ComputeDomainDaemonConfig()),
        ((), ComputeDomainChannelConfig()),
    ]
    try:
        for requests, parameters in configs_for(DRIVER_NAME, claim.status.allocation.devices.config):
            try:
                found.append((requests, decode_domain(parameters)))
            except PrepareError as error:
                raise PermanentError(f"error decoding config parameters: {error}") from error
    except PrepareError as error:
        raise type(error)(f"error getting opaque device configs: {error}") from error
    return found


def choose(
    configs: list[tuple[tuple[str, ...], DomainConfig]], result: DeviceRequestAllocationResult, type_: str
) -> int:
    """Return the index of the config: the last one that names the request, or that names none and has this type."""
    for number in range(len(configs) - 1, -1, -1):
        requests, config = configs[number]
        fits = _KINDS[type(config)] == type_
        if requests and applies_to(requests, result.request):
            if not fits:
                raise PrepareError(f"cannot apply {type(config).__name__} to request: {result.request}")
            return number
        if not requests and fits:
            return number
    raise LookupError(result.request)


def channel_domains(prepared: PreparedClaim) -> list[str]:
    """Return the domains of the claim's channels, even if its preparation did not finish."""
    allocation = prepared.status.get("allocation") or {}
    found = []
    for config in (allocation.get("devices") or {}).get("config") or []:
        opaque = config.get("opaque") or {}
        parameters = opaque.get("parameters") or {}
        is_channel = parameters.get("kind") == ComputeDomainChannelConfig.__name__
        if opaque.get("driver") == DRIVER_NAME and is_channel and parameters.get("domainID"):
            found.append(str(parameters["domainID"]))
    return found
