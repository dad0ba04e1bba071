"""The metrics of NVIDIA's GPUs, like those of dcgm-exporter with its default counters (``/metrics/dcgm``).

Names, types, help, labels and value formats are those of dcgm-exporter 4.8.2: etc/default-counters.csv,
internal/pkg/rendermetrics/render_metrics.go, internal/pkg/collector/gpu_collector.go. Pod labels are added
as with its DRA labels (internal/pkg/transformation/kubernetes.go), and for device plugins. A MIG device's
pod is added to its GPU instance, while the real exporter looks for the whole GPU. Counters that a simulated
GPU cannot have, such as clocks, are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dra_node_agent.drivers.nvidia import DRIVER_NAME
from dra_node_agent.drivers.nvidia.devices import mig_position
from dra_node_agent.kubelet.server import NODE_HEADER
from dra_node_agent.nvml.profilename import profile_name
from dra_node_agent.nvml.system import ComputeInstance, GpuInstance, SimulatedGpu, SimulatedSystem

if TYPE_CHECKING:
    from dra_driverkit.proto import podresources_v1_pb2 as pb
    from starlette.requests import Request
    from starlette.responses import Response

    from dra_node_agent.kubelet.kubelet import Kubelet

DCGM_ROUTE = "/metrics/dcgm"

_REPLICA = "::"


@dataclass(frozen=True)
class _Counter:
    name: str
    type: str
    help: str


@dataclass(frozen=True)
class _Entity:
    """A measured entity: a GPU, or a GPU instance of a GPU in MIG mode."""

    gpu: SimulatedGpu
    index: int
    instance: GpuInstance | None = None
    computes: Sequence[ComputeInstance] = ()

    def used_mib(self) -> int:
        if self.instance is None:
            return self.gpu.used_mib
        return sum(p.used_mib for p in self.gpu.processes if p.gpu_instance == self.instance.id)

    @property
    def memory_mib(self) -> int:
        return self.gpu.model.memory_mib if self.instance is None else self.instance.profile.memory_mib

    def ids(self) -> Iterator[str]:
        """Yield the device ids that device plugins may use for the entity."""
        if self.instance is None:
            yield self.gpu.uuid
        for compute in self.computes:
            yield compute.uuid


@dataclass
class _Family:
    counter: _Counter
    lines: list[str] = field(default_factory=list)


def render(nodes: Iterable[tuple[str, SimulatedSystem, Sequence["pb.PodResources"]]]) -> str:
    """Render the metrics of nodes, each given as (name, simulated machine, PodResources of its kubelet)."""
    families = {counter.name: _Family(counter) for counter, _ in _COUNTERS}
    for name, system, pods in nodes:
        with system.lock:
            _measure(families, name, system, pods)
    text = []
    for family in families.values():
        if family.lines:
            counter = family.counter
            text += [
                f"# HELP {counter.name} {counter.help}",
                f"# TYPE {counter.name} {counter.type}",
                *family.lines,
            ]
    return "\n".join(text) + "\n"


def _measure(
    families: Mapping[str, _Family], node: str, system: SimulatedSystem, pods: Sequence["pb.PodResources"]
) -> None:
    entities = list(_entities(system))
    holders = _holders(entities, pods)
    for place, entity in enumerate(entities):
        labels = {**_labels(entity, node), "DCGM_FI_DRIVER_VERSION": system.driver_version}
        for counter, read in _COUNTERS:
            value = read(entity)
            if value is None:
                continue
            own = _xid_labels(entity.gpu.last_xid) if counter is _XID else {}
            for holder in holders.get(place) or ({},):
                attributes = dict(sorted({**own, **holder}.items()))
                families[counter.name].lines.append(
                    f"{counter.name}{{{_join_labels({**labels, **attributes})}}} {value}"
                )


def _entities(system: SimulatedSystem) -> Iterator[_Entity]:
    for index, gpu in enumerate(system.visible_gpus()):
        if gpu.lost:
            continue
        if not gpu.instances:
            yield _Entity(gpu, index)
        for _, instance in sorted(gpu.instances.items()):
            yield _Entity(gpu, index, instance, list(instance.compute_instances.values()))


def _labels(entity: _Entity, node: str) -> dict[str, str]:
    gpu = entity.gpu
    labels = {
        "gpu": str(entity.index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.nvml_bus_id,
        "device": f"nvidia{entity.index}",
        "modelName": gpu.model.name,
    }
    if entity.instance is not None:
        labels |= {
            "GPU_I_PROFILE": profile_name(gpu, entity.instance.profile),
            "GPU_I_ID": str(entity.instance.id),
        }
    return {**labels, "Hostname": node}


def _join_labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _holders(
    entities: Sequence[_Entity], pods: Sequence["pb.PodResources"]
) -> dict[int, list[Mapping[str, str]]]:
    """Return the labels of the containers that use each entity, by its index."""
    plugin_ids = {id_: place for place, entity in enumerate(entities) for id_ in entity.ids()}
    found: dict[int, list[Mapping[str, str]]] = {}
    for pod in pods:
        for container in pod.containers:
            who = {"pod": pod.name, "namespace": pod.namespace, "container": container.name}
            for devices in container.devices:
                for id_ in devices.device_ids:
                    place = plugin_ids.get(id_.partition(_REPLICA)[0])
                    if place is not None:
                        found.setdefault(place, []).append(who)
            for place, attributes in _iter_claimed(entities, container):
                found.setdefault(place, []).append({**who, **attributes})
    return found


def _iter_claimed(
    entities: Sequence[_Entity], container: "pb.ContainerResources"
) -> Iterator[tuple[int, dict[str, str]]]:
    for claim in container.dynamic_resources:
        for resource in claim.claim_resources:
            if resource.driver_name != DRIVER_NAME:
                continue
            place = _place(entities, resource.device_name)
            if place is None:
                continue
            attributes = {
                "dra_claim_name": claim.claim_name,
                "dra_claim_namespace": claim.claim_namespace,
                "dra_driver_name": resource.driver_name,
                "dra_pool_name": resource.pool_name,
                "dra_device_name": resource.device_name,
            }
            entity = entities[place]
            if entity.instance is not None and entity.computes:
                attributes["dra_mig_profile"] = profile_name(entity.gpu, entity.instance.profile)
                attributes["dra_mig_device_uuid"] = entity.computes[0].uuid
            yield place, attributes


def _place(entities: Sequence[_Entity], device: str) -> int | None:
    """Return the index of the entity for the driver's device. None if it no longer exists or is of another kind."""
    mig = mig_position(device)
    for place, entity in enumerate(entities):
        instance = entity.instance
        if mig is None:
            if instance is None and device == f"gpu-{entity.gpu.index}":
                return place
        elif instance is not None and (entity.gpu.index, instance.profile.id, instance.start) == (
            mig.parent_minor,
            mig.profile_id,
            mig.start,
        ):
            return place
    return None


def _xid_labels(xid: int) -> dict[str, str]:
    return {"err_code": str(xid), "err_msg": _XID_TEXTS.get(xid, "Unknown Error")}


def _whole(text: str) -> Callable[[_Entity], str | None]:
    """Return a function that reports a constant value for whole GPUs and none for GPU instances."""
    return lambda entity: text if entity.instance is None else None


def _percent(entity: _Entity) -> str | None:
    return str(entity.gpu.utilization) if entity.instance is None else None


def _busy(entity: _Entity) -> str:
    return f"{entity.gpu.utilization / 100:f}"


def _copy_utilization(entity: _Entity) -> str | None:
    share = entity.used_mib() * 100 // entity.memory_mib
    return str(share) if entity.instance is None else None


# NVIDIA's descriptions of the XIDs that drivers and the health check use.
_XID_TEXTS = {
    0: "No Error",
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "Preemptive cleanup, due to previous errors",
    48: "Double Bit ECC Error",
    63: "ECC page retirement or row remapping recording event",
    64: "ECC page retirement or row remapper recording failure",
    74: "NVLINK Error",
    79: "GPU has fallen off the bus",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    119: "GSP RPC Timeout",
}
_XID = _Counter("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.")

_COUNTERS: Sequence[tuple[_Counter, Callable[[_Entity], str | None]]] = (
    (
        _Counter("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
        lambda entity: str(entity.gpu.temperature),
    ),
    (
        _Counter("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
        lambda entity: f"{entity.gpu.power_milliwatts / 1000:f}",
    ),
    (_Counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."), _whole("0")),
    (_Counter("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."), _percent),
    (_Counter("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %)."), _copy_utilization),
    (_Counter("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %)."), _whole("0")),
    (_Counter("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %)."), _whole("0")),
    (_XID, lambda entity: str(entity.gpu.last_xid)),
    (
        _Counter("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
        lambda entity: str(entity.memory_mib - entity.used_mib()),
    ),
    (
        _Counter("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
        lambda entity: str(entity.used_mib()),
    ),
    (_Counter("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB)."), lambda _: "0"),
    (_Counter("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status"), _whole("0")),
    (
        _Counter(
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "counter",
            "Number of remapped rows for uncorrectable errors",
        ),
        _whole("0"),
    ),
    (
        _Counter(
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
            "counter",
            "Number of remapped rows for correctable errors",
        ),
        _whole("0"),
    ),
    (_Counter("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed"), _whole("0")),
    (
        _Counter("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
        _busy,
    ),
    (
        _Counter(
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active."
        ),
        _busy,
    ),
    (
        _Counter(
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "gauge",
            "Ratio of cycles the device memory interface is active sending or receiving data.",
        ),
        lambda entity: f"{entity.gpu.utilization * entity.used_mib() / entity.memory_mib / 100:f}",
    ),
)


class DcgmExporter:
    """Serves :data:`DCGM_ROUTE` for the nodes of one process.

    Args:
        system: returns a node's simulated GPUs, or None if it has none.
    """

    def __init__(
        self, kubelets: "Sequence[Kubelet]", system: "Callable[[str], SimulatedSystem | None]"
    ) -> None:
        self._kubelets = kubelets
        self._system = system

    async def metrics(self, request: "Request") -> "Response":
        """Return the metrics of the node in the header, or of all nodes without it. 404 if the node is not here."""
        from starlette.responses import Response

        name = request.headers.get(NODE_HEADER)
        asked = [kubelet for kubelet in self._kubelets if name in (None, kubelet.name)]
        if name is not None and not asked:
            return Response(f"no node {name} here", status_code=404, media_type="text/plain")
        nodes = [
            (kubelet.name, system, kubelet.pod_resources())
            for kubelet in asked
            if (system := self._system(kubelet.name)) is not None
        ]
        return Response(render(nodes), media_type="text/plain; version=0.0.4; charset=utf-8")
