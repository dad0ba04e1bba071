"""The Node object of a kubelet, its status and its lease (pkg/kubelet/kubelet_node_status.go)."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import httpx
import msgspec
from dra_driverkit.flags import Flag
from dra_shared.api.coordination import Lease, LeaseSpec
from dra_shared.api.meta import ObjectMeta, OwnerReference
from dra_shared.api.node import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from dra_shared.api.pod import ObjectReference
from dra_shared.api.resources import LEASES, NODES
from dra_shared.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from dra_shared.client.events import Recorder
from dra_shared.client.informer import Informer, is_older
from dra_shared.client.rest import Client, PatchType
from dra_shared.clock import Clock, rfc3339, rfc3339_micro, wait_for
from dra_shared.features import FeatureGates
from dra_shared.log import logger
from dra_shared.names import is_extended_resource_name
from dra_shared.version import DEFAULT, V1_35, V1_37, Version, release

from dra_node_agent.kubelet.devicemanager.manager import Capacity

LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_RENEW_SECONDS = 10.0
_REPORT_SECONDS = 300.0
_RETRY_SECONDS = 0.05
_LONGEST_RETRY = 7.0
_BOOTING = "container runtime status check may not have completed yet"

# Kubelet features that pods may need, by feature gate, with the version that introduced the declaration.
_FEATURES = {
    "DRANodeAllocatableResources": V1_37,
    "DRAOptionalNodeOperations": V1_37,
    "RestartAllContainersOnContainerExits": V1_35,
}

_log = logger(__name__)


def declared_features(features: FeatureGates) -> list[str]:
    """Return the features that a kubelet with these gates declares."""
    if features.version < V1_35 or not features.enabled("NodeDeclaredFeatures"):
        return []
    return [name for name, since in _FEATURES.items() if features.version >= since and features.enabled(name)]


@dataclass(frozen=True)
class NodeShape:
    """The properties of the node."""

    name: str
    address: str = "127.0.0.1"
    port: int = 10250
    cpu: str = "64"
    memory: str = "512Gi"
    storage: str = "1000Gi"
    pods: str = "110"
    runtime: str = "fake://1.0.0"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    pod_cidr: str = ""
    version: Version = DEFAULT
    """The version of Kubernetes that the kubelet follows."""
    declared_features: Sequence[str] = ()
    """The declared kubelet features."""
    boot_id: str = ""
    """The id of the machine's boot; empty for one that follows from the node's name."""


class ExtendedResources(Protocol):
    """The source of device plugins' resources: the device manager."""

    async def get_capacity(self) -> Capacity: ...

    def should_reset_extended_resource_capacity(self) -> bool: ...


class NodeReporter:
    """Keeps one Node and its Lease up to date.

    ``node`` is the last version from the server. Args: nodes: a watch of nodes, like the kubelet's node lister;
    without it, each report first reads the node from the API server.
    """

    def __init__(
        self,
        shape: NodeShape,
        client: Client,
        clock: Clock,
        recorder: Recorder,
        ready: Callable[[], bool],
        devices: ExtendedResources | None = None,
        nodes: Informer[Node] | None = None,
    ) -> None:
        self.shape = shape
        self._nodes = nodes
        self._devices = devices
        self._changed = Flag()
        self._gone: dict[str, str] = {}
        self._zero_extended = devices is not None and devices.should_reset_extended_resource_capacity()
        self.node = Node(metadata=ObjectMeta(name=shape.name), status=_capacity(shape))
        # Set once :attr:`node` equals the API server's version, with labels of other writers (nodeHasSynced).
        self.synced = Flag()
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._ready = ready
        self._booting = False
        self._reported_at: float | None = None
        self._lease: Lease | None = None
        self._speaking = Flag()
        self._speaking.set()

    async def run(self) -> None:
        """Register, then report status and renew the lease until cancelled."""
        await self._until_done(self._register)
        self._event("Starting", "Starting kubelet.")
        if self._has_rebooted(self.node.status):
            # As upstream, the first status is sent before the container runtime has been checked.
            self._booting = True
            await self._until_done(self._report)
            self._booting = False
        await self._until_done(self._report)
        renew_at = self._clock.monotonic()
        while True:
            if self._clock.monotonic() >= renew_at:
                await self._until_done(self._renew)
                renew_at = self._clock.monotonic() + _RENEW_SECONDS
            await wait_for(self._changed.wait(), renew_at - self._clock.monotonic(), self._clock)
            self._changed.clear()
            await self._until_done(self._report)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Send neither the status nor the Lease inside the context."""
        self._speaking.clear()
        try:
            yield
        finally:
            self._speaking.set()
            # Report immediately afterwards.
            self._changed.set()

    async def refresh(self) -> None:
        """Read the node again if the API server answers."""
        try:
            self.node = await self._client.get(NODES, self.shape.name)
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            _log.info("node not read again", node=self.shape.name, error=str(error))

    def notify_change(self) -> None:
        """Report the status immediately, because something in it has changed."""
        self._changed.set()

    async def report(self) -> None:
        """Report a changed status immediately."""
        await self._until_done(self._report)

    async def _until_done(self, action: Callable[[], object]) -> None:
        delay = _RETRY_SECONDS
        while True:
            await self._speaking.wait()
            try:
                result = action()
                assert hasattr(result, "__await__")
                await result
                return
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                if isinstance(error, NotFound) and action != self._register:
                    _log.info("node is gone, registering again", node=self.shape.name)
                    self._reported_at = None
                    action = self._register
                    self._changed.set()
                    continue
                _log.info("node not reported, trying again", node=self.shape.name, error=str(error))
            await self._clock.sleep(delay)
            delay = min(delay * 2, _LONGEST_RETRY)

    async def _register(self) -> None:
        name = self.shape.name
        labels = {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            **self.shape.labels,
        }
        status = self._status(NodeStatus(), await self._capacity())
        node = Node(
            metadata=ObjectMeta(
                name=name,
                labels=labels,
                annotations={"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            ),
            spec=NodeSpec(taints=tuple(self.shape.taints)),
            status=status,
        )
        try:
            self.node = await self._client.create(NODES, node)
        except AlreadyExists:
            self.node = await self._client.get(NODES, name)
            missing = {
                key: value for key, value in labels.items() if self.node.metadata.labels.get(key) != value
            }
            if missing:
                self.node = await self._client.patch(NODES, name, {"metadata": {"labels": missing}})
        self._reported_at = None
        self.synced.set()

    async def _report(self) -> None:
        if self._reported_at is not None:
            # The node controller may have deleted the node in the meantime.
            self.node = await self._current()
        old = self.node.status
        new = self._status(old, await self._capacity())
        self._zero_extended = False
        now = self._clock.monotonic()
        due = self._reported_at is None or now - self._reported_at >= _REPORT_SECONDS
        if not due and _essence(new) == _essence(old):
            return
        was_ready = _is_ready(old)
        if self._has_rebooted(old):
            name, boot_id = self.shape.name, _boot_id(self.shape)
            self._event("Rebooted", f"Node {name} has been rebooted, boot id: {boot_id}", "Warning")
        body = {"status": msgspec.to_builtins(new)}
        self.node = await self._client.patch(
            NODES, self.shape.name, body, patch_type=PatchType.STRATEGIC, subresource="status"
        )
        if self._reported_at is None or was_ready != _is_ready(new):
            word = "NodeReady" if _is_ready(new) else "NodeNotReady"
            self._event(word, f"Node {self.shape.name} status is now: {word}")
        self._reported_at = now

    async def _current(self) -> Node:
        name = self.shape.name
        seen = self._nodes.store.get(name) if self._nodes is not None and self._nodes.has_synced else None
        if seen is None:
            return await self._client.get(NODES, name)
        # The event of an own write may not have arrived yet.
        return self.node if is_older(seen, self.node) else seen

    async def _renew(self) -> None:
        name = self.shape.name
        now = rfc3339_micro(self._clock.now())
        if self._lease is None:
            try:
                self._lease = await self._client.get(LEASES, name, LEASE_NAMESPACE)
            except NotFound:
                await self._create_lease(now)
                return
        spec = msgspec.structs.replace(
            self._lease.spec, holder_identity=name, lease_duration_seconds=_LEASE_SECONDS, renew_time=now
        )
        try:
            self._lease = await self._client.update(LEASES, msgspec.structs.replace(self._lease, spec=spec))
        except (Conflict, NotFound):
            self._lease = None

    async def _create_lease(self, now: str) -> None:
        meta = self.node.metadata
        owner = OwnerReference(api_version="v1", kind="Node", name=meta.name, uid=meta.uid)
        lease = Lease(
            metadata=ObjectMeta(
                name=meta.name, namespace=LEASE_NAMESPACE, owner_references=(owner,) if meta.uid else ()
            ),
            spec=LeaseSpec(holder_identity=meta.name, lease_duration_seconds=_LEASE_SECONDS, renew_time=now),
        )
        try:
            self._lease = await self._client.create(LEASES, lease)
        except NotFound:
            _log.debug("no namespace for leases yet", namespace=LEASE_NAMESPACE)

    async def _capacity(self) -> Capacity:
        if self._devices is None:
            return Capacity({}, {}, ())
        found = await self._devices.get_capacity()
        # Keep the resources to delete, because the manager lists a deleted resource only once and this report
        # may fail.
        self._gone |= dict.fromkeys(found.deleted, "0")
        for name in found.capacity:
            self._gone.pop(name, None)
        return found

    def _status(self, old: NodeStatus, devices: Capacity) -> NodeStatus:
        now = rfc3339(self._clock.now())
        known = {condition.type: condition for condition in old.conditions}
        wanted = [
            (
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            self._ready_condition(),
        ]
        conditions = []
        for kind, status, reason, message in wanted:
            before = known.get(kind)
            same = before is not None and before.status == status
            conditions.append(
                NodeCondition(
                    type=kind,
                    status=status,
                    reason=reason,
                    message=message,
                    last_heartbeat_time=now,
                    last_transition_time=before.last_transition_time if same and before else now,
                )
            )
        shape = self.shape
        return msgspec.structs.replace(
            _with_devices(_capacity(shape), {**self._extended_resources(old), **self._gone}, devices),
            conditions=tuple(conditions),
            addresses=(
                NodeAddress(type="InternalIP", address=shape.address),
                NodeAddress(type="Hostname", address=shape.name),
            ),
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=shape.port)),
            declared_features=tuple(sorted(shape.declared_features)),
            node_info=_info(shape),
        )

    def _ready_condition(self) -> tuple[str, str, str, str]:
        if self._booting:
            return "Ready", "False", "KubeletNotReady", _BOOTING
        if not self._ready():
            return "Ready", "False", "KubeletNotReady", "container runtime is down"
        return "Ready", "True", "KubeletReady", "kubelet is posting ready status"

    def _has_rebooted(self, old: NodeStatus) -> bool:
        """True if the reported status has another boot id."""
        before = old.node_info.boot_id if old.node_info is not None else ""
        return before not in ("", _boot_id(self.shape))

    def _extended_resources(self, old: NodeStatus) -> dict[str, str]:
        """Return the extended resources of the node's object. For a recreated node, they are reset to zero."""
        found = {name: amount for name, amount in old.capacity.items() if is_extended_resource_name(name)}
        return dict.fromkeys(found, "0") if self._zero_extended else found

    def _event(self, reason: str, message: str, type_: str = "Normal") -> None:
        # The kubelet uses the node's name as its uid here.
        name = self.shape.name
        self._recorder.event(ObjectReference(kind="Node", name=name, uid=name), type_, reason, message)


def _capacity(shape: NodeShape) -> NodeStatus:
    amounts = {
        "cpu": shape.cpu,
        "ephemeral-storage": shape.storage,
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": shape.memory,
        "pods": shape.pods,
    }
    return NodeStatus(capacity=amounts, allocatable=amounts)


def _with_devices(status: NodeStatus, extended: Mapping[str, str], devices: Capacity) -> NodeStatus:
    """Return the status with these extended resources and those of device plugins (MachineInfo in nodestatus)."""
    capacity = {**extended, **status.capacity, **_texts(devices.capacity)}
    allocatable = {**capacity, **status.allocatable, **_texts(devices.allocatable)}
    return msgspec.structs.replace(
        status, capacity=dict(sorted(capacity.items())), allocatable=dict(sorted(allocatable.items()))
    )


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(number) for name, number in amounts.items()}


def _boot_id(shape: NodeShape) -> str:
    identity = hashlib.sha256(shape.name.encode()).hexdigest()
    first = f"{identity[32:40]}-{identity[40:44]}-4{identity[45:48]}-8{identity[49:52]}-{identity[52:64]}"
    return shape.boot_id or first


def _info(shape: NodeShape) -> NodeSystemInfo:
    identity = hashlib.sha256(shape.name.encode()).hexdigest()
    return NodeSystemInfo(
        machine_id=identity[:32],
        system_uuid=f"{identity[:8]}-{identity[8:12]}-4{identity[13:16]}-8{identity[17:20]}-{identity[20:32]}",
        boot_id=_boot_id(shape),
        kernel_version="6.1.0-dralab",
        os_image="dralab simulated node",
        container_runtime_version=shape.runtime,
        kubelet_version=release(shape.version).git_version,
        operating_system="linux",
        architecture="amd64",
    )


def _essence(status: NodeStatus) -> NodeStatus:
    """Return the status without heartbeats."""
    conditions = tuple(
        msgspec.structs.replace(condition, last_heartbeat_time=None) for condition in status.conditions
    )
    return msgspec.structs.replace(status, conditions=conditions)


def _is_ready(status: NodeStatus) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions)
