"""PodResources v1, the kubelet's API for monitoring agents (pkg/kubelet/apis/podresources)."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import grpc
from dra_driverkit.proto import podresources_v1_pb2, rpc
from dra_driverkit.proto import podresources_v1_pb2 as pb
from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from grpc import aio

from dra_node_agent.kubelet.devicemanager.manager import DeviceManager, Instances
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.dra.manager import DraManager
from dra_node_agent.kubelet.ondemand import OnDemandServer
from dra_node_agent.kubelet.phases import TERMINAL
from dra_node_agent.kubelet.restarts import is_sidecar

SOCKET = Path("pod-resources", "kubelet.sock")


class PodResourcesServer:
    """Serves PodResources for one node. ``pods`` returns the pods that hold resources."""

    def __init__(
        self, root: Path, dra: DraManager, devices: DeviceManager, pods: Callable[[], Iterable[Pod]]
    ) -> None:
        self._service = _Service(dra, devices, pods)
        self._root = root
        self._server: OnDemandServer | None = None

    @property
    def path(self) -> Path:
        """The path of its socket."""
        return self._root / SOCKET

    async def __aenter__(self) -> Self:
        path = self.path
        self._server = OnDemandServer(path, path.with_name("grpc.sock"), self._add)
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            await self._server.close()

    def list_pods(self) -> Sequence[pb.PodResources]:
        """Return the answer to ``List``."""
        return self._service.list_pods()

    def _add(self, server: aio.Server) -> None:
        rpc.serve(podresources_v1_pb2, "PodResourcesLister", self._service, server)


class _Service:
    def __init__(self, dra: DraManager, devices: DeviceManager, pods: Callable[[], Iterable[Pod]]) -> None:
        self._dra = dra
        self._devices = devices
        self._pods = pods

    def list_pods(self) -> Sequence[pb.PodResources]:
        self._devices.update_allocated_devices()
        return [self._of_pod(pod) for pod in self._active()]

    async def List(self, request: pb.ListPodResourcesRequest, context: Any) -> pb.ListPodResourcesResponse:
        return pb.ListPodResourcesResponse(pod_resources=self.list_pods())

    async def Get(self, request: pb.GetPodResourcesRequest, context: Any) -> pb.GetPodResourcesResponse:
        for pod in self._active():
            if (pod.metadata.name, pod.metadata.namespace) == (request.pod_name, request.pod_namespace):
                return pb.GetPodResourcesResponse(pod_resources=self._of_pod(pod))
        await context.abort(
            grpc.StatusCode.UNKNOWN,
            f"pod {request.pod_name} in namespace {request.pod_namespace} not found",
        )
        raise AssertionError("abort has raised")

    async def GetAllocatableResources(
        self, request: pb.AllocatableResourcesRequest, context: Any
    ) -> pb.AllocatableResourcesResponse:
        return pb.AllocatableResourcesResponse(devices=_devices(self._devices.get_allocatable_devices()))

    def _active(self) -> list[Pod]:
        return [pod for pod in self._pods() if pod.status.phase not in TERMINAL]

    def _of_pod(self, pod: Pod) -> pb.PodResources:
        containers = [container for container in pod.spec.init_containers if is_sidecar(container)]
        containers += pod.spec.containers
        return pb.PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[self._of_container(pod, container) for container in containers],
        )

    def _of_container(self, pod: Pod, container: Container) -> pb.ContainerResources:
        try:
            infos = self._dra.containers.claims(pod, container)
        except DraError:
            infos = []
        return pb.ContainerResources(
            name=container.name,
            devices=_devices(self._devices.get_devices(pod.metadata.uid, container.name) or {}),
            dynamic_resources=[_dynamic(info) for info in infos],
        )


def _devices(instances: Instances) -> list[pb.ContainerDevices]:
    """Return the devices of device plugins, with an entry for each."""
    entries = []
    for resource, devices in instances.items():
        for id_, device in devices.items():
            entry = pb.ContainerDevices(resource_name=resource, device_ids=[id_])
            if device.numa_nodes is not None:
                entry.topology.nodes.extend(pb.NUMANode(ID=node) for node in device.numa_nodes)
                entry.topology.SetInParent()
            entries.append(entry)
    return entries


def _dynamic(info: ClaimInfo) -> pb.DynamicResource:
    resources = []
    for driver, devices in info.devices.items():
        # Upstream gives each device also the CDI ids of the previous ones (GetDynamicResources).
        cdi_devices: list[pb.CDIDevice] = []
        for device in devices:
            cdi_devices += [pb.CDIDevice(name=cdi_id) for cdi_id in device.cdi_device_ids or ()]
            resources.append(
                pb.ClaimResource(
                    cdi_devices=cdi_devices,
                    driver_name=driver,
                    pool_name=device.pool_name,
                    device_name=device.device_name,
                    share_id=device.share_id,
                )
            )
    return pb.DynamicResource(claim_name=info.name, claim_namespace=info.namespace, claim_resources=resources)
