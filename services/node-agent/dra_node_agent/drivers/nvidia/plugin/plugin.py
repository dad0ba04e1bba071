"""The device plugin on a node: one server for each resource (internal/plugin/server.go)."""

import asyncio
import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from dra_driverkit.cdi import CdiDevice, DeviceNode, Mount, Spec, SpecError, qualified_name, write_spec
from dra_driverkit.errors import DriverConfigError, make_directory
from dra_shared.api.resource import DeviceTaint
from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_node_agent.drivers.deviceplugin import Allocation, AllocationError, DevicePluginServer, PluginDevice
from dra_node_agent.drivers.nvidia import edits, taints
from dra_node_agent.drivers.nvidia.containerruntime import (
    MOUNTS_ROOT,
    VARIABLE,
    all_devices,
    device_id,
    own_edits,
)
from dra_node_agent.drivers.nvidia.discovery import DeviceLibrary, DiscoveryError, PerGpu
from dra_node_agent.drivers.nvidia.health import HealthMonitor
from dra_node_agent.drivers.nvidia.plugin import PLUGIN_NAME
from dra_node_agent.drivers.nvidia.plugin.config import (
    CDI_ANNOTATIONS,
    CDI_CRI,
    ENVVAR,
    INDEX,
    VOLUME_MOUNTS,
    PluginConfig,
)
from dra_node_agent.drivers.nvidia.plugin.devicemap import Entry, device_map
from dra_node_agent.drivers.nvidia.plugin.preference import choose_preferred
from dra_node_agent.drivers.nvidia.taints import DeviceTaints

_VENDOR, _CLASS = "k8s.device-plugin.nvidia.com", "gpu"
_ANNOTATION = "cdi.k8s.io/nvidia-device-plugin_"

_log = logger(__name__)


class NvidiaResource:
    """One resource with its devices."""

    prefers = True

    def __init__(
        self, resource: str, entries: dict[str, Entry], config: PluginConfig, library: DeviceLibrary
    ) -> None:
        self.resource = resource
        self.socket = f"nvidia-{resource.partition('/')[2]}.sock"
        self.entries = entries
        self.unhealthy: set[str] = set()
        self._config = config
        self._library = library

    def devices(self) -> Sequence[PluginDevice]:
        return [
            PluginDevice(
                entry.id,
                entry.uuid not in self.unhealthy,
                (entry.gpu.numa_node,) if entry.gpu.numa_node >= 0 else (),
            )
            for entry in self.entries.values()
        ]

    def choose_preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        return choose_preferred(self.entries, available, required, size, self._config.policy)

    def allocate(self, ids: Sequence[str]) -> Allocation:
        self._validate(ids)
        chosen = [self.entries[id_] for id_ in ids]
        by_index = self._config.id_strategy == INDEX
        names = list(dict.fromkeys(entry.index if by_index else entry.uuid for entry in chosen))
        strategies = self._config.list_strategies
        cdi = [qualified_name(_VENDOR, _CLASS, name) for name in names] if self._config.cdi else []
        env: dict[str, str] = {}
        mounts: list[Mount] = []
        if ENVVAR in strategies:
            env[VARIABLE] = ",".join(names)
        if VOLUME_MOUNTS in strategies:
            env[VARIABLE] = MOUNTS_ROOT
            mounts = [Mount("/dev/null", f"{MOUNTS_ROOT}/{name}") for name in names]
        annotations = {f"{_ANNOTATION}{uuid.uuid4()}": ",".join(cdi)} if CDI_ANNOTATIONS in strategies else {}
        nodes = self._nodes(chosen) if self._config.pass_device_specs and (env or mounts) else []
        env |= self._config.environment
        return Allocation(env, mounts, nodes, annotations, cdi if CDI_CRI in strategies else ())

    def _validate(self, ids: Sequence[str]) -> None:
        invalid = f'invalid allocation request for "{self.resource}": invalid request: '
        for id_ in ids:
            if id_ not in self.entries:
                raise AllocationError(f"{invalid}unknown device: {id_}")
        replicas = any("::" in id_ for id_ in ids)
        if replicas and len(ids) > 1 and self._config.one_replica_at_most:
            raise AllocationError(
                f"{invalid}maximum request size for shared resources is 1; found {len(ids)}"
            )

    def _nodes(self, chosen: Sequence[Entry]) -> list[DeviceNode]:
        host = self._library.host
        paths = [node.path for node in host.control_nodes()]
        for entry in chosen:
            paths += [node.path for node in own_edits(self._library, entry.device).device_nodes]
        return [DeviceNode(path, permissions="rw") for path in dict.fromkeys(paths)]


class NvidiaPlugins:
    """All resources of a node: an ``async with`` object.

    Raises (on entering):
        DriverConfigError: the node's GPUs do not match the configuration, such as the MIG strategy.
    """

    def __init__(
        self,
        library: DeviceLibrary,
        node_name: str,
        kubelet_root: Path,
        cdi_directory: Path,
        clock: Clock,
        config: PluginConfig,
    ) -> None:
        self._library = library
        self._node = node_name
        self._root = kubelet_root
        self._cdi = cdi_directory
        self._clock = clock
        self._config = config
        self._directory = kubelet_root / "plugins" / PLUGIN_NAME
        self._taints = DeviceTaints(self._directory / taints.FILE_NAME)
        self._monitor = HealthMonitor(library.host.nvml, clock, related=True)
        self._watching: asyncio.Task[None] | None = None
        self._stack = contextlib.AsyncExitStack()
        self.resources: list[NvidiaResource] = []
        self.servers: list[DevicePluginServer] = []

    async def __aenter__(self) -> Self:
        make_directory(f"driver {PLUGIN_NAME}", self._directory)
        try:
            found = device_map(self._library, self._config)
            if self._config.cdi:
                self._write_spec()
        except (DiscoveryError, DriverConfigError, SpecError, OSError) as error:
            raise DriverConfigError(f"driver {PLUGIN_NAME} on node {self._node}: {error}") from error
        self._taints.open(self._library.host.nvml.boot_id())
        self.resources = [
            NvidiaResource(name, entries, self._config, self._library)
            for name, entries in sorted(found.items())
        ]
        for name, known in self._taints.by_device.items():
            for taint in known:
                self._mark([name], taint)
        for resource in self.resources:
            server = DevicePluginServer(resource, self._root, self._clock)
            self.servers.append(await self._stack.enter_async_context(server))
        self._monitor.watch(self._watched_devices())
        self._watching = asyncio.create_task(self._watch(), name=f"health of {self._node}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._monitor.close()
        await self._stack.aclose()

    async def wait_until_published(self) -> None:
        """Wait until the kubelet has registered all resources."""
        for server in self.servers:
            await server.registered.wait()

    async def _watch(self) -> None:
        async for names, taint in self._monitor.events():
            if self._taints.add(names, taint) and self._mark(names, taint):
                _log.warning("devices are unhealthy", devices=names, taint=taint.key, value=taint.value)
                for server in self.servers:
                    await server.notify_change()

    def _mark(self, names: Sequence[str], taint: DeviceTaint) -> bool:
        """Mark devices with a relevant XID, or that are lost, as unhealthy until the machine reboots."""
        harmless = taint.key == taints.XID and self._config.is_ignored(int(taint.value or 0))
        if harmless or taint.key.endswith("/unmonitored"):
            return False
        for resource in self.resources:
            resource.unhealthy |= {e.uuid for e in resource.entries.values() if e.device.name in names}
        return True

    def _watched_devices(self) -> PerGpu:
        """Return the published devices, with replicas only once."""
        watched: PerGpu = {}
        for resource in self.resources:
            for entry in resource.entries.values():
                watched.setdefault(entry.gpu.pci_bus_id, {})[entry.device.name] = entry.device
        return watched

    def _write_spec(self) -> None:
        """Write the CDI file for all devices of the node, by UUID or index."""
        by_index = self._config.id_strategy == INDEX
        devices = tuple(
            CdiDevice(
                index if by_index else device_id(device), container_edits=own_edits(self._library, device)
            )
            for index, device in all_devices(self._library)
        )
        if devices:
            common = edits.common_edits(self._library.host, self._library.driver_version())
            spec = Spec(f"{_VENDOR}/{_CLASS}", devices, container_edits=common)
            write_spec(self._cdi, f"{_VENDOR}-{_CLASS}", spec)
