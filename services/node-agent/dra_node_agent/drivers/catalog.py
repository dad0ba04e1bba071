"""The drivers that a node can run: one entry each, or a profile's file. Everything else finds drivers here."""

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
        make: the driver with its options; raises DriverConfigError.
        options: those that the driver has on the command line.
        from_environment: the options' values from the environment of the driver's container.
        machines: whether it needs nodes with the machines that it is for.
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
#: Whose machines nodes have if all drivers are someone else's.
_DEFAULT = NVIDIA


def driver_options() -> list[DriverOption]:
    """The options of all drivers."""
    return [option for entry in DRIVERS.values() for option in entry.options]


def option_values(name: str, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The options of the driver called ``name`` from the environment of its container."""
    entry = DRIVERS.get(name)
    return {} if entry is None else entry.from_environment(environment)


def default_drivers(options: DriverOptions) -> tuple[str, ...]:
    """The drivers of nodes for which none is named: NVIDIA's for their GPUs, and the other for those in an NVLink rack.

    Raises:
        DriverConfigError: there can be no such machines.
    """
    machines = DRIVERS[_DEFAULT].make(options)
    in_rack = isinstance(machines, NvidiaMachines) and machines.in_rack()
    return (_DEFAULT, COMPUTE_DOMAINS) if in_rack else (_DEFAULT,)


def find_driver(name: str, options: DriverOptions) -> Driver:
    """The driver called ``name``, or the profile in the file of that path, perhaps followed by ``:variant``.

    Raises:
        DriverConfigError: there is none; the message lists what there is. Or its options are wrong.
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
    """What knows the nodes' machines: one of the drivers; where there are none, their own may come later.

    Raises:
        DriverConfigError: the options are wrong.
    """
    if not drivers:
        drivers = [find_driver(_DEFAULT, options)]
    return next((driver for driver in drivers if isinstance(driver, Machines)), None)


def needs_machines(name: str) -> bool:
    """Whether the driver called ``name`` runs only where its machines are."""
    entry = DRIVERS.get(name)
    return entry is not None and entry.machines


async def ensure_device_classes(client: Client, drivers: list[Driver]) -> None:
    """Create the drivers' DeviceClasses that do not exist; those that do stay as they are.

    Raises:
        ApiError: the API server rejects one.
    """
    for driver in drivers:
        for device_class in driver.device_classes():
            try:
                await client.create(DEVICE_CLASSES, device_class)
            except AlreadyExists:
                continue
