"""Registration: single questions, and courses with real sockets and real gRPC."""

import asyncio
import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from dra_node_agent.kubelet.admission import Rejected, admit_allocated
from dra_node_agent.kubelet.devicemanager.plugin.server import SOCKET, RegistrationServer
from dra_node_agent.kubelet.devicemanager.types import Device, DeviceError, DevicePlugin
from dra_node_agent.kubelet.dra.wire import CallError
from dra_shared.api.container import Container, ResourceRequirements
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import Pod, PodSpec
from dra_shared.clock import SystemClock
from dra_shared.jsontypes import JsonObject

from dra_recordings.devicemanager import worlds
from dra_recordings.devicemanager.courses import capacity_json
from dra_recordings.devicemanager.stub import StubPlugin
from dra_recordings.devicemanager.worlds import World

_RESOURCE = "example.com/gpu"
_CODE, _DESC = "rpc error: code = ", " desc = "
# The speed of the kubelet's clock relative to real time, so that nothing waits for a dial's ten seconds.
_HASTE = 4
# If a stream ends during a list, the list never arrives. After this many seconds the current state counts.
_LONGEST_WAIT = 5.0


class _HastyClock(SystemClock):
    """The machine's time at a higher speed."""

    def monotonic(self) -> float:
        return super().monotonic() * _HASTE

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / _HASTE)

    def real(self, seconds: float) -> float:
        return super().real(seconds / _HASTE)


class _Handler:
    """Forwards to the current manager, and counts the lists."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.received = 0

    async def plugin_connected(self, resource: str, plugin: DevicePlugin) -> None:
        await self._world.manager.plugin_connected(resource, plugin)

    def plugin_disconnected(self, resource: str) -> None:
        self._world.manager.plugin_disconnected(resource)

    async def plugin_devices(self, resource: str, devices: Collection[Device]) -> None:
        await self._world.manager.plugin_devices(resource, devices)
        self.received += 1


async def register(given: JsonObject) -> JsonObject:
    """Run one registration over a real socket."""
    with worlds.directory() as parent:
        socket = parent / "device-plugins" / "p.sock"
        # Only a dial to a socket without a server takes its full ten seconds, so only that is sped up.
        clock = SystemClock() if given["endpoint"] == socket.name else _HastyClock()
        world = World(socket.parent, clock=clock)
        server = RegistrationServer(str(world.directory / SOCKET), world.manager, world.clock)
        await server.start()
        plugin = StubPlugin(given["resourceName"], socket)
        await plugin.start()
        try:
            await plugin.register(world.directory / SOCKET, given["version"], given["endpoint"])
        except CallError as error:
            return {"grpcErrorText": str(error), "grpcError": _grpc_error(error)}
        finally:
            await server.stop()
            await plugin.stop()
        return {"grpcErrorText": None}


def _grpc_error(error: CallError) -> JsonObject:
    return {"grpcCode": error.code, "message": str(error).removeprefix(f"{_CODE}{error.code}{_DESC}")}


async def validate_plugin(given: JsonObject) -> JsonObject:
    """Validate a plugin that the plugin watcher has found."""
    with worlds.directory() as directory:
        server = RegistrationServer(str(directory / SOCKET), World(directory).manager, _HastyClock())
        try:
            server.validate(given["pluginName"], "", given["versions"] or ())
        except DeviceError as error:
            return {"error": str(error)}
        return {"error": None}


async def socket_path(given: JsonObject) -> JsonObject:
    """Return the error for the path of the registration socket."""
    with worlds.directory() as directory:
        try:
            RegistrationServer(given["path"], World(directory).manager, _HastyClock())
        except DeviceError as error:
            return {"error": str(error)}
        return {"error": None}


async def admission(given: JsonObject) -> JsonObject:
    """Return the result of admission for a pod whose devices could not be allocated."""

    async def allocate(_pod: Pod, _container: Container) -> None:
        if given["allocateError"] is not None:
            raise DeviceError(given["allocateError"])

    try:
        await admit_allocated(Pod(spec=PodSpec(containers=(Container(name="c"),))), allocate)
    except Rejected as error:
        return {"admit": False, "reason": error.reason, "message": str(error)}
    return {"admit": True, "reason": "", "message": ""}


async def course(given: JsonObject) -> JsonObject:
    """Run a course of plugins that connect and disconnect, and of a kubelet that restarts."""
    with worlds.directory() as parent:
        running = _Course(parent / "device-plugins")
        await running.start()
        try:
            return {"steps": [await running.step(step) for step in given["steps"]]}
        finally:
            await running.stop()


class _Course:
    def __init__(self, directory: Path) -> None:
        self._world = World(directory, clock=_HastyClock())
        self._handler = _Handler(self._world)
        self._server = self._new_server()
        self._plugins: dict[str, StubPlugin] = {}

    async def start(self) -> None:
        """Start the kubelet's server in a directory that also contains other things."""
        await self._server.start()
        (self._world.directory / "regular-file").touch()
        (self._world.directory / "a-directory").mkdir()

    async def stop(self) -> None:
        """Stop everything."""
        await self._server.stop()
        for plugin in self._plugins.values():
            await plugin.stop()

    async def step(self, step: JsonObject) -> JsonObject:
        """Return the state after all effects of a step."""
        for plugin in self._plugins.values():
            plugin.calls.clear()
        found = await self._happen(step)
        await self._settle()
        state = self._world.manager.state
        return {
            **found,
            **await capacity_json(self._world.manager),
            "allDevices": {
                f"{resource}={id_}": device.health
                for resource, devices in state.all_devices.items()
                for id_, device in devices.items()
            },
            "callsToPlugins": {
                name: plugin.calls[:] for name, plugin in self._plugins.items() if plugin.calls
            },
        }

    async def _happen(self, step: JsonObject) -> JsonObject:
        operation = step["op"]
        if operation == "allocate":
            return await self._allocate(step)
        if operation == "stopManager":
            await self._server.stop()
            return {}
        if operation == "restartManager":
            return await self._restart()
        name, resource = step["plugin"], step.get("resource", _RESOURCE)
        if name not in self._plugins:
            self._plugins[name] = StubPlugin(resource, self._world.directory / f"{name}.sock")
        if operation == "serve":
            await self._plugins[name].stop()
            await self._plugins[name].start()
            return {}
        if operation.startswith("watcher"):
            return await self._watcher(operation, name, resource)
        return await self._plugin(operation, self._plugins[name], step)

    async def _plugin(self, operation: str, plugin: StubPlugin, step: JsonObject) -> JsonObject:
        if operation == "register":
            plugin.resource = step.get("resource", _RESOURCE)
            return await self._register(plugin)
        if operation == "optionsFail":
            plugin.options_error = "still starting"
        elif operation == "devices":
            plugin.update(worlds.devices(step["devices"]))
        elif operation in ("endStream", "failStream"):
            plugin.end_stream(failure=operation == "failStream")
        elif operation == "stopServer":
            await plugin.stop()
        else:
            raise ValueError(f"unknown step {operation!r}")
        return {}

    async def _register(self, plugin: StubPlugin) -> JsonObject:
        started = self._world.clock.monotonic()
        found: JsonObject = {}
        try:
            await plugin.register(self._world.directory / SOCKET)
        except CallError as error:
            found["grpcError"] = _grpc_error(error)
        return found | {"seconds": int(self._world.clock.monotonic() - started)}

    async def _watcher(self, operation: str, name: str, resource: str) -> JsonObject:
        socket = str(self._world.directory / f"{name}.sock")
        if operation == "watcherDeregister":
            await self._server.deregister(resource, socket)
            return {}
        try:
            self._server.validate(resource, socket, ["v1beta1"])
            await self._server.register(resource, socket, ["v1beta1"])
        except DeviceError as error:
            return {"error": str(error)}
        return {"error": None}

    async def _allocate(self, step: JsonObject) -> JsonObject:
        uid, resource = step["podUID"], step.get("resource", _RESOURCE)
        self._world.active[uid] = None
        limits = {resource: str(step["count"])}
        container = Container(name="c", resources=ResourceRequirements(limits=limits))
        pod = Pod(metadata=ObjectMeta(name=uid, uid=uid), spec=PodSpec(containers=(container,)))
        manager, error = self._world.manager, None
        try:
            await manager.allocate(pod, container)
        except DeviceError as problem:
            error = str(problem)
        held = manager.state.pod_devices.pod_devices(uid, resource)
        return {"error": error, "devices": len(held)}

    async def _restart(self) -> JsonObject:
        await self._server.stop()
        before = _names(self._world.directory)
        self._world.manager = self._world.new_manager()
        self._world.manager.start()
        self._server = self._new_server()
        await self._server.start()
        return {"namesBefore": before, "namesAfter": _names(self._world.directory)}

    def _new_server(self) -> RegistrationServer:
        return RegistrationServer(str(self._world.directory / SOCKET), self._handler, self._world.clock)

    async def _settle(self) -> None:
        """Wait until every list has arrived, and neither side has a stream that the other side lacks."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until_settled(), _LONGEST_WAIT)

    async def _until_settled(self) -> None:
        while not self._is_settled():  # noqa: ASYNC110 - what is waited for is in two libraries
            await asyncio.sleep(0.002)

    def _is_settled(self) -> bool:
        plugins = self._plugins.values()
        streams = sum(plugin.streams for plugin in plugins)
        waiting = any(plugin.waiting_lists and plugin.streams for plugin in plugins)
        sent = sum(plugin.sent for plugin in plugins)
        return streams == self._server.count_streams and not waiting and sent == self._handler.received


def _names(directory: Path) -> list[str]:
    return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in os.scandir(directory))
