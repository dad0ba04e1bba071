"""A cluster for blocking code: its services run on an event loop in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from dra_shared.jsontypes import JsonObject

from dra_testing import grpcimport  # noqa: F401  # its import sets gRPC up: before any other does

# isort: split

import httpx
import uvloop
from dra_driverkit.program import Surroundings
from dra_shared.faults.promises import Verdict

from dra_testing.cluster import AsyncCluster, Manifests, Objects
from dra_testing.conditions import TIMEOUT, Condition
from dra_testing.disturbance import Disturbance
from dra_testing.options import Options
from dra_testing.pods import AsyncPod
from dra_testing.rollback import Snapshot

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, running until it is closed."""

    def __init__(self) -> None:
        # uvloop, as in the services' processes: a third faster than asyncio's own loop.
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dralab", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def run_from(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and return its result to a coroutine of another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """Cancel the tasks that still run, and end the thread."""
        self.run(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()


async def _enter(what: AbstractAsyncContextManager[T]) -> T:
    return await what.__aenter__()


async def _leave(what: AbstractAsyncContextManager[Any]) -> None:
    await what.__aexit__(None, None, None)


class Cluster:
    """A cluster that lives as long as a ``with`` block; see :class:`~dra_testing.cluster.AsyncCluster`.

    ``with Cluster(nodes=2) as cluster:`` starts it. The arguments are those of :class:`~dra_testing.options.Options`.
    """

    def __init__(self, options: Options | None = None, **arguments: Any) -> None:
        self.asynchronous = AsyncCluster(options, **arguments)
        """The cluster for code that runs on its loop."""
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the cluster, as ``with`` does. For ``setUpClass`` and the like."""
        self._thread = LoopThread()
        try:
            self.run(self.asynchronous.__aenter__())
        except BaseException:
            self._thread.close()
            raise

    def stop(self) -> None:
        """Stop the cluster, as the end of ``with`` does."""
        if self._thread is not None:
            with contextlib.closing(self._thread):
                self.run(self.asynchronous.__aexit__(None, None, None))
            self._thread = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's loop, and return its result.

        Raises:
            RuntimeError: the cluster does not run.
        """
        if self._thread is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a with block")
        return self._thread.run(work)

    async def run_from(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's loop, and return its result to a coroutine of another loop.

        Raises:
            RuntimeError: the cluster does not run.
        """
        if self._thread is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a with block")
        return await self._thread.run_from(work)

    @contextlib.contextmanager
    def run_context(self, what: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter an asynchronous context on the cluster's loop for the block, such as that of a driver."""
        entered = self.run(_enter(what))
        try:
            yield entered
        finally:
            self.run(_leave(what))

    # Deprecated: the name in 0.1, kept for one release.
    running = run_context

    def surroundings(self, driver: str, node: str = "node-0") -> Surroundings:
        """Return the directories and the client for a driver of your own on a node."""
        return self.asynchronous.surroundings(driver, node)

    @property
    def options(self) -> Options:
        """The options that the cluster was started with."""
        return self.asynchronous.options

    @property
    def url(self) -> str:
        """The API server's address."""
        return self.asynchronous.url

    @property
    def data(self) -> Path:
        """The cluster's temporary directory."""
        return self.asynchronous.data

    @property
    def kubeconfig(self) -> Path:
        """The path of a kubeconfig for kubectl and other clients."""
        return self.asynchronous.kubeconfig

    @property
    def is_damaged(self) -> bool:
        """True if something happened that a rollback does not undo, such as a broken device."""
        return self.asynchronous.is_damaged

    def apply(self, *what: Manifests, namespace: str | None = None) -> Objects:
        """Create or change objects, and return them as stored.

        Each argument is a file or folder, YAML or JSON as text, a dictionary, or a list of these.
        """
        return self.run(self.asynchronous.apply(*what, namespace=namespace))

    def get(self, target: str, namespace: str | None = None) -> JsonObject:
        """Return the object ``kind/name``."""
        return self.run(self.asynchronous.get(target, namespace))

    def list(
        self, kind: str, namespace: str | None = None, *, selector: str = "", field_selector: str = ""
    ) -> Objects:
        """Return the objects of a kind, in all namespaces unless you name one."""
        found = self.asynchronous.list(kind, namespace, selector=selector, field_selector=field_selector)
        return self.run(found)

    def delete(self, *what: Manifests, namespace: str | None = None, grace_period: int | None = 0) -> None:
        """Delete ``kind/name`` or the objects of manifests, and wait until they are gone."""
        self.run(self.asynchronous.delete(*what, namespace=namespace, grace_period=grace_period))

    def wait_for(
        self,
        target: str,
        condition: Condition = "",
        *,
        namespace: str | None = None,
        timeout: float = TIMEOUT,
    ) -> JsonObject:
        """Wait until the object ``kind/name`` meets the condition; see :meth:`AsyncCluster.wait_for`."""
        return self.run(self.asynchronous.wait_for(target, condition, namespace=namespace, timeout=timeout))

    def until(
        self, condition: Callable[[], object], *, timeout: float = TIMEOUT, what: str = "the condition"
    ) -> Any:
        """Wait for the first true result of ``condition``, which is called in a thread of its own."""

        async def ask() -> object:
            return await asyncio.to_thread(condition)

        return self.run(self.asynchronous.until(ask, timeout=timeout, what=what))

    def pod(self, name: str, namespace: str = "default") -> "Pod":
        """Return a handle of the pod, which need not exist yet."""
        return Pod(self, self.asynchronous.pod(name, namespace))

    def explain(self, target: str, namespace: str = "default") -> str:
        """Explain why ``pod/NAME`` or ``claim/NAME`` has its node or devices, or has none, as ``dralab explain``."""
        return self.run(self.asynchronous.explain(target, namespace))

    def events(self, namespace: str | None = None) -> Objects:
        """Return the events, oldest first."""
        return self.run(self.asynchronous.events(namespace))

    def bundle(self, folder: Path) -> Path:
        """Write objects, events, explanations and logs of the cluster into ``folder``, and return the archive."""
        return self.run(self.asynchronous.bundle(folder))

    def fault(self, node: str = "node-0", gpu: int = 0, **fault: Any) -> None:
        """Break a simulated GPU: ``xid=79``, ``lost=True``, ``uncorrected_ecc=1``, ``corrected_ecc=1``."""
        self.run(self.asynchronous.fault(node, gpu, **fault))

    def disturb(self, fault: str, *, seconds: float = 10.0, **options: Any) -> "Disturbed":
        """Inject a fault; see :meth:`AsyncCluster.disturb`."""
        return Disturbed(self, self.run(self.asynchronous.disturb(fault, seconds=seconds, **options)))

    def calm(self) -> None:
        """End the faults that :meth:`disturb` injected."""
        self.run(self.asynchronous.calm())

    def advance(self, seconds: float) -> None:
        """Advance the fake clock."""
        self.run(self.asynchronous.clock.advance(seconds))

    def snapshot(self) -> Snapshot:
        """Return a snapshot of all objects."""
        return self.run(self._snapshot())

    async def _snapshot(self) -> Snapshot:
        return self.asynchronous.snapshot()

    def rollback(self, to: Snapshot | None = None) -> None:
        """Restore all objects from the snapshot, or to the state of the new cluster."""
        self.run(self.asynchronous.rollback(to))

    def httpx(self, **arguments: Any) -> httpx.Client:
        """Return an httpx client, which the caller closes."""
        return httpx.Client(base_url=self.url, **arguments)

    def lightkube(self, **arguments: Any) -> Any:
        """Return a ``Client`` of lightkube."""
        from lightkube import Client, KubeConfig

        return Client(config=KubeConfig.from_file(self.kubeconfig), **arguments)

    def kr8s(self, **arguments: Any) -> Any:
        """Return an API object of ``kr8s``."""
        import kr8s

        return kr8s.api(kubeconfig=str(self.kubeconfig), **arguments)

    def kubernetes(self) -> Any:
        """Return an ``ApiClient`` of the official client."""
        return self.asynchronous.kubernetes()


@dataclass(frozen=True)
class Disturbed:
    """A fault that was injected; see :class:`~dra_testing.disturbance.Disturbance`."""

    cluster: Cluster
    asynchronous: Disturbance

    @property
    def what(self) -> str:
        """A description of the fault."""
        return self.asynchronous.what

    @property
    def promise(self) -> str:
        """The promise that Kubernetes makes for this fault."""
        return self.asynchronous.promise

    def verdict(self) -> Verdict:
        """Wait until the fault is over and the cluster has settled, and return the verdict on the promise."""
        return self.cluster.run(self.asynchronous.verdict())

    def check(self) -> list[str]:
        """Wait until the fault is over, and return the parts of the promise that were kept.

        The result is empty if nothing tested the promise.

        Raises:
            Broken: a part was broken.
        """
        return self.cluster.run(self.asynchronous.check())

    # Deprecated: the name in 0.1, kept for one release.
    kept = check


@dataclass(frozen=True)
class Pod:
    """A handle of a pod, by name."""

    cluster: Cluster
    asynchronous: AsyncPod

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.asynchronous.name

    def logs(self, container: str | None = None, *, timeout: float = TIMEOUT, **params: str) -> str:
        """Return the log of a container as soon as it has started; of the only container, unless you name one."""
        return self.cluster.run(self.asynchronous.logs(container, timeout=timeout, **params))

    def wait_for(self, condition: Condition = "", *, timeout: float = TIMEOUT) -> JsonObject:
        """Wait until the pod meets the condition; see :meth:`AsyncCluster.wait_for`."""
        return self.cluster.run(self.asynchronous.wait_for(condition, timeout=timeout))

    def object(self) -> JsonObject:
        """Return the Pod object."""
        return self.cluster.run(self.asynchronous.object())

    def explain(self) -> str:
        """Explain why the pod has its node, or has none."""
        return self.cluster.run(self.asynchronous.explain())

    def delete(self, grace_period: int | None = 0) -> None:
        """Delete the pod and wait until it is gone."""
        self.cluster.run(self.asynchronous.delete(grace_period))

    def claims(self) -> Objects:
        """Return the pod's claims, in the order of its spec."""
        return self.cluster.run(self.asynchronous.claims())
