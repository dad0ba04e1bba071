"""Whole pods through admission, start and restarts of the kubelet."""

from collections.abc import Sequence

from dra_node_agent.kubelet.devicemanager.checkpoint import CHECKPOINT_FILE, CheckpointError
from dra_node_agent.kubelet.devicemanager.types import DeviceError, PluginOptions
from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.jsontypes import JsonObject

from dra_recordings.devicemanager import worlds
from dra_recordings.devicemanager.courses import capacity_json
from dra_recordings.devicemanager.worlds import RecordedPlugin, World


async def pods(given: JsonObject) -> JsonObject:
    """Run pods through Allocate as admission does."""
    with worlds.directory() as directory:
        world = World(directory, worlds.affinities(given["pods"]))
        plugins = [await _connect(world, resource) for resource in given["resources"]]
        course = _Pods(world, given["pods"], plugins)
        return {"steps": [await course.step(step) for step in given["steps"]]}


async def restart(given: JsonObject) -> JsonObject:
    """Restart the kubelet during pods' lives."""
    with worlds.directory() as directory:
        world = World(directory, worlds.affinities(given["pods"]))
        options = PluginOptions(get_preferred_allocation_available=True)
        plugin = RecordedPlugin(given["resource"], options)
        course = _Restarts(world, given["pods"], [plugin])
        return {"steps": [await course.step(step) for step in given["steps"]]}


async def _connect(world: World, resource: JsonObject) -> RecordedPlugin:
    plugin = RecordedPlugin(
        resource["name"],
        PluginOptions(
            bool(resource.get("preStartRequired")), bool(resource["getPreferredAllocationAvailable"])
        ),
        preferred=resource["preferredAnswer"],
        allocate_failure=resource.get("allocateFailure") or "",
        pre_start_fails=bool(resource.get("preStartFails")),
        known=[raw["id"] for raw in resource["devices"]],
    )
    await world.manager.plugin_connected(resource["name"], plugin)
    await world.manager.plugin_devices(resource["name"], worlds.devices(resource["devices"]))
    if resource.get("endpointMissing"):
        del world.manager.state.endpoints[resource["name"]]
    return plugin


class _Pods:
    """Pods that are created, started and deleted."""

    def __init__(self, world: World, raw: Sequence[JsonObject], plugins: Sequence[RecordedPlugin]) -> None:
        self.world = world
        self.pods = {one["uid"]: worlds.pod(one) for one in raw}
        self.plugins = plugins

    async def step(self, step: JsonObject) -> JsonObject:
        """Return the events of one step."""
        found = await self.happen(step)
        return {**found, **worlds.state_json(self.world.manager)}

    async def happen(self, step: JsonObject) -> JsonObject:
        """Perform the step."""
        operation = step["op"]
        if operation == "admit":
            return {"containers": await self._admit(self.pods[step["pod"]])}
        if operation == "start":
            pod = self.pods[step["pod"]]
            return {"containers": [await self._start(pod, container) for container in _containers(pod)]}
        if operation == "remove":
            self.world.active.pop(step["pod"], None)
        elif operation == "updateAllocatedDevices":
            self.world.manager.update_allocated_devices()
        else:
            raise ValueError(f"unknown step {operation!r}")
        return {}

    async def _admit(self, pod: Pod) -> list[JsonObject]:
        uid, manager = pod.metadata.uid, self.world.manager
        self.world.active[uid] = None
        found: list[JsonObject] = []
        for container in _containers(pod):
            error = None
            try:
                await manager.allocate(pod, container)
            except DeviceError as problem:
                error = str(problem)
            reusable = worlds.sets_json(manager.state.reusable.get(uid, {}))
            found.append(
                {
                    "container": container.name,
                    "calls": self._calls(),
                    "error": error,
                    "reusableAfter": reusable,
                }
            )
            if error is not None:
                del self.world.active[uid]
                break
        return found

    async def _start(self, pod: Pod, container: Container) -> JsonObject:
        manager, error, options = self.world.manager, None, None
        try:
            options = await manager.run_container_options(pod, container)
        except DeviceError as problem:
            error = str(problem)
        return {
            "container": container.name,
            "calls": self._calls(),
            "error": error,
            "options": worlds.options_json(options),
            "getDevices": worlds.instances_json(manager.get_devices(pod.metadata.uid, container.name)),
        }

    def _calls(self) -> list[JsonObject]:
        calls = [call for plugin in self.plugins for call in plugin.calls]
        for plugin in self.plugins:
            plugin.calls.clear()
        return calls


class _Restarts(_Pods):
    """Pods of a kubelet that restarts, with one plugin."""

    async def happen(self, step: JsonObject) -> JsonObject:
        operation, (plugin,) = step["op"], self.plugins
        if operation == "connect":
            await self.world.manager.plugin_connected(plugin.resource, plugin)
            return {"error": None}
        if operation == "devices":
            await self.world.manager.plugin_devices(plugin.resource, worlds.devices(step["devices"]))
            return {}
        if operation == "getCapacity":
            return await capacity_json(self.world.manager)
        if operation == "sourcesReady":
            self.world.sources_ready = True
            return {}
        if operation == "restart":
            return self._restart(step)
        found = await super().happen(step)
        for container in found.get("containers", ()):
            container.pop("getDevices", None)
        return found

    def _restart(self, step: JsonObject) -> JsonObject:
        world = self.world
        if step["removeCheckpoint"]:
            (world.directory / CHECKPOINT_FILE).unlink(missing_ok=True)
        running = frozenset(tuple(name.split("/", 1)) for name in step["containersRunning"])
        world.sources_ready = False
        world.active.clear()
        world.manager = world.new_manager()
        try:
            world.manager.start(running)
        except CheckpointError as error:
            return {"readError": str(error)}
        return {"readError": None}


def _containers(pod: Pod) -> list[Container]:
    return [*pod.spec.init_containers, *pod.spec.containers]
