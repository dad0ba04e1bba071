"""The drivers that a node can run: one entry for each, or a profile's file. All other modules find drivers here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dra_driverkit.errors import DriverConfigError
from dra_shared.api.resources import DEVICE_CLASSES
from dra_shared.client.errors import AlreadyExists
from dra_shared.client.rest import Client

from dra_node_agent.drivers.base import Driver, DriverOption, DriverOptions, Machines
from dra_node_agent.drivers.nvidia import DRIVER_NAME as NVIDIA
from dra_node_agent.drivers.nvidia import options as nvidia
from dra_node_agent.drivers.nvidia.computedomain import DRIVER_NAME as COMPUTE_DOMAINS
from dra_node_agent.drivers.nvidia.computedomain import factory as computedomain
from dra_node_agent.drivers.nvidia.computedomain import imex
from dra_node_agent.drivers.nvidia.factory import NvidiaFactory
from dra_node_agent.drivers.nvidia.machines import NvidiaMachines
from dra_node_agent.drivers.nvidia.plugin import PLUGIN_NAME as NVIDIA_PLUGIN
from dra_node_agent.drivers.nvidia.plugin import config as plugin
from dra_node_agent.drivers.nvidia.plugin.factory import NvidiaPluginFactory
from dra_node_agent.drivers.profile import known_profiles, load_profile
from dra_node_agent.drivers.profile.factory import ProfileFactory


def _no_values(_: Mapping[str, str]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class DriverEntry:
    """A driver in the catalog.

    Args:
        make: creates the driver from its options; raises DriverConfigError.
        options: the driver's options on the command line.
        from_environment: the options' values from the environment of the driver's container.
        machines: whether it only runs on nodes with its kind of machines.
    """

    make: Callable[[DriverOptions], Driver]
    options: Sequence[DriverOption] = ()
    from_environment: Callable[[Mapping[str, str]], Mapping[str, str]] = _no_values
    machines: bool = False


DRIVERS: Mapping[str, DriverEntry] = {
    NVIDIA: DriverEntry(NvidiaFactory, nvidia.OPTIONS, nvidia.from_environment, machines=True),
    COMPUTE_DOMAINS: DriverEntry(
        computedomain.ComputeDomainFactory,
        imex.OPTIONS,
        from_environment=computedomain.from_environment,
        machines=True,
    ),
    NVIDIA_PLUGIN: DriverEntry(NvidiaPluginFactory, plugin.OPTIONS, plugin.from_environment, machines=True),
}
# The driver that defines the simulated machines of nodes if all drivers are external.
_DEFAULT = NVIDIA


def driver_options() -> list[DriverOption]:
    """Return the options of all drivers."""
    return [option for entry in DRIVERS.values() for option in entry.options]


def option_values(name: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of the driver ``name`` from the environment of its container."""
    entry = DRIVERS.get(name)
    return {} if entry is None else entry.from_environment(environment)


def default_drivers(options: DriverOptions) -> tuple[str, ...]:
    """Return the default drivers of nodes: NVIDIA's for GPUs, and the one for compute domains in an NVLink rack.

    Raises:
        DriverConfigError: such machines cannot exist.
    """
    machines = DRIVERS[_DEFAULT].make(options)
    in_rack = isinstance(machines, NvidiaMachines) and machines.in_rack()
    return (_DEFAULT, COMPUTE_DOMAINS) if in_rack else (_DEFAULT,)


def find_driver(name: str, options: DriverOptions) -> Driver:
    """Return the driver ``name``, or the profile in the file at that path, which ``:variant`` may follow.

    Raises:
        DriverConfigError: it does not exist and the message lists the known ones, or its options are wrong.
    """
    if name in DRIVERS:
        return DRIVERS[name].make(options)
    profiles = known_profiles()
    base = name.partition(":")[0]
    if base in profiles or base.endswith((".yaml", ".yml")):
        return ProfileFactory(load_profile(name))
    known = ", ".join(sorted([*DRIVERS, *profiles]))
    raise DriverConfigError(f"unknown driver {name!r}, known drivers: {known} (or a profile's .yaml file)")


def find_machines(drivers: Sequence[Driver], options: DriverOptions) -> Machines | None:
    """Return the driver that defines the nodes' simulated machines. Without drivers, the default one is used.

    Raises:
        DriverConfigError: the options are wrong.
    """
    if not drivers:
        drivers = [find_driver(_DEFAULT, options)]
    return next((driver for driver in drivers if isinstance(driver, Machines)), None)


def needs_machines(name: str) -> bool:
    """True if the driver ``name`` can only run on its own kind of machines."""
    entry = DRIVERS.get(name)
    return entry is not None and entry.machines


async def ensure_device_classes(client: Client, drivers: list[Driver]) -> None:
    """Create the drivers' DeviceClasses that do not exist. Existing ones are not changed.

    Raises:
        ApiError: the API server rejects one.
    """
    for driver in drivers:
        for device_class in driver.device_classes():
            try:
                await client.create(DEVICE_CLASSES, device_class)
            except AlreadyExists:
                continue
