"""The interface of a container runtime to the kubelet, in place of CRI (k8s.io/cri-api)."""

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from dra_shared.api.container import Container, Probe


class RuntimeFailure(Exception):
    """The runtime failed. ``reason`` is the reason that a waiting container shows, such as ``ErrImagePull``."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Mount:
    """A directory or file of the host in a container. An empty source means a new directory."""

    target: str
    source: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class DeviceNode:
    """A device of the host in a container. ``permissions`` are any of r, w and m."""

    target: str
    source: str
    permissions: str = ""


@dataclass(frozen=True)
class PluginDevices:
    """The additions of device plugins to a container, except environment variables and CDI devices."""

    nodes: Sequence[DeviceNode] = ()
    mounts: Sequence[Mount] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SandboxSpec:
    """The part of a pod that all its containers share."""

    namespace: str
    name: str
    uid: str
    host_network: bool = False
    hostname: str = ""


@dataclass(frozen=True)
class LinuxResources:
    """The limits of a cgroup (LinuxContainerResources of CRI).

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
    """One attempt to run a container of a pod."""

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
    """True if the container ends by itself: an init container, or one of a pod that is not always restarted."""


# The start of an HTTP probe's output if the server answered with a status other than success.
BAD_STATUS = "HTTP probe failed with statuscode: "


POST_START, PRE_STOP = "postStart", "preStop"
HOOKS = frozenset((POST_START, PRE_STOP))


class State(enum.Enum):
    """The state of a container."""

    RUNNING = "running"
    EXITED = "exited"


@dataclass
class ContainerRecord:
    """A container from the point of view of its runtime."""

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
    unsimulated: str = ""
    """The program, if nothing simulates it and the container only stands for it."""


@dataclass(frozen=True)
class Consumption:
    """Resources used so far: CPU time in core-seconds since the start, and the working set in bytes."""

    cpu_seconds: float = 0.0
    working_set: int = 0

    def __add__(self, other: "Consumption") -> "Consumption":
        return Consumption(self.cpu_seconds + other.cpu_seconds, self.working_set + other.working_set)


@dataclass(frozen=True)
class Usage:
    """Resources that the running containers of a node have used until ``at``, and those of the rest of its system.

    ``system`` is for processes outside containers. It is zero if the runtime cannot measure that.
    """

    at: datetime
    containers: Sequence[tuple[ContainerRecord, Consumption]]
    system: Consumption = Consumption()


@dataclass(frozen=True)
class LogOptions:
    """The part of a container's log to return, as the pods/log subresource describes it."""

    follow: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = "All"


@dataclass(frozen=True)
class Image:
    """An image that is on the node. ``pulled_seconds`` is how long the pull took; None if there was none."""

    id: str
    size: int = 0
    pulled_seconds: float | None = None


@dataclass(frozen=True)
class TerminalSize:
    """The size of a terminal in characters."""

    columns: int
    lines: int


class Streams(Protocol):
    """The user's end of an exec or attach session."""

    stdin: bool
    tty: bool

    async def read(self) -> bytes:
        """Return what the user sends; empty at the end of the input."""

    async def write(self, data: bytes, *, stderr: bool = False) -> None:
        """Send output to the user."""

    def on_resize(self, handler: Callable[[TerminalSize], None]) -> None:
        """Call ``handler`` with the size of the user's terminal, as soon as it is known and after each change."""


ChangeHandler = Callable[[ContainerRecord], None]


class Runtime(Protocol):
    """A container runtime. Its methods raise :class:`RuntimeFailure`."""

    name: str
    version: str

    async def start(self) -> None:
        """Find the containers that ran before, and begin to report changes."""

    async def close(self) -> None:
        """Stop watching the containers. They keep running."""

    def on_change(self, handler: ChangeHandler) -> None:
        """Call ``handler`` when a container starts or exits."""

    async def pull(self, image: str, policy: str) -> Image:
        """Bring ``image`` to the node as its pull policy says."""

    async def create_sandbox(self, spec: SandboxSpec) -> str:
        """Set up what the containers of the pod share. Return its IP address. A second call changes nothing."""

    def address(self, pod_uid: str) -> str:
        """Return the IP address of the pod; empty if it has none yet."""

    def cdi_edits(self, device: str) -> dict[str, Any]:
        """Return the container edits of a CDI device, in the JSON form of CDI spec files."""

    def sandbox_created(self, pod_uid: str) -> datetime | None:
        """Return when the sandbox of the pod was set up; None if there is none, as after a reboot."""

    async def power_off(self) -> None:
        """End all containers and sandboxes at once, as when the machine reboots. Called after :meth:`close`."""

    async def remove_sandbox(self, pod_uid: str) -> None:
        """Remove the containers, logs and network of the pod. A second call changes nothing."""

    async def run(self, spec: ContainerSpec) -> str:
        """Create and start a container. Return its id."""

    async def stop(self, container_id: str, grace_seconds: float, signal: str = "") -> None:
        """Ask the container to stop, and kill it after ``grace_seconds``. Return when it has exited."""

    async def remove(self, container_id: str) -> None:
        """Remove an exited container and its log."""

    def containers(self) -> Sequence[ContainerRecord]:
        """Return all containers, running and exited."""

    def pods(self) -> Collection[str]:
        """Return the UIDs of pods that have a sandbox, containers or logs."""

    async def usage(self) -> Usage:
        """Return the resources that the running containers have used until now."""

    async def exec(
        self, container_id: str, command: Sequence[str], timeout: float | None = None
    ) -> tuple[int, bytes]:
        """Run a command in the container. Return its exit code and output."""

    async def exec_session(self, container_id: str, command: Sequence[str], streams: Streams) -> int:
        """Run a command in the container, connected to ``streams``. Return its exit code."""

    async def attach(self, container_id: str, streams: Streams) -> None:
        """Connect the user to the process of the container until it ends."""

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a TCP connection to a port of the pod's own address, as port-forward needs it."""

    async def probe(
        self, container_id: str, kind: str, probe: Probe, pod_ip: str, container: Container
    ) -> tuple[bool, str]:
        """Run an HTTP, TCP or gRPC probe. Return whether it succeeds, and the output to show if it does not."""

    def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the output of the container in pieces of whole lines."""
