"""Selection of the opaque configuration for each device of a claim (cmd/gpu-kubelet-plugin/device_state.go)."""

from dra_driverkit.errors import PrepareError
from dra_driverkit.opaque import applies_to, configs_for
from dra_shared.api.resource import DeviceRequestAllocationResult, ResourceClaim

from dra_node_agent.drivers.nvidia import DRIVER_NAME, config
from dra_node_agent.drivers.nvidia.config import DeviceConfig, GpuConfig, MigDeviceConfig, VfioDeviceConfig
from dra_node_agent.drivers.nvidia.devices import Allocatable, Gpu, MigDevice, VfioGpu, device_type
from dra_node_agent.drivers.nvidia.gates import NvidiaGates

Config = tuple[tuple[str, ...], DeviceConfig]
"""The requests that a configuration applies to, empty for all of them, and the configuration."""


def results(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    """Return the claim's allocated devices of this driver."""
    allocation = claim.status.allocation
    return [r for r in allocation.devices.results if r.driver == DRIVER_NAME] if allocation else []


def configs(claim: ResourceClaim, gates: NvidiaGates) -> list[Config]:
    """Return the defaults, followed by the configurations of the claim and its classes.

    Raises:
        PrepareError: one of them is malformed.
    """
    assert claim.status.allocation is not None
    found: list[Config] = [((), c) for c in config.defaults(gates)]
    try:
        for requests, parameters in configs_for(DRIVER_NAME, claim.status.allocation.devices.config):
            try:
                found.append((requests, config.decode(parameters)))
            except PrepareError as error:
                raise PrepareError(f"error decoding config parameters: {error}") from error
    except PrepareError as error:
        raise PrepareError(f"error getting opaque device configs: {error}") from error
    return found


def choose(
    configs: list[Config],
    result: DeviceRequestAllocationResult,
    device: Allocatable,
) -> int:
    """Return the index of the config: the last one that names the request, or that names none and fits the device.

    Raises:
        PrepareError: no config applies, or the config that names the request is for another type of device.
    """
    for number in range(len(configs) - 1, -1, -1):
        requests, candidate = configs[number]
        fits = (
            (isinstance(candidate, GpuConfig) and isinstance(device, Gpu))
            or (isinstance(candidate, MigDeviceConfig) and isinstance(device, MigDevice))
            or (isinstance(candidate, VfioDeviceConfig) and isinstance(device, VfioGpu))
        )
        if requests and applies_to(requests, result.request):
            if not fits:
                raise PrepareError(
                    f'cannot apply {type(candidate).__name__} to device "{result.device}" of type '
                    f'"{device_type(device)}" (request: {result.request})'
                )
            return number
        if not requests and fits:
            return number
    raise PrepareError(f'no config applies to device "{result.device}" of type "{device_type(device)}"')


def check(chosen: DeviceConfig, gates: NvidiaGates) -> DeviceConfig:
    """Return the configuration with its defaults.

    Raises:
        PrepareError: it is not valid.
    """
    chosen = config.normalize(chosen, gates)
    try:
        config.validate(chosen, gates)
    except PrepareError as error:
        raise PrepareError(f"error validating GPU config: {error}") from error
    return chosen


def config_of(
    claim: ResourceClaim, name: str, device: Allocatable, gates: NvidiaGates
) -> DeviceConfig | None:
    """Return the configuration of the device `name`, or None if the claim does not have the device."""
    every = configs(claim, gates)
    for result in results(claim):
        if result.device == name:
            return check(every[choose(every, result, device)][1], gates)
    return None
