"""What the kubelet asks of a container runtime, in place of CRI (k8s.io/cri-api)."""

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from dra_shared.api.container import Container, Probe


class RuntimeFailure(Exception):
    """The runtime could not do it. ``reason`` is what a waiting container shows, such as ``ErrImagePull``."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Mount:
    """A directory or file of the host inside a container; an empty source is a fresh directory."""

    target: str
    source: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class DeviceNode:
    """A device of the host inside a container; ``permissions`` are any of r, w and m."""

    target: str
    source: str
    permissions: str = ""


@dataclass(frozen=True)
class PluginDevices:
    """What device plugins add to a container beyond its environment and its CDI devices."""

    nodes: Sequence[DeviceNode] = ()
    mounts: Sequence[Mount] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SandboxSpec:
    """What the containers of a pod share."""

    namespace: str
    name: str
    uid: str
    host_network: bool = False
    hostname: str = ""


@dataclass(frozen=True)
class LinuxResources:
    """What a cgroup gives at most (LinuxContainerResources of CRI).

    Args:
        cpu_shares: its weight, 1024 for a CPU.
        cpu_quota: CPU time in microseconds, in each period of 100000; None for no limit.
        memory: in bytes; None for no limit.
        huge_pages: in bytes by page size, such as ``2MB``.
        oom_score_adj: of a container's processes.
    """

    cpu_shares: int = 2
    cpu_quota: int | None = None
    memory: int | None = None
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    oom_score_adj: int = 0


@dataclass(frozen=True)
class ContainerSpec:
    """One attempt to run one container of a pod."""

    namespace: str
    pod: str
    pod_uid: str
    name: str
    attempt: int
    image: str
    init: bool = False
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    hostname: str = ""
    mounts: Sequence[Mount] = ()
    cdi_device_ids: Sequence[str] = ()
    devices: PluginDevices = PluginDevices()
    annotations: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    resources: LinuxResources = field(default_factory=LinuxResources)
    host_network: bool = False
    privileged: bool = False
    user: str = ""
    tty: bool = False
    stop_signal: str = ""
    to_end: bool = False
    """Whether it is meant to end by itself: as an init container, or in a pod that is not always restarted."""


# How the output of an HTTP probe begins that was answered, but not with success.
BAD_STATUS = "HTTP probe failed with statuscode: "


POST_START, PRE_STOP = "postStart", "preStop"
HOOKS = frozenset((POST_START, PRE_STOP))


class State(enum.Enum):
    """Where a container is in its life."""

    RUNNING = "running"
    EXITED = "exited"


@dataclass
class ContainerRecord:
    """A container as the runtime knows it."""

    id: str
    namespace: str
    pod: str
    pod_uid: str
    name: str
    attempt: int
    image: str
    image_id: str
    init: bool = False
    state: State = State.RUNNING
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    signal: int | None = None


@dataclass(frozen=True)
class Consumption:
    """What something has consumed: CPU time in core-seconds since it started, and its working set in bytes."""

    cpu_seconds: float = 0.0
    working_set: int = 0

    def __add__(self, other: "Consumption") -> "Consumption":
        return Consumption(self.cpu_seconds + other.cpu_seconds, self.working_set + other.working_set)


@dataclass(frozen=True)
class Usage:
    """What a node's running containers have consumed until ``at``, each with its record, and the rest of its system.

    ``system`` is what runs outside containers; nothing where the runtime can't measure it.
    """

    at: datetime
    containers: Sequence[tuple[ContainerRecord, Consumption]]
    system: Consumption = Consumption()


@dataclass(frozen=True)
class LogOptions:
    """Which part of a container's log is wanted, as the pods/log subresource has it."""

    follow: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = "All"


@dataclass(frozen=True)
class Image:
    """An image that is on the node. ``pulled_seconds`` is how long a pull took, None where none was needed."""

    id: str
    size: int = 0
    pulled_seconds: float | None = None


@dataclass(frozen=True)
class TerminalSize:
    """How many characters a terminal shows."""

    columns: int
    lines: int


class Streams(Protocol):
    """The user's end of an exec or attach session."""

    stdin: bool
    tty: bool

    async def read(self) -> bytes:
        """What the user sends; empty at its end."""

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Output for the user."""

    def on_resize(self, handler: Callable[[TerminalSize], None]) -> None:
        """Call ``handler`` with the size of the user's terminal, as soon as it is known and whenever it changes."""


ChangeHandler = Callable[[ContainerRecord], None]


class Runtime(Protocol):
    """A container runtime. Its methods raise :class:`RuntimeFailure`."""

    name: str
    version: str

    async def start(self) -> None:
        """Take up again what ran before, and begin to report changes."""

    async def close(self) -> None:
        """Stop looking after containers; they are not stopped."""

    def on_change(self, handler: ChangeHandler) -> None:
        """Call ``handler`` whenever a container starts or exits."""

    async def pull(self, image: str, policy: str) -> Image:
        """Have ``image`` on the node, by its pull policy."""

    async def create_sandbox(self, spec: SandboxSpec) -> str:
        """Set up what the pod's containers share; gives its IP address. Fine to call again."""

    def address(self, pod_uid: str) -> str:
        """The pod's IP address; empty where it has none (yet)."""

    def cdi_edits(self, device: str) -> dict[str, Any]:
        """What a CDI device brings into a container, by the node's spec files, as their JSON has it."""

    async def remove_sandbox(self, pod_uid: str) -> None:
        """Remove the pod's containers, logs and network. Fine to call again."""

    async def run(self, spec: ContainerSpec) -> str:
        """Create and start a container; gives its id."""

    async def stop(self, container_id: str, grace_seconds: float, signal: str = "") -> None:
        """Ask the container to stop, and kill it after ``grace_seconds``; returns when it has exited."""

    async def remove(self, container_id: str) -> None:
        """Forget an exited container and its log."""

    def containers(self) -> Sequence[ContainerRecord]:
        """All containers, running and exited."""

    def pods(self) -> Collection[str]:
        """Return the UIDs of pods that have a sandbox, containers or logs."""

    async def usage(self) -> Usage:
        """What the running containers have consumed until now."""

    async def exec(
        self, container_id: str, command: Sequence[str], timeout: float | None = None
    ) -> tuple[int, bytes]:
        """Run a command in the container; gives its exit code and output."""

    async def exec_session(self, container_id: str, command: Sequence[str], streams: Streams) -> int:
        """Run a command in the container, connected to ``streams``; gives its exit code."""

    async def attach(self, container_id: str, streams: Streams) -> None:
        """Connect to the container's process until it ends."""

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A TCP connection to what listens on a port of the pod's own address, as port-forward needs it."""

    async def probe(
        self, container_id: str, kind: str, probe: Probe, pod_ip: str, container: Container
    ) -> tuple[bool, str]:
        """Whether a network probe (HTTP, TCP, gRPC) succeeds, and the output to show if it doesn't."""

    def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The container's output, in pieces of whole lines."""
