"""A cluster for tests: apply objects, wait for conditions, inject faults, and ask questions."""

import asyncio
import contextlib
import inspect
import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from dra_shared.jsontypes import JsonObject

from dra_testing import grpcimport  # noqa: F401  # its import sets gRPC up: before any other does

# isort: split

import httpx
import orjson
from dra_driverkit.directories import Directories
from dra_driverkit.program import Surroundings
from dra_kube import manifests, objects
from dra_kube.cluster import Cluster
from dra_kube.discovery import Discovery, ServedResource
from dra_lab.faults.striking import Striker
from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client
from dra_shared.client.retry import MAX_RETRIES
from dra_shared.clock import FakeClock
from dra_shared.errors import UserError
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.places import PATH
from dra_shared.files import scratch_folder

from dra_testing.conditions import TIMEOUT, Condition, obstacle, predicate
from dra_testing.disturbance import Disturbance, inject
from dra_testing.options import Options
from dra_testing.pods import AsyncPod
from dra_testing.processes import Processes
from dra_testing.report import describe, write_bundle
from dra_testing.rollback import RollbackTimeout, Snapshot
from dra_testing.services import Services

Objects = list[JsonObject]
Manifests = str | Path | JsonObject | Sequence[str | Path | JsonObject]
"""A file or folder, YAML or JSON as text, a dictionary, or several of them."""
_POLL = 0.005


class WaitTimeout(AssertionError):
    """A condition did not come true in time. The message describes the object's state and its events."""


class AsyncCluster:
    """A cluster that lives as long as an ``async with`` block.

    ``AsyncCluster(nodes=2)`` creates it. The arguments are those of :class:`~dra_testing.options.Options`.
    """

    def __init__(self, options: Options | None = None, **arguments: Any) -> None:
        self.options = options or Options(**arguments)
        self.data = Path()
        """The cluster's temporary directory."""
        self.client: Client
        self.is_damaged = False
        """True if something happened that a rollback does not undo, such as a broken device."""
        self._discovery: Discovery | None = None
        self._start: Snapshot | None = None
        self._stack = contextlib.AsyncExitStack()
        self._services: Services | Processes

    async def __aenter__(self) -> Self:
        self.data = Path(tempfile.mkdtemp(prefix="dralab-", dir=scratch_folder()))
        self._stack.callback(shutil.rmtree, self.data, ignore_errors=True)
        kind = Processes if self.options.processes else Services
        try:
            self._services = await self._stack.enter_async_context(kind(self.options, self.data))
            self.client = await self._stack.enter_async_context(
                Client(self.url, user_agent="dralab", retries=MAX_RETRIES)
            )
        except BaseException:
            await self._stack.aclose()
            raise
        self._start = self.snapshot() if isinstance(self._services, Services) else None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The API server's address."""
        return self._services.url

    @property
    def kubeconfig(self) -> Path:
        """The path of a kubeconfig for kubectl and other clients."""
        return self.data / "kubeconfig"

    @property
    def clock(self) -> FakeClock:
        """The services' fake clock.

        Raises:
            RuntimeError: the cluster was started without ``fake_clock``.
        """
        clock = self._services.clock if isinstance(self._services, Services) else None
        if not isinstance(clock, FakeClock):
            raise RuntimeError("this cluster has the machine's clock: ask for one with fake_clock=True")
        return clock

    def surroundings(self, driver: str, node: str = "node-0") -> Surroundings:
        """Return the directories and the client for a driver of your own on a node."""
        home = self.data / "nodes" / node
        return Surroundings(node, Directories.below(driver, home / "kubelet", home / "cdi"), self.client)

    # Objects

    async def apply(self, *what: Manifests, namespace: str | None = None) -> Objects:
        """Create or change objects, and return them as stored.

        Each argument is a file or folder, YAML or JSON as text, a dictionary, or a list of these.
        """
        loaded = [obj for one in what for obj in load(one)]
        discovery = await self._discover()
        applied = await objects.apply(self.client, discovery, loaded, namespace)
        return [await self._read(where.path) for where, _ in applied]

    async def get(self, target: str, namespace: str | None = None) -> JsonObject:
        """Return the object ``kind/name``.

        Raises:
            ApiError: there is none.
        """
        resource, name = await self._target(target)
        return await self._read(resource.path(namespace or "default", name))

    async def list(
        self, kind: str, namespace: str | None = None, *, selector: str = "", field_selector: str = ""
    ) -> Objects:
        """Return the objects of a kind, in all namespaces unless you name one."""
        resource = (await self._discover()).resolve(kind)
        params = {"labelSelector": selector, "fieldSelector": field_selector}
        listed = await self._read(resource.path(namespace), {k: v for k, v in params.items() if v})
        items: Objects = listed["items"]
        return items

    async def delete(
        self, *what: Manifests, namespace: str | None = None, grace_period: int | None = 0
    ) -> None:
        """Delete ``kind/name`` or the objects of manifests, and wait until they are gone."""
        discovery = await self._discover()
        targets = []
        for one in what:
            if isinstance(one, str) and _is_target(one):
                resource, name = await self._target(one)
                space = (namespace or "default") if resource.namespaced else None
                targets.append(objects.Target(resource, space, name))
            else:
                targets += [objects.target(discovery, obj, namespace) for obj in load(one)]
        await objects.delete(self.client, targets, missing_ok=True, grace_period=grace_period)

    async def resources(self) -> "Sequence[ServedResource]":
        """Return the resources that the API server serves."""
        return (await self._discover()).resources

    # Waiting

    async def wait_for(
        self,
        target: str,
        condition: Condition = "",
        *,
        namespace: str | None = None,
        timeout: float = TIMEOUT,
    ) -> JsonObject:
        """Wait until the object ``kind/name`` meets the condition, and return the object.

        A condition is a phase (``Running``), the type of a condition that is True (``Ready``), ``allocated``, ``gone``,
        or a function. Without a condition, a pod must be ready or have succeeded, a claim must be allocated, and any
        other object must exist.

        Raises:
            WaitTimeout: the object does not meet it in ``timeout`` seconds, or never can. The message has the
                scheduler's explanation and the object's events.
        """
        resource, name = await self._target(target)
        path, holds = resource.path(namespace or "default", name), predicate(condition, resource)
        last: JsonObject | None = None
        wanted = condition if isinstance(condition, str) else getattr(condition, "__name__", "the condition")
        try:
            async with asyncio.timeout(timeout):
                for attempt in itertools.count():
                    last = await self._read_if_exists(path)
                    if (condition == "gone") if last is None else holds(last):
                        return last or {}
                    if last is not None and (state := obstacle(condition, resource, last)):
                        break
                    await self._pause(min(_POLL * (1 + attempt / 10), 0.05))
            why = f"is {state} and can no longer be {wanted or 'ready'}"
        except TimeoutError:
            why = f"is not {wanted or 'ready'} after {timeout:g} s"
            # The time may have ended before the first answer came.
            last = last or await self._read_if_exists(path)
        text = await describe(self, target, namespace or "default", resource, last)
        raise WaitTimeout(f"{target} {why}\n{text}")

    async def until(
        self, condition: Callable[[], object], *, timeout: float = TIMEOUT, what: str = "the condition"
    ) -> Any:
        """Wait for the first true result of ``condition``, which may be a coroutine function.

        Raises:
            WaitTimeout: there is none in ``timeout`` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    result = condition()
                    if inspect.isawaitable(result):
                        result = await result
                    if result:
                        return result
                    await self._pause(_POLL)
        except TimeoutError:
            raise WaitTimeout(f"{what} did not hold within {timeout:g} s") from None

    # Pods

    def pod(self, name: str, namespace: str = "default") -> AsyncPod:
        """Return a handle of the pod, which need not exist yet."""
        return AsyncPod(self, name, namespace)

    # Questions

    async def explain(self, target: str, namespace: str = "default") -> str:
        """Explain why ``pod/NAME`` or ``claim/NAME`` has its node or devices, or has none, as ``dralab explain``.

        Raises:
            UserError: there is no such object.
        """
        kind, _, name = target.rpartition("/")
        kind = "claim" if "claim" in kind else "pod"
        url = f"{self._services.urls['scheduler']}/explain/{kind}/{namespace}/{name}"
        async with Client(url) as client:
            response = await client.raw("GET", "", params={"format": "text"})
        if response.status_code != 200:
            raise UserError(response.text.strip())
        return response.text.rstrip()

    async def events(self, namespace: str | None = None) -> Objects:
        """Return the events, oldest first."""
        return sorted(await self.list("events", namespace), key=_last_time)

    async def bundle(self, folder: Path) -> Path:
        """Write objects, events, explanations and logs of the cluster into ``folder``, and return the archive."""
        return await write_bundle(self, folder)

    # Faults

    async def fault(self, node: str = "node-0", gpu: int = 0, **fault: Any) -> None:
        """Break a simulated GPU: ``xid=79``, ``lost=True``, ``uncorrected_ecc=1``, ``corrected_ecc=1``.

        Raises:
            UserError: there is no such GPU or fault.
        """
        self.is_damaged = True
        body = {_camel(name): value for name, value in fault.items()}
        async with Client(self._services.urls["node-agent"]) as client:
            path = f"/simulated/nodes/{node}/gpus/{gpu}/faults"
            response = await client.raw("POST", path, content=orjson.dumps(body))
        if response.status_code >= 400:
            raise UserError(response.text.strip())

    async def disturb(self, fault: str, *, seconds: float = 10.0, **options: Any) -> Disturbance:
        """Inject a fault for so many seconds; see docs/faults.md.

        Faults of requests, such as ``latency``, take ``delay``, ``code``, ``share``, ``seed``, ``verbs``,
        ``resources``, ``agents``, and ``service``, which limits the fault to the requests of that service. Faults of
        nodes, such as ``driver-crash``, take ``node``, ``driver``, ``gpu``, ``xid``, ``delay`` and ``ahead``. ``stop``
        and ``kill`` take ``service``. The result has the promise that Kubernetes makes, and later the verdict on it.

        Raises:
            UserError: there is no such fault or option, or no process that the fault can affect.
        """
        kind = KINDS.get(fault)
        strikes_process = kind is not None and kind.where in ("process", "scheduling")
        if strikes_process and isinstance(self._services, Services):
            raise UserError(f"{fault} affects a process: ask for a cluster with processes=True")
        self.is_damaged = self.is_damaged or (kind is not None and kind.where == "node")
        return await inject(self.client, self._services, {"fault": fault, "seconds": seconds, **options})

    async def calm(self) -> None:
        """End the faults that :meth:`disturb` injected."""
        if isinstance(self._services, Services):
            await self.client.raw("DELETE", PATH)
        else:
            # The API server may be stopped by a fault, so it cannot be asked.
            await Striker(Cluster(self.data)).clear()

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Return a snapshot of all objects.

        Raises:
            RuntimeError: the services are processes of their own.
        """
        if not isinstance(self._services, Services):
            raise RuntimeError("only a cluster in this process can be rolled back")
        return Snapshot(self._services.server)

    async def rollback(self, to: Snapshot | None = None) -> None:
        """Restore all objects from the snapshot, or to the state of the new cluster.

        Raises:
            RollbackTimeout: a service did not follow. The message has the reason.
            RuntimeError: the services are processes of their own.
        """
        wanted = to or self._start
        if wanted is None or not isinstance(self._services, Services):
            raise RuntimeError("only a cluster in this process can be rolled back")
        self._discovery = None
        try:
            await wanted.restore(self._services)
        except RollbackTimeout:
            self.is_damaged = True
            raise

    # Clients of other libraries

    def httpx(self, **arguments: Any) -> httpx.AsyncClient:
        """Return an httpx client, which the caller closes."""
        return httpx.AsyncClient(base_url=self.url, **arguments)

    def lightkube(self, **arguments: Any) -> Any:
        """Return an ``AsyncClient`` of lightkube."""
        from lightkube import AsyncClient, KubeConfig

        return AsyncClient(config=KubeConfig.from_file(self.kubeconfig), **arguments)

    async def kr8s(self, **arguments: Any) -> Any:
        """Return an API object of ``kr8s.asyncio``."""
        import kr8s.asyncio

        return await kr8s.asyncio.api(kubeconfig=str(self.kubeconfig), **arguments)

    def kubernetes(self) -> Any:
        """Return an ``ApiClient`` of the official client. It blocks, so call it in a thread."""
        import kubernetes

        return kubernetes.config.new_client_from_config(str(self.kubeconfig))

    # Helpers

    async def _pause(self, seconds: float) -> None:
        await self._services.pause(seconds)

    async def _discover(self) -> Discovery:
        if self._discovery is None:
            self._discovery = await Discovery.read(self.client)
        return self._discovery

    async def _target(self, target: str) -> tuple[ServedResource, str]:
        kind, slash, name = target.rpartition("/")
        if not slash or not name:
            raise ValueError(f"{target!r} names no object: give kind/name, such as pod/x")
        return (await self._discover()).resolve(kind), name

    async def _read(self, path: str, params: Mapping[str, str] | None = None) -> JsonObject:
        response = await self.client.raw("GET", path, params=dict(params or {}))
        if response.status_code != 200:
            raise from_response(response.status_code, response.content)
        found: JsonObject = orjson.loads(response.content)
        return found

    async def _read_if_exists(self, path: str) -> JsonObject | None:
        response = await self.client.raw("GET", path)
        return orjson.loads(response.content) if response.status_code == 200 else None


def load(what: Manifests) -> Sequence[JsonObject]:
    """Return the objects of a file, a folder or a text, the given object itself, or those of a list of these.

    Raises:
        UserError: there are no objects, or they cannot be read.
    """
    if isinstance(what, dict):
        return [what]
    if isinstance(what, list | tuple):
        return [obj for one in what for obj in load(one)]
    if isinstance(what, str) and ("\n" in what or ":" in what or what.lstrip().startswith("{")):
        return manifests.parse("the given text", inspect.cleandoc(what))
    return manifests.load([str(what)])


def _is_target(text: str) -> bool:
    return "/" in text and "\n" not in text and ":" not in text and not Path(text).exists()


def _last_time(event: JsonObject) -> str:
    series = event.get("series") or {}
    seen: str = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    return seen


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
