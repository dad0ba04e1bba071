"""A world from a description: nodes with these GPUs and drivers, as ``dralab up`` would create them."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.resources import Pool as DriverPool
from dra_node_agent.drivers.base import DriverOptions
from dra_node_agent.drivers.catalog import DRIVERS, default_drivers
from dra_node_agent.drivers.nvidia import DRIVER_NAME, computedomain, gates
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.computedomain.devices import resources as compute_domain_resources
from dra_node_agent.drivers.nvidia.computedomain.factory import ComputeDomainFactory
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.factory import NvidiaFactory
from dra_node_agent.drivers.nvidia.options import NvidiaOptions
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.drivers.profile import load_profile
from dra_node_agent.drivers.profile.devices import cluster_resources, resources
from dra_node_agent.drivers.profile.factory import ProfileFactory
from dra_node_agent.drivers.profile.model import Profile
from dra_node_agent.drivers.profile.versions import of_version
from dra_node_agent.kubelet.node import NodeShape
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.prices import PRICE_LABEL
from dra_scheduler.plan.purchase.recorded import own_uuid
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.node import Node, NodeSpec, NodeStatus, Taint
from dra_shared.api.resource import DeviceClass, ResourcePool, ResourceSlice, ResourceSliceSpec
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from dra_shared.errors import UserError
from dra_shared.version import DEFAULT

from dra_worlds.fleet import ZONE_LABEL, Pool

_replace = msgspec.structs.replace


def describe_world(
    nodes: int, gpus: str, *, prefix: str = "node-", gpu_models: tuple[Path, ...] = ()
) -> Objects:
    """Return a world of equal nodes with these GPUs, and the device classes of their drivers.

    Raises:
        UserError: the GPUs are malformed.
    """
    names = tuple(f"{prefix}{index}" for index in range(nodes))
    return describe_pools([Pool(name="node", gpus=gpus, names=names)] if names else [], gpu_models)


def describe_pools(
    pools: Sequence[Pool], gpu_models: tuple[Path, ...] = (), values: Mapping[str, str] | None = None
) -> Objects:
    """Return a world of the nodes in these pools. ``values`` are the options of drivers.

    Raises:
        UserError: a pool has malformed GPUs, or a driver that cannot be described.
    """
    objects = Objects()
    for pool in pools:
        kind = NodeKind(pool.gpus, gpu_models, shape_of(pool), pool.drivers, values)
        objects = objects.with_objects((DEVICE_CLASSES, made) for made in kind.classes)
        objects = objects.with_objects((NODES, kind.node(name)) for name in pool.nodes)
        objects = objects.with_objects(
            (RESOURCE_SLICES, piece) for name in pool.nodes for piece in kind.slices(name)
        )
        objects = objects.with_objects((RESOURCE_SLICES, piece) for piece in kind.shared_slices())
    return objects


def shape_of(pool: Pool) -> NodeShape:
    """Return the properties of a pool's nodes."""
    labels = {**({ZONE_LABEL: pool.zone} if pool.zone else {}), **pool.labels}
    if pool.price is not None:
        labels[PRICE_LABEL] = f"{pool.price:g}"
    return NodeShape(
        name="", cpu=pool.cpu, memory=pool.memory, labels=labels, taints=tuple(map(_taint, pool.taints))
    )


def _taint(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key=key, value=value, effect=effect)


class NodeKind:
    """Nodes with the same GPUs and drivers: those named, or the ones that ``dralab up`` would run on them.

    Raises:
        UserError: the GPUs are malformed, a driver is unknown, or its devices cannot be described.
    """

    def __init__(
        self,
        gpus: str,
        gpu_models: tuple[Path, ...] = (),
        shape: NodeShape | None = None,
        drivers: tuple[str, ...] = (),
        values: Mapping[str, str] | None = None,
    ) -> None:
        self._shape = shape or NodeShape(name="")
        self.classes: list[DeviceClass] = []
        self._pools: dict[str, DriverPool] = {}
        self._profiles: list[Profile] = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            options = DriverOptions(
                driver_root=path, machines=path, gpus=gpus, gpu_models=gpu_models, values=values or {}
            )
            try:
                for name in drivers or default_drivers(options):
                    self._add_driver(name, options)
            except DriverConfigError as error:
                raise UserError(str(error), 2) from error

    def _add_driver(self, name: str, options: DriverOptions) -> None:
        if name == DRIVER_NAME:
            self._add_nvidia(options)
        elif name == computedomain.DRIVER_NAME:
            self.classes += ComputeDomainFactory(options).device_classes()
            domains = compute_domain_resources("node", host_managed=False)
            (self._pools[name],) = domains.pools.values()
        elif name != "none":
            if name in DRIVERS:
                raise UserError(
                    f"the devices of {name} depend on the node: read them from a dump of such a node", 2
                )
            profile = load_profile(name)
            self.classes += ProfileFactory(profile).device_classes()
            self._profiles.append(of_version(profile, DEFAULT))

    def _add_nvidia(self, options: DriverOptions) -> None:
        factory = NvidiaFactory(options)
        system = factory.system("node")
        if system is None:
            raise UserError("the host's GPUs cannot be used for a described world: name a GPU model", 2)
        own = NvidiaOptions.parse(options.values)
        library = DeviceLibrary(SimulatedHost(system, options.driver_root), own.gates)
        found = library.enumerate()
        partitioned = own.gates.is_enabled(gates.DYNAMIC_MIG) and library.has_mig_capable()
        announced = Announcer(own.gates, own.shares).resources("node", found, {}, partitioned)
        (self._pools[DRIVER_NAME],) = announced.pools.values()
        self.classes += factory.device_classes()

    def node(self, name: str) -> Node:
        """Return a node of this kind that is ready."""
        shape = self._shape
        amounts = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods}
        amounts |= {"ephemeral-storage": shape.storage, "hugepages-1Gi": "0", "hugepages-2Mi": "0"}
        for profile in self._profiles:
            if profile.device_plugin is not None:
                devices = resources(profile, name).pools[name].slices
                amounts[profile.device_plugin.resource_name] = str(sum(len(each.devices) for each in devices))
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        return Node(
            metadata=ObjectMeta(name=name, uid=f"plan-node-{name}", labels=labels | dict(shape.labels)),
            spec=NodeSpec(taints=tuple(shape.taints)),
            status=NodeStatus(capacity=amounts, allocatable=amounts),
        )

    def slices(self, name: str) -> Iterator[ResourceSlice]:
        """Return the slices of the node. Each device has its own identity."""
        for driver, announced in self._pools.items():
            for piece in _slices(driver, name, name, announced):
                devices = tuple(
                    _replace(device, attributes=own_uuid(device.attributes, f"{name}-{device.name}"))
                    for device in piece.spec.devices
                )
                yield _replace(piece, spec=_replace(piece.spec, devices=devices))
        for profile in self._profiles:
            if profile.device_plugin is None:
                for pool, content in resources(profile, name).pools.items():
                    yield from _slices(profile.driver, pool, name, content)

    def shared_slices(self) -> Iterator[ResourceSlice]:
        """Return the slices of pools that belong to no node."""
        for profile in self._profiles:
            for pool, content in cluster_resources(profile).pools.items():
                yield from _slices(profile.driver, pool, "", content)


def _slices(driver: str, pool: str, node: str, content: DriverPool) -> Iterator[ResourceSlice]:
    announced = ResourcePool(name=pool, generation=1, resource_slice_count=len(content.slices))
    for index, piece in enumerate(content.slices):
        yield ResourceSlice(
            metadata=ObjectMeta(
                name=f"{index:04}-{driver}-{pool}", uid=f"plan-slice-{driver}-{pool}-{index}"
            ),
            spec=ResourceSliceSpec(
                driver=driver,
                node_name=node if content.of_one_node else None,
                node_selector=content.node_selector,
                all_nodes=content.all_nodes or None,
                pool=announced,
                devices=piece.devices,
                shared_counters=piece.shared_counters,
                partition_type_attribute=piece.partition_type_attribute,
                skip_node_operations=piece.skip_node_operations,
            ),
        )
