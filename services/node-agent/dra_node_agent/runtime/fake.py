"""A runtime that runs nothing on the host: it simulates containers inside this process.

CDI injects their environment, device nodes and mounts, and their commands are interpreted. The state of a
node's containers is stored on disk, so that they survive a restart of the process, as real containers survive
a kubelet's restart.
"""

import asyncio
import hashlib
import ipaddress
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from dra_driverkit.cdi import ContainerEdits, UnresolvableError, resolve
from dra_driverkit.files import directories, write_atomically
from dra_shared.api.container import Container, Probe
from dra_shared.clock import Clock, wait_for
from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger

from dra_node_agent.runtime.base import (
    BAD_STATUS,
    HOOKS,
    ChangeHandler,
    ContainerRecord,
    ContainerSpec,
    Image,
    LogOptions,
    RuntimeFailure,
    SandboxSpec,
    State,
    Streams,
    Usage,
)
from dra_node_agent.runtime.cdiedits import cdi_edits
from dra_node_agent.runtime.consumption import SYSTEM, rates
from dra_node_agent.runtime.container import Injected, Programs, SimulatedContainer
from dra_node_agent.runtime.imagename import image_id
from dra_node_agent.runtime.images import Images, load_images
from dra_node_agent.runtime.logfile import LogFile
from dra_node_agent.runtime.plugindevices import device_edits
from dra_node_agent.runtime.ports import Connection, PodPorts
from dra_node_agent.runtime.shell.scripted import script_program
from dra_node_agent.runtime.shell.world import Program
from dra_node_agent.tasks import Tasks

PROBE_FAILS = "dralab.dev/failing-probes"

# The seconds before a write is repeated that failed because the disk was full.
_SAVE_AGAIN = 5.0
_REFUSED = (
    "dralab: {} is not simulated, and --images strict refuses it: say what it does in a file of --images, "
    "or with the annotation dralab.dev/script (see docs/node-agent.md, Images)"
)

_log = logger(__name__)


# Exit code and reason of a container whose end containerd did not see, because the machine rebooted.
_UNKNOWN_EXIT, _UNKNOWN_REASON = 255, "Unknown"
_SANDBOX_FILE = "sandbox.json"
# The creation time of sandboxes whose files were written by a version that did not store it.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class _Saved(msgspec.Struct):
    record: ContainerRecord
    spec: ContainerSpec
    edits: ContainerEdits


class _Sandbox(msgspec.Struct):
    ip: str
    created_at: datetime = _LONG_AGO


_saved = msgspec.json.Decoder(_Saved)
_sandboxes = msgspec.json.Decoder(_Sandbox)


EnvironmentEdits = Callable[[Mapping[str, str], Sequence[str]], ContainerEdits]
"""Returns what a container gets because of its environment and the targets of its mounts."""

_CDI_ANNOTATION = "cdi.k8s.io/"


def no_edits(_environment: Mapping[str, str], _mounts: Sequence[str]) -> ContainerEdits:
    """Return no edits, for a node without a container runtime of a vendor."""
    return ContainerEdits()


def _no_programs(_: Injected) -> Mapping[str, Program]:
    return {}


def _annotated_devices(annotations: Mapping[str, str]) -> list[str]:
    """Return the CDI devices that annotations ask for. Engines read these where CRI has no CDI devices."""
    values = [value for key, value in sorted(annotations.items()) if key.startswith(_CDI_ANNOTATION)]
    return [device for value in values for device in value.split(",")]


class FakeRuntime:
    """The simulated containers of one node. ``directory`` is where their state is kept."""

    name = "fake"
    version = "1.0.0"

    def __init__(
        self,
        directory: Path,
        cdi_directory: Path,
        clock: Clock,
        *,
        subnet: str = "10.244.0.0/24",
        programs: Programs = _no_programs,
        readable: Sequence[Path] = (),
        node_ip: str = "127.0.0.1",
        images: Images | None = None,
        environment_edits: EnvironmentEdits = no_edits,
    ) -> None:
        self._environment_edits = environment_edits
        self._behaviours = images or load_images()
        self._shared = {name: script_program(text) for name, text in self._behaviours.programs.items()}
        self._directory = directory
        self._cdi_directory = cdi_directory
        self._clock = clock
        self._started = clock.now()
        self._subnet = subnet
        self._programs = programs
        self._readable = readable
        self._node_ip = node_ip
        self._handlers: list[ChangeHandler] = []
        self._records: dict[str, ContainerRecord] = {}
        self._running: dict[str, SimulatedContainer] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._logs: dict[str, LogFile] = {}
        self._sandboxes: dict[str, _Sandbox] = {}
        #: By pod. Pods on the network of the host share the ports of the node.
        self._ports: dict[str, PodPorts] = {}
        self._last_address = 1
        self._images: dict[str, None] = {}
        self._tasks = Tasks()

    async def start(self) -> None:
        """Find the containers that are on disk."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for folder in self._directory.iterdir():
            if not folder.is_dir():
                continue
            # The sandbox comes first: its address decides whose ports the containers listen on.
            for path in sorted(folder.iterdir(), key=lambda path: path.name != _SANDBOX_FILE):
                try:
                    if path.name == _SANDBOX_FILE:
                        self._sandboxes[folder.name] = _sandboxes.decode(path.read_bytes())
                    elif path.suffix == ".json":
                        self._take_up(_saved.decode(path.read_bytes()))
                except (OSError, msgspec.DecodeError) as error:
                    _log.warning("skipping an unreadable container", path=str(path), error=str(error))

    async def close(self) -> None:
        """End the simulation, and leave the containers on disk as they are."""
        await self._tasks.close()

    def on_change(self, handler: ChangeHandler) -> None:
        self._handlers.append(handler)

    async def pull(self, image: str, policy: str) -> Image:
        """Return the image. Every image exists whose name is well-formed."""
        found = image_id(image)
        seconds = 0.0 if policy == "Always" or image not in self._images else None
        self._images[image] = None
        return Image(found, 0, seconds if policy != "Never" else None)

    async def create_sandbox(self, spec: SandboxSpec) -> str:
        sandbox = self._sandboxes.get(spec.uid)
        if sandbox is None:
            ip = self._node_ip if spec.host_network else self._free_address()
            sandbox = _Sandbox(ip, self._clock.now())
            folder = self._folder(spec.uid)
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / _SANDBOX_FILE, msgspec.json.encode(sandbox), durable=False)
            self._sandboxes[spec.uid] = sandbox
        return sandbox.ip

    def address(self, pod_uid: str) -> str:
        sandbox = self._sandboxes.get(pod_uid)
        return sandbox.ip if sandbox is not None else ""

    def sandbox_created(self, pod_uid: str) -> datetime | None:
        sandbox = self._sandboxes.get(pod_uid)
        return sandbox.created_at if sandbox is not None else None

    async def power_off(self) -> None:
        """End all containers and sandboxes. Their records remain on disk, as with containerd."""
        for container in self._running.values():
            record = container.record
            record.state, record.finished_at = State.EXITED, self._clock.now()
            record.exit_code, record.reason = _UNKNOWN_EXIT, _UNKNOWN_REASON
            self._try_to_save(_Saved(record, container.spec, container.edits))
        for uid in self._sandboxes:
            (self._folder(uid) / _SANDBOX_FILE).unlink(missing_ok=True)
        self._running.clear()
        self._sandboxes.clear()

    async def remove_sandbox(self, pod_uid: str) -> None:
        for record in [record for record in self._records.values() if record.pod_uid == pod_uid]:
            if record.id in self._running:
                await self.stop(record.id, 0)
            await self.remove(record.id)
        self._sandboxes.pop(pod_uid, None)
        self._ports.pop(pod_uid, None)
        shutil.rmtree(self._folder(pod_uid), ignore_errors=True)

    async def run(self, spec: ContainerSpec) -> str:
        """Start to simulate a container.

        Raises:
            RuntimeFailure: a CDI device is in no spec file.
        """
        try:
            asked = [*spec.cdi_device_ids, *_annotated_devices(spec.annotations)]
            injected = resolve(asked, self._cdi_directory)
        except UnresolvableError as error:
            raise RuntimeFailure(
                "CreateContainerError",
                f"failed to generate container spec: failed to inject devices: {error}",
            ) from error
        by_environment = self._environment_edits(spec.env, [mount.target for mount in spec.mounts])
        edits = by_environment.merge(device_edits(spec.devices)).merge(injected)
        attempt = f"{spec.pod_uid}/{spec.name}/{spec.attempt}/{self._clock.now().timestamp()}"
        container_id = hashlib.sha256(attempt.encode()).hexdigest()
        image = await self.pull(spec.image, "Never")
        record = ContainerRecord(
            id=container_id,
            namespace=spec.namespace,
            pod=spec.pod,
            pod_uid=spec.pod_uid,
            name=spec.name,
            attempt=spec.attempt,
            image=spec.image,
            image_id=image.id,
            init=spec.init,
            started_at=self._clock.now(),
        )
        folder = self._folder(spec.pod_uid)
        folder.mkdir(parents=True, exist_ok=True)
        saved = _Saved(record, spec, edits)
        container = self._container(saved, 0.0)
        if missing := container.find_unsimulated():
            if self._behaviours.strict:
                raise RuntimeFailure("CreateContainerError", _REFUSED.format(missing))
            # Mark it before the first status is sent, so that no second status is needed.
            container.mark(missing)
        self._save(saved)
        self._simulate(container)
        self._tell(record)
        return container_id

    async def stop(self, container_id: str, grace_seconds: float, signal: str = "") -> None:
        container = self._running.get(container_id)
        if container is None:
            return
        ended = self._ended[container_id]
        if grace_seconds > 0:
            container.terminate()
            await wait_for(ended.wait(), grace_seconds, self._clock)
        container.killed.set()
        await ended.wait()

    async def remove(self, container_id: str) -> None:
        record = self._records.pop(container_id, None)
        self._logs.pop(container_id, None)
        self._ended.pop(container_id, None)
        if record is not None:
            for path in self._folder(record.pod_uid).glob(f"{container_id}.*"):
                path.unlink(missing_ok=True)

    def containers(self) -> Sequence[ContainerRecord]:
        return list(self._records.values())

    def pods(self) -> Collection[str]:
        return directories(self._directory)

    async def usage(self) -> Usage:
        # Samples have a precision of milliseconds.
        now = self._clock.now()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        return Usage(
            now,
            [
                (one.record, rates(one.spec, one.behaviour).over(one.record.started_at or now, now))
                for one in self._running.values()
            ],
            SYSTEM.over(self._started, now),
        )

    async def exec(
        self, container_id: str, command: Sequence[str], timeout: float | None = None
    ) -> tuple[int, bytes]:
        work = asyncio.ensure_future(self._alive(container_id).exec(command))
        if timeout is None:
            return await work
        timer = asyncio.ensure_future(self._clock.sleep(timeout))
        try:
            await asyncio.wait((work, timer), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise RuntimeFailure(
                    "DeadlineExceeded", f"command {' '.join(command)!r} timed out after {timeout:g}s"
                )
            return work.result()
        finally:
            work.cancel()
            timer.cancel()

    def cdi_edits(self, device: str) -> JsonObject:
        return cdi_edits(device, self._cdi_directory)

    async def exec_session(self, container_id: str, command: Sequence[str], streams: Streams) -> int:
        return await self._alive(container_id).converse(command, streams)

    async def attach(self, container_id: str, streams: Streams) -> None:
        """Send the output that the container prints from now on. The simulated process reads no input."""
        self._alive(container_id)
        async for piece in self.logs(container_id, LogOptions(follow=True, tail_lines=0)):
            await streams.write(piece.replace(b"\n", b"\r\n") if streams.tty else piece)

    async def connect(self, pod_uid: str, port: int) -> Connection:
        return await self.ports_of(pod_uid).connect(port)

    def ports_of(self, pod_uid: str) -> PodPorts:
        """Return the ports of a pod, on which its simulated containers listen."""
        on_host = self.address(pod_uid) == self._node_ip
        return self._ports.setdefault("" if on_host else pod_uid, PodPorts())

    def _alive(self, container_id: str) -> SimulatedContainer:
        container = self._running.get(container_id)
        if container is None:
            raise RuntimeFailure("ContainerNotRunning", f'container "{container_id}" is not running')
        return container

    async def probe(
        self, container_id: str, kind: str, probe: Probe, pod_ip: str, container: Container
    ) -> tuple[bool, str]:
        """Let the probe succeed, unless the annotation ``dralab.dev/failing-probes`` names this kind of probe."""
        running = self._running.get(container_id)
        if running is None:
            return False, "container is not running"
        failing = running.spec.annotations.get(PROBE_FAILS, "").replace(" ", "").split(",")
        if kind not in failing and f"{kind}.{container.name}" not in failing:
            return True, ""
        if probe.http_get is not None and kind not in HOOKS:
            return False, f"{BAD_STATUS}503"
        return False, f"dial tcp {pod_ip}: connect: connection refused"

    async def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[bytes]:
        log = self._logs.get(container_id)
        if log is not None:
            async for piece in log.read(options):
                yield piece

    def _take_up(self, saved: _Saved) -> None:
        record = saved.record
        self._images[record.image] = None
        if record.state is State.RUNNING:
            started = record.started_at or self._clock.now()
            elapsed = max((self._clock.now() - started).total_seconds(), 0.0)
            self._simulate(self._container(saved, elapsed, resumed=True))
        else:
            self._records[record.id] = record
            self._logs[record.id] = log = self._log_file(record)
            log.closed = True

    def _container(self, saved: _Saved, elapsed: float, *, resumed: bool = False) -> SimulatedContainer:
        record = saved.record
        return SimulatedContainer(
            record,
            saved.spec,
            saved.edits,
            self._log_file(record),
            self._clock,
            self._programs,
            self._readable,
            ports=self.ports_of(record.pod_uid),
            shared=self._shared,
            behaviour=self._behaviours.find(saved.spec.image),
            elapsed=elapsed,
            resumed=resumed,
            strict=self._behaviours.strict,
            on_unsimulated=self._tell,
        )

    def _simulate(self, container: SimulatedContainer) -> None:
        record = container.record
        self._records[record.id] = record
        self._logs[record.id] = container.log
        self._ended[record.id] = asyncio.Event()
        self._running[record.id] = container
        self._tasks.start(self._run_to_end(container))

    async def _run_to_end(self, container: SimulatedContainer) -> None:
        record = container.record
        try:
            code = await container.run()
        except Exception as error:
            _log.exception("simulated container failed", container=f"{record.pod}/{record.name}")
            container.log.write("stderr", f"{error}\n")
            code = 128
        record.state = State.EXITED
        record.finished_at = self._clock.now()
        record.exit_code = code
        record.reason = "Completed" if code == 0 else "Error"
        record.message = container.files.content.get("/dev/termination-log", "")[:4096]
        container.log.close()
        self._running.pop(record.id, None)
        saved = _Saved(record, container.spec, container.edits)
        written = self._try_to_save(saved)
        ended = self._ended.get(record.id)
        if ended is not None:
            ended.set()
        self._tell(record)
        while not written and record.id in self._records:
            await self._clock.sleep(_SAVE_AGAIN)
            written = self._try_to_save(saved)

    def _tell(self, record: ContainerRecord) -> None:
        for handler in self._handlers:
            handler(record)

    def _save(self, saved: _Saved) -> None:
        folder = self._folder(saved.record.pod_uid)
        if folder.is_dir():
            path = folder / f"{saved.record.id}.json"
            write_atomically(path, msgspec.json.encode(saved), durable=False)

    def _try_to_save(self, saved: _Saved) -> bool:
        try:
            self._save(saved)
        except OSError as error:
            _log.warning("cannot save a container's end, trying again", error=str(error))
            return False
        return True

    def _log_file(self, record: ContainerRecord) -> LogFile:
        return LogFile(self._folder(record.pod_uid) / f"{record.id}.log", self._clock.now)

    def _folder(self, pod_uid: str) -> Path:
        return self._directory / pod_uid

    def _free_address(self) -> str:
        taken = {sandbox.ip for sandbox in self._sandboxes.values()}
        subnet = ipaddress.ip_network(self._subnet)
        for _ in range(subnet.num_addresses):
            self._last_address = self._last_address % (subnet.num_addresses - 2) + 1
            address = str(subnet[self._last_address])
            if address not in taken and self._last_address > 1:
                return address
        raise RuntimeFailure("FailedCreatePodSandBox", f"no free address in {self._subnet}")
