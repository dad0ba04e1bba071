"""Containers of a real engine, Docker or Podman, through the Docker API.

An engine that knows CDI and reads the node's CDI directory injects the devices itself; for all others the edits are
resolved here into environment, mounts and devices.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import docker
import docker.errors
from docker.types import DeviceRequest
from dra_driverkit.cdi import ContainerEdits, UnresolvableError, resolve
from dra_shared.api.container import Container, Probe
from dra_shared.clock import Clock
from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger

from dra_node_agent.runtime import dockercontainer
from dra_node_agent.runtime.base import (
    ChangeHandler,
    Consumption,
    ContainerRecord,
    ContainerSpec,
    Image,
    LogOptions,
    RuntimeFailure,
    SandboxSpec,
    State,
    Streams,
    TerminalSize,
    Usage,
)
from dra_node_agent.runtime.cdiedits import cdi_edits
from dra_node_agent.runtime.confinement import confine
from dra_node_agent.runtime.dockerinjection import Injection, injection_of, library_path
from dra_node_agent.runtime.dockerstream import pieces, pump
from dra_node_agent.runtime.netprobe import probe_network
from dra_node_agent.runtime.plugindevices import device_edits
from dra_node_agent.tasks import Tasks

_DEFAULT_ENGINE = "unix:///var/run/docker.sock"
_ENDS = frozenset(("die", "died", "oom"))
# In seconds, for a connection to a container.
_CONNECT_TIMEOUT = 5.0
_NETWORK_FREE = frozenset(("host", "none"))

_log = logger(__name__)

R = TypeVar("R")


class DockerRuntime:
    """The containers of one node on an engine.

    ``base_url`` is the socket of the engine (default: as ``docker`` finds it). ``network`` is the engine's
    network for pods; empty for its default. ``confined_to`` is the directory from which containers may have
    mounts. Without it they may mount any file of the host, be privileged and use the host's network.
    """

    name = "docker"

    def __init__(
        self,
        node_name: str,
        cdi_directory: Path,
        clock: Clock,
        *,
        base_url: str = "",
        network: str = "",
        confined_to: Path | None = None,
    ) -> None:
        self._confined_to = confined_to
        self._node = node_name
        self._cdi_directory = cdi_directory
        self._clock = clock
        self._network = network
        client: Any = None
        url = base_url or os.environ.get("DOCKER_HOST") or _DEFAULT_ENGINE
        if url.startswith("unix://") and not Path(url.removeprefix("unix://")).exists():
            raise OSError(f"no container engine: there is no socket {url}")
        try:
            client = docker.DockerClient(base_url=base_url) if base_url else docker.from_env()
            self.version = str(client.version()["Version"])
            self._knows_cdi = _knows_cdi(client.info(), cdi_directory)
        except (docker.errors.DockerException, OSError) as error:
            if client is not None:
                client.close()
            raise OSError(f"no container engine: {error}") from error
        self._client = client
        self._handlers: list[ChangeHandler] = []
        self._records: dict[str, ContainerRecord] = {}
        self._networks: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._exited: dict[str, asyncio.Event] = {}
        self._events: Any = None
        self._tasks = Tasks()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Find the containers of the node, and follow the events of the engine."""
        self._loop = asyncio.get_running_loop()
        for container in await self._call(self._list):
            self._note(container)
        self._events = await self._call(
            lambda: self._client.events(decode=True, filters={"type": "container"})
        )
        threading.Thread(target=self._follow_events, daemon=True, name="engine events").start()

    async def close(self) -> None:
        await self._tasks.close()
        if self._events is not None:
            with contextlib.suppress(Exception):
                self._events.close()
        await asyncio.to_thread(self._client.close)

    def on_change(self, handler: ChangeHandler) -> None:
        self._handlers.append(handler)

    async def pull(self, image: str, policy: str) -> Image:
        if policy != "Always":
            try:
                found = await self._call(lambda: self._client.images.get(image))
                return Image(found.id, int(found.attrs.get("Size", 0)))
            except RuntimeFailure:
                if policy == "Never":
                    raise RuntimeFailure(
                        "ErrImageNeverPull",
                        f'Container image "{image}" is not present with pull policy of Never',
                    ) from None
        started = self._clock.monotonic()
        try:
            pulled = await self._call(lambda: self._client.images.pull(image))
        except RuntimeFailure as error:
            raise RuntimeFailure("ErrImagePull", str(error)) from error
        found = pulled[0] if isinstance(pulled, list) else pulled
        return Image(found.id, int(found.attrs.get("Size", 0)), self._clock.monotonic() - started)

    async def create_sandbox(self, spec: SandboxSpec) -> str:
        """Return no address yet: the pod gets network and address with its first container."""
        if spec.host_network or self._network in _NETWORK_FREE:
            return "127.0.0.1"
        return ""

    async def remove_sandbox(self, pod_uid: str) -> None:
        for record in [record for record in self._records.values() if record.pod_uid == pod_uid]:
            if record.state is State.RUNNING:
                await self.stop(record.id, 0)
            await self.remove(record.id)
        self._networks.pop(pod_uid, None)

    async def run(self, spec: ContainerSpec) -> str:
        if self._confined_to is not None:
            spec = await asyncio.to_thread(confine, spec, self._confined_to)
        options = dockercontainer.options(spec, self._node) | self._network_options(spec)
        injection = await asyncio.to_thread(self._injection, spec)
        options = injection.add_to(options)
        await self._call(lambda: self._forget(options["name"]))
        try:
            container = await self._call(lambda: self._client.containers.create(spec.image, **options))
        except RuntimeFailure as error:
            raise RuntimeFailure("CreateContainerError", str(error)) from error
        try:
            if injection.archive:
                await self._call(lambda: container.put_archive("/", injection.archive))
            await self._call(container.start)
        except RuntimeFailure as error:
            await self._call(lambda: container.remove(force=True))
            raise RuntimeFailure("RunContainerError", str(error)) from error
        await self._call(container.reload)
        self._networks.setdefault(spec.pod_uid, container.id)
        self._note(container)
        self._tell(self._records[container.id])
        return str(container.id)

    async def stop(self, container_id: str, grace_seconds: float, signal: str = "") -> None:
        record = self._records.get(container_id)
        if record is None or record.state is State.EXITED:
            return
        exited = self._exited.setdefault(container_id, asyncio.Event())
        with contextlib.suppress(RuntimeFailure):
            container = await self._call(lambda: self._client.containers.get(container_id))
            if grace_seconds > 0:
                await self._call(lambda: container.stop(timeout=max(int(grace_seconds), 1)))
            else:
                await self._call(container.kill)
            await self._refresh(container_id)
        if not exited.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await exited.wait()

    async def remove(self, container_id: str) -> None:
        self._records.pop(container_id, None)
        self._exited.pop(container_id, None)
        await self._call(lambda: self._forget(container_id))

    def containers(self) -> Sequence[ContainerRecord]:
        return list(self._records.values())

    def pods(self) -> Collection[str]:
        return {record.pod_uid for record in self._records.values()}

    async def usage(self) -> Usage:
        """Return the resources used, from the statistics of the engine, without containers that end meanwhile."""
        running = [record for record in self._records.values() if record.state is State.RUNNING]
        found = await asyncio.gather(*(self._stats(record.id) for record in running))
        measured = [(record, stats) for record, stats in zip(running, found, strict=True) if stats]
        return Usage(self._clock.now(), measured)

    async def _stats(self, container_id: str) -> Consumption | None:
        api = self._client.api
        try:
            stats = await self._call(lambda: api.stats(container_id, stream=False, one_shot=True))
            return dockercontainer.consumption(stats)
        except RuntimeFailure:
            return None

    async def exec(
        self, container_id: str, command: Sequence[str], timeout: float | None = None
    ) -> tuple[int, bytes]:
        async def run() -> tuple[int, bytes]:
            container = await self._call(lambda: self._client.containers.get(container_id))
            result = await self._call(lambda: container.exec_run(list(command)))
            return int(result.exit_code), bytes(result.output)

        try:
            async with asyncio.timeout(timeout):
                return await run()
        except TimeoutError as error:
            raise RuntimeFailure(
                "DeadlineExceeded", f"command {' '.join(command)!r} timed out after {timeout:g}s"
            ) from error

    def cdi_edits(self, device: str) -> JsonObject:
        return cdi_edits(device, self._cdi_directory)

    async def exec_session(self, container_id: str, command: Sequence[str], streams: Streams) -> int:
        api = self._client.api

        def start() -> tuple[str, Any]:
            made = api.exec_create(container_id, list(command), stdin=streams.stdin, tty=streams.tty)
            return made["Id"], api.exec_start(made["Id"], tty=streams.tty, socket=True)

        exec_id, connection = await self._call(start)
        async with self._pass_size_on(streams, partial(api.exec_resize, exec_id)):
            await pump(connection, streams, tty=streams.tty)
        return int((await self._call(lambda: api.exec_inspect(exec_id)))["ExitCode"] or 0)

    async def attach(self, container_id: str, streams: Streams) -> None:
        api = self._client.api
        wanted = {"stdin": int(streams.stdin), "stdout": 1, "stderr": 1, "stream": 1}
        connection = await self._call(lambda: api.attach_socket(container_id, params=wanted))
        config = (await self._call(lambda: api.inspect_container(container_id)))["Config"]
        async with self._pass_size_on(streams, partial(api.resize, container_id)):
            await pump(connection, streams, tty=bool(config.get("Tty")))

    @asynccontextmanager
    async def _pass_size_on(
        self, streams: Streams, resize: Callable[[int, int], None]
    ) -> AsyncIterator[None]:
        """Pass each size of the user's terminal to ``resize``, which takes height and width."""
        tasks: set[asyncio.Task[None]] = set()

        async def change(size: TerminalSize) -> None:
            # A process that has ended has no terminal.
            with contextlib.suppress(RuntimeFailure):
                await self._call(lambda: resize(size.lines, size.columns))

        def start_change(size: TerminalSize) -> None:
            tasks.add(task := asyncio.ensure_future(change(size)))
            task.add_done_callback(tasks.discard)

        if streams.tty:
            streams.on_resize(start_change)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self.address(pod_uid) or "127.0.0.1"
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                return await asyncio.open_connection(address, port)
        except (OSError, TimeoutError) as error:
            why = os.strerror(error.errno).lower() if error.errno else "i/o timeout"
            text = f"dial tcp {address}:{port}: connect: {why}"
            raise RuntimeFailure("ConnectionRefused", text) from error

    async def probe(
        self, container_id: str, kind: str, probe: Probe, pod_ip: str, container: Container
    ) -> tuple[bool, str]:
        record = self._records.get(container_id)
        address = pod_ip or (self.address(record.pod_uid) if record is not None else "")
        return await probe_network(probe, address or "127.0.0.1", container)

    def sandbox_created(self, pod_uid: str) -> datetime | None:
        """Return the start of the first container, because there is no sandbox besides the containers."""
        starts = (record.started_at for record in self.containers() if record.pod_uid == pod_uid)
        return min((start for start in starts if start is not None), default=None)

    async def power_off(self) -> None:
        """Remove all containers.

        Stopping them is not enough: the engine keeps running, so the containers would not look as after a reboot.
        """
        await self.start()
        try:
            for record in self.containers():
                await self.stop(record.id, 0)
                await self.remove(record.id)
        finally:
            await self.close()

    def address(self, pod_uid: str) -> str:
        """Return the IP address of the pod; empty until it has one."""
        owner = self._networks.get(pod_uid)
        return self._addresses.get(owner, "") if owner is not None else ""

    async def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[bytes]:
        container = await self._call(lambda: self._client.containers.get(container_id))
        arguments: dict[str, Any] = {
            "stdout": options.stream in ("All", "Stdout"),
            "stderr": options.stream in ("All", "Stderr"),
            "timestamps": options.timestamps,
            "tail": "all" if options.tail_lines is None else options.tail_lines,
            "since": options.since,
        }
        left = options.limit_bytes
        log = await self._call(lambda: container.logs(stream=True, follow=options.follow, **arguments))
        async for piece in pieces(log):
            data = piece if left is None else piece[:left]
            yield data
            if left is not None and (left := left - len(data)) <= 0:
                return

    def _network_options(self, spec: ContainerSpec) -> dict[str, Any]:
        owner = self._networks.get(spec.pod_uid)
        if spec.host_network:
            return {"network_mode": "host"}
        if owner is not None and owner in self._records and self._network not in _NETWORK_FREE:
            return {"network_mode": f"container:{owner}"}
        options: dict[str, Any] = {"hostname": spec.hostname[:63]} if self._network != "host" else {}
        return options | ({"network": self._network} if self._network else {})

    def _injection(self, spec: ContainerSpec) -> Injection:
        """Return the options that inject the devices of the container: those of device plugins and CDI devices."""
        edits, requests = device_edits(spec.devices), []
        if spec.cdi_device_ids and self._knows_cdi:
            requests = [DeviceRequest(driver="cdi", device_ids=list(spec.cdi_device_ids))]
        elif spec.cdi_device_ids:
            try:
                edits = edits.merge(resolve(spec.cdi_device_ids, self._cdi_directory))
            except UnresolvableError as error:
                raise RuntimeFailure("CreateContainerError", f"failed to inject devices: {error}") from error
        if edits == ContainerEdits():
            return Injection({"device_requests": requests} if requests else {})
        injection = injection_of(edits, library_path(self._image_environment(spec.image)))
        if injection.left_out:
            _log.warning(
                "parts of a container's devices are left out",
                container=f"{spec.namespace}/{spec.pod}/{spec.name}",
                left_out=list(injection.left_out),
            )
        if requests:
            injection = replace(injection, options={**injection.options, "device_requests": requests})
        return injection

    def _image_environment(self, image: str) -> Sequence[str]:
        try:
            return self._client.images.get(image).attrs.get("Config", {}).get("Env") or ()
        except docker.errors.DockerException:
            return ()

    def _forget(self, name: str) -> None:
        with contextlib.suppress(docker.errors.NotFound):
            self._client.containers.get(name).remove(force=True)

    def _list(self) -> list[Any]:
        label = f"{dockercontainer.NODE_LABEL}={self._node}"
        return list(self._client.containers.list(all=True, filters={"label": label}))

    def _note(self, container: Any) -> ContainerRecord:
        record = dockercontainer.record(container)
        self._records[record.id] = record
        if address := dockercontainer.address(container):
            self._addresses[record.id] = address
            self._networks.setdefault(record.pod_uid, record.id)
        if record.state is State.EXITED:
            self._exited.setdefault(record.id, asyncio.Event()).set()
        return record

    async def _refresh(self, container_id: str) -> None:
        old = self._records.get(container_id)
        if old is None:
            return
        try:
            container = await self._call(lambda: self._client.containers.get(container_id))
        except RuntimeFailure:
            return
        new = self._note(container)
        if new.state is not old.state:
            self._tell(new)

    def _tell(self, record: ContainerRecord) -> None:
        for handler in self._handlers:
            handler(record)

    def _follow_events(self) -> None:
        loop = self._loop
        assert loop is not None
        with contextlib.suppress(Exception):
            for event in _mappings(self._events):
                container_id = event.get("id") or event.get("Actor", {}).get("ID", "")
                action = str(event.get("status") or event.get("Action", ""))
                if action in _ENDS and container_id:
                    loop.call_soon_threadsafe(self._refresh_ended, container_id)

    def _refresh_ended(self, container_id: str) -> None:
        if container_id in self._records:
            self._tasks.start(self._refresh(container_id))

    async def _call(self, function: Callable[[], R]) -> R:
        try:
            return await asyncio.to_thread(function)
        except (docker.errors.DockerException, OSError) as error:
            text = getattr(error, "explanation", None) or str(error)
            raise RuntimeFailure("RuntimeError", str(text)) from error


def _mappings(events: Any) -> Iterator[Mapping[str, Any]]:
    for event in events:
        if isinstance(event, Mapping):
            yield event


def _knows_cdi(info: Mapping[str, Any], directory: Path) -> bool:
    return str(directory) in (info.get("CDISpecDirs") or ())
