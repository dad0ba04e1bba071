"""Worlds of recorded cases: devices, pods, plugins with recorded answers, and a manager in its own directory."""

import contextlib
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_node_agent.kubelet.devicemanager.manager import DeviceManager, Instances, Surroundings
from dra_node_agent.kubelet.devicemanager.poddevices import Allocation
from dra_node_agent.kubelet.devicemanager.types import (
    Device,
    DeviceError,
    DeviceRunContainerOptions,
    PluginOptions,
)
from dra_shared.api.container import Container, ResourceRequirements
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.pod import (
    ContainerExtendedResourceRequest,
    Pod,
    PodExtendedResourceClaimStatus,
    PodSpec,
    PodStatus,
)
from dra_shared.clock import Clock, FakeClock
from dra_shared.jsontypes import JsonObject


def device(raw: JsonObject) -> Device:
    """Decode a device of a case."""
    nodes = raw["numaNodes"]
    return Device(raw["id"], raw["health"], None if nodes is None else tuple(nodes))


def devices(raw: Iterable[JsonObject]) -> list[Device]:
    """Decode devices of a case."""
    return [device(one) for one in raw]


def pod(raw: JsonObject) -> Pod:
    """Decode a pod of a case."""
    mappings = tuple(
        ContainerExtendedResourceRequest(container_name=one["name"], resource_name=resource, request_name="r")
        for one in raw["containers"]
        for resource in one.get("resourcesServedByDRA") or ()
    )
    status = PodStatus()
    if mappings:
        claim = PodExtendedResourceClaimStatus(resource_claim_name="claim", request_mappings=mappings)
        status = PodStatus(extended_resource_claim_status=claim)
    return Pod(
        metadata=ObjectMeta(name=raw["uid"], uid=raw["uid"]),
        spec=PodSpec(
            init_containers=tuple(_container(one) for one in raw["containers"] if one.get("init")),
            containers=tuple(_container(one) for one in raw["containers"] if not one.get("init")),
        ),
        status=status,
    )


def _container(raw: JsonObject) -> Container:
    limits = {resource: str(number) for resource, number in (raw.get("limits") or {}).items()}
    return Container(
        name=raw["name"],
        restart_policy="Always" if raw.get("restartable") else "",
        resources=ResourceRequirements(limits=limits),
    )


def affinities(pods: Iterable[JsonObject]) -> Callable[[str, str], Collection[int] | None]:
    """Return a function for the NUMA affinity of each container."""
    known = {
        (one["uid"], container["name"]): container.get("affinityHint")
        for one in pods
        for container in one["containers"]
    }
    return lambda pod_uid, container: known.get((pod_uid, container))


def response(raw: JsonObject | None) -> pb.ContainerAllocateResponse:
    """Decode a plugin's answer for a container."""
    raw = raw or {}
    return pb.ContainerAllocateResponse(
        envs=raw.get("envs") or {},
        mounts=[
            pb.Mount(
                container_path=one["containerPath"], host_path=one["hostPath"], read_only=one["readOnly"]
            )
            for one in raw.get("mounts") or ()
        ],
        devices=[
            pb.DeviceSpec(
                container_path=one["containerPath"],
                host_path=one["hostPath"],
                permissions=one["permissions"],
            )
            for one in raw.get("devices") or ()
        ],
        annotations=raw.get("annotations") or {},
        cdi_devices=[pb.CDIDevice(name=name) for name in raw.get("cdiDevices") or ()],
    )


def response_json(message: pb.ContainerAllocateResponse) -> JsonObject:
    """Encode a plugin's answer for a container in the form of cases."""
    return {
        "envs": dict(message.envs),
        "mounts": [
            {"containerPath": one.container_path, "hostPath": one.host_path, "readOnly": one.read_only}
            for one in message.mounts
        ],
        "devices": [
            {
                "containerPath": one.container_path,
                "hostPath": one.host_path,
                "permissions": one.permissions,
            }
            for one in message.devices
        ],
        "annotations": dict(message.annotations),
        "cdiDevices": [one.name for one in message.cdi_devices],
    }


def options_json(options: DeviceRunContainerOptions | None) -> JsonObject | None:
    """Encode the options of a container in the form of cases."""
    if options is None:
        return None
    return {
        "envs": [{"name": name, "value": value} for name, value in sorted(options.envs.items())],
        "mounts": [
            {
                "name": one.container_path,
                "containerPath": one.container_path,
                "hostPath": one.host_path,
                "readOnly": one.read_only,
                "selinuxRelabel": False,
            }
            for one in options.mounts.values()
        ],
        "devices": [
            {
                "pathInContainer": one.path_in_container,
                "pathOnHost": one.path_on_host,
                "permissions": one.permissions,
            }
            for one in options.devices.values()
        ],
        "annotations": [
            {"name": name, "value": value} for name, value in sorted(options.annotations.items())
        ],
        "cdiDevices": list(options.cdi_devices),
    }


def instances_json(found: Instances | None) -> JsonObject | None:
    """Encode devices by resource and id in the form of cases."""
    if found is None:
        return None
    return {
        resource: {
            id_: {
                "id": one.id,
                "health": one.health,
                "numaNodes": None if one.numa_nodes is None else list(one.numa_nodes),
            }
            for id_, one in devices.items()
        }
        for resource, devices in found.items()
    }


def sets_json(sets: Mapping[str, Collection[str]]) -> JsonObject:
    """Encode ids by resource."""
    return {resource: sorted(ids) for resource, ids in sets.items()}


def state_json(manager: DeviceManager) -> JsonObject:
    """Encode the holders of devices."""
    held = [
        {
            "podUID": pod_uid,
            "container": container,
            "resource": resource,
            "deviceIDsPerNUMANode": {str(node): sorted(ids) for node, ids in allocation.device_ids.items()},
            "response": response_json(allocation.response),
        }
        for pod_uid, container, resource, allocation in manager.state.pod_devices
    ]
    return {"podDevices": held, "allocatedDevices": sets_json(manager.state.allocated)}


def hold(manager: DeviceManager, raw: JsonObject) -> None:
    """Record that a container holds devices, without writing anything."""
    by_node = raw.get("deviceIDsPerNUMANode")
    if by_node is None:
        by_node = {"-1": raw["deviceIDs"]}
    allocation = Allocation(
        {int(node): tuple(ids) for node, ids in by_node.items()}, response(raw.get("response"))
    )
    state = manager.state
    state.pod_devices.insert(raw["podUID"], raw.get("container", "c"), raw["resource"], allocation)
    state.allocated.setdefault(raw["resource"], set()).update(allocation.devices)


def plugin_response(resource: str, ids: Iterable[str]) -> pb.ContainerAllocateResponse:
    """Return the answer of the recorded worlds' plugins to Allocate."""
    chosen, name = sorted(ids), resource.rpartition("/")[2]
    paths = [f"/dev/{name}{id_}" for id_ in chosen]
    return pb.ContainerAllocateResponse(
        envs={f"{name.upper()}_IDS": ",".join(chosen), "SHARED": "yes"},
        mounts=[
            pb.Mount(container_path=f"/opt/{name}", host_path=f"/host/opt/{name}", read_only=True),
            pb.Mount(container_path="/common", host_path="/host/common"),
        ],
        devices=[
            pb.DeviceSpec(container_path="/dev/ctl", host_path="/dev/ctl", permissions="rw"),
            *(pb.DeviceSpec(container_path=path, host_path=path, permissions="mrw") for path in paths),
        ],
        annotations={resource: ",".join(chosen)},
        cdi_devices=[pb.CDIDevice(name=f"{resource}={id_}") for id_ in chosen],
    )


def preferred_answer(
    kind: str, available: Sequence[str], must: Sequence[str], size: int, known: Collection[str]
) -> list[list[str]]:
    """Return the answer of the recorded worlds' plugins to GetPreferredAllocation, one list for each container."""
    others = [id_ for id_ in available if id_ not in must]
    missing = max(size - len(must), 0)
    answers: dict[str, list[list[str]]] = {
        "sortedFirst": [[*must, *others[:missing]]],
        "sortedLast": [[*must, *others[len(others) - missing :]]],
        "short": [[*must, *others[: max(missing - 1, 0)]]],
        "emptyList": [[]],
        "noContainerResponses": [],
        "unavailable": [sorted(set(known) - set(available))],
        "unknown": [["no-such-device", "dev-99"]],
        "all": [list(available)],
        "onlyMust": [list(must)],
        "twoContainers": [list(available[-1:]), list(available[:1])],
    }
    return answers[kind]


@dataclass
class RecordedPlugin:
    """A plugin of a recorded world. ``calls`` are the received calls."""

    resource: str
    options: PluginOptions = field(default_factory=PluginOptions)
    preferred: str = "sortedFirst"
    allocate_failure: str = ""
    pre_start_fails: bool = False
    known: Collection[str] = ()
    calls: list[JsonObject] = field(default_factory=list)

    async def get_options(self) -> PluginOptions:
        return self.options

    async def get_preferred_allocation(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> Sequence[Sequence[str]]:
        request = {
            "availableDeviceIDs": sorted(available),
            "mustIncludeDeviceIDs": sorted(must_include),
            "allocationSize": size,
        }
        call = self._record_call("GetPreferredAllocation", containerRequests=[request])
        if self.preferred == "error":
            raise _record_failure(call, "Internal", "no preference today")
        found = preferred_answer(self.preferred, sorted(available), sorted(must_include), size, self.known)
        call["containerResponses"] = [{"deviceIDs": ids} for ids in found]
        return found

    async def allocate(self, devices: Collection[str]) -> Sequence[pb.ContainerAllocateResponse]:
        call = self._record_call("Allocate", containerRequests=[{"devicesIDs": sorted(devices)}])
        if self.allocate_failure == "error":
            raise _record_failure(call, "Unknown", "the device is on fire")
        found = [] if self.allocate_failure else [plugin_response(self.resource, devices)]
        call["containerResponses"] = [response_json(one) for one in found]
        return found

    async def pre_start_container(self, devices: Collection[str]) -> None:
        call = self._record_call("PreStartContainer", devicesIDs=sorted(devices))
        if self.pre_start_fails:
            raise _record_failure(call, "FailedPrecondition", "not ready")

    def _record_call(self, method: str, **request: Any) -> JsonObject:
        call = {"resource": self.resource, "method": method, **request}
        self.calls.append(call)
        return call


def _record_failure(call: JsonObject, code: str, message: str) -> DeviceError:
    call["error"] = {"grpcCode": code, "message": message}
    return DeviceError(f"rpc error: code = {code} desc = {message}")


@dataclass
class World:
    """A manager and the kubelet's state that it reads. Both may change during a course."""

    directory: Path
    affinity: Callable[[str, str], Collection[int] | None] = lambda _pod, _container: None
    clock: Clock = field(default_factory=FakeClock)
    active: dict[str, None] = field(default_factory=dict)
    sources_ready: bool = True
    health_updates: list[list[str]] = field(default_factory=list)
    manager: DeviceManager = field(init=False)

    def __post_init__(self) -> None:
        self.manager = self.new_manager()

    def new_manager(self) -> DeviceManager:
        """Return a manager as after a start of the kubelet."""
        around = Surroundings(
            active_pods=lambda: tuple(self.active),
            sources_ready=lambda: self.sources_ready,
            affinity=self.affinity,
            on_health_change=lambda uids: self.health_updates.append(sorted(uids)),
        )
        return DeviceManager(self.directory, self.clock, around, durable=False)


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """Yield a temporary directory for device plugins."""
    with tempfile.TemporaryDirectory(prefix="dralab-", dir="/tmp") as path:
        yield Path(path)
