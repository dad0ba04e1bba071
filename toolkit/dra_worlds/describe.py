"""A world from a description: a number of equal nodes with these GPUs, as ``dralab up`` would create them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
from dra_driverkit.errors import DriverConfigError
from dra_driverkit.resources import Pool
from dra_node_agent.drivers.base import DriverOptions
from dra_node_agent.drivers.catalog import default_drivers
from dra_node_agent.drivers.nvidia import DRIVER_NAME, computedomain, gates
from dra_node_agent.drivers.nvidia.announce import Announcer
from dra_node_agent.drivers.nvidia.computedomain.devices import resources as compute_domain_resources
from dra_node_agent.drivers.nvidia.computedomain.factory import ComputeDomainFactory
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary
from dra_node_agent.drivers.nvidia.factory import NvidiaFactory
from dra_node_agent.drivers.nvidia.options import NvidiaOptions
from dra_node_agent.drivers.nvidia.simulatedhost import SimulatedHost
from dra_node_agent.kubelet.node import NodeShape
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.purchase.recorded import own_uuid
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.node import Node, NodeSpec, NodeStatus
from dra_shared.api.resource import ResourcePool, ResourceSlice, ResourceSliceSpec
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from dra_shared.errors import UserError

_replace = msgspec.structs.replace


def describe_world(
    nodes: int, gpus: str, *, prefix: str = "node-", gpu_models: tuple[Path, ...] = ()
) -> Objects:
    """Return a world of equal nodes with these GPUs, and the device classes of their drivers.

    Raises:
        UserError: the GPUs are malformed.
    """
    names = [f"{prefix}{index}" for index in range(nodes)]
    kind = NodeKind(gpus, gpu_models)
    objects = Objects().with_objects((DEVICE_CLASSES, made) for made in kind.classes)
    objects = objects.with_objects((NODES, kind.node(name)) for name in names)
    return objects.with_objects((RESOURCE_SLICES, piece) for name in names for piece in kind.slices(name))


class NodeKind:
    """Nodes with the same GPUs, and the drivers that ``dralab up`` would run on them if none are named."""

    def __init__(
        self,
        gpus: str,
        gpu_models: tuple[Path, ...] = (),
        shape: NodeShape | None = None,
        drivers: tuple[str, ...] = (),
    ) -> None:
        self._shape = shape or NodeShape(name="")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            options = DriverOptions(driver_root=path, machines=path, gpus=gpus, gpu_models=gpu_models)
            try:
                factory = NvidiaFactory(options)
            except DriverConfigError as error:
                raise UserError(str(error), 2) from error
            self.classes = factory.device_classes()
            self._pools: dict[str, Pool] = {}
            system = factory.system("node")
            if system is None:
                raise UserError("a world cannot be made from this machine's GPUs: name a model", 2)
            own = NvidiaOptions.parse({})
            library = DeviceLibrary(SimulatedHost(system, path), own.gates)
            found = library.enumerate()
            partitioned = own.gates.is_enabled(gates.DYNAMIC_MIG) and library.has_mig_capable()
            announced = Announcer(own.gates, own.shares)
            (self._pools[DRIVER_NAME],) = announced.resources("node", found, {}, partitioned).pools.values()
            if computedomain.DRIVER_NAME in (drivers or default_drivers(options)):
                self.classes += ComputeDomainFactory(options).device_classes()
                domains = compute_domain_resources("node", host_managed=False)
                (self._pools[computedomain.DRIVER_NAME],) = domains.pools.values()

    def node(self, name: str) -> Node:
        """Return a node of this kind that is ready."""
        shape = self._shape
        amounts = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods}
        amounts["ephemeral-storage"] = shape.storage
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        return Node(
            metadata=ObjectMeta(name=name, uid=f"plan-node-{name}", labels=labels | dict(shape.labels)),
            spec=NodeSpec(taints=tuple(shape.taints)),
            status=NodeStatus(capacity=amounts, allocatable=amounts),
        )

    def slices(self, name: str) -> Iterator[ResourceSlice]:
        """Return the slices of the node. Each device has its own identity."""
        for driver, announced in self._pools.items():
            pool = ResourcePool(name=name, generation=1, resource_slice_count=len(announced.slices))
            for index, piece in enumerate(announced.slices):
                devices = tuple(
                    _replace(device, attributes=own_uuid(device.attributes, f"{name}-{device.name}"))
                    for device in piece.devices
                )
                yield ResourceSlice(
                    metadata=ObjectMeta(
                        name=f"{index:04}-{driver}-{name}", uid=f"plan-slice-{driver}-{name}-{index}"
                    ),
                    spec=ResourceSliceSpec(
                        driver=driver,
                        node_name=name,
                        pool=pool,
                        devices=devices,
                        shared_counters=piece.shared_counters,
                    ),
                )
