"""The same cluster for code that blocks: its services run on an event loop in a thread of their own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from dra_shared.jsontypes import JsonObject

from dra_testing import grpcimport  # noqa: F401  # its import sets gRPC up: before any other does

# isort: split

import httpx
import uvloop
from dra_driverkit.program import Surroundings
from dra_shared.faults.promises import Verdict

from dra_testing.cluster import AsyncCluster, Objects
from dra_testing.conditions import TIMEOUT, Condition
from dra_testing.disturbance import Disturbance
from dra_testing.options import Options
from dra_testing.pods import AsyncPod
from dra_testing.rollback import Snapshot

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a thread, until it is closed."""

    def __init__(self) -> None:
        # A third faster than asyncio's own, as in the services' processes.
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dralab", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``, which runs there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def run_from(self, work: Coroutine[Any, Any, T]) -> T:
        """The same, for the code of another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def close(self) -> None:
        """End what still runs there, and the thread."""
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
    """A cluster of one's own, from ``with`` until its end: see :class:`~dra_testing.cluster.AsyncCluster`.

    ``with Cluster(nodes=2) as cluster:`` starts it; its arguments are those of
    :class:`~dra_testing.options.Options`.
    """

    def __init__(self, options: Options | None = None, **arguments: Any) -> None:
        self.asynchronous = AsyncCluster(options, **arguments)
        """The same cluster, for the code of its loop."""
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """What ``with`` does at its begin, for ``setUpClass`` and the like."""
        self._thread = LoopThread()
        try:
            self.run(self.asynchronous.__aenter__())
        except BaseException:
            self._thread.close()
            raise

    def stop(self) -> None:
        """What ``with`` does at its end."""
        if self._thread is not None:
            with contextlib.closing(self._thread):
                self.run(self.asynchronous.__aexit__(None, None, None))
            self._thread = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, which runs on the cluster's loop.

        Raises:
            RuntimeError: the cluster does not run.
        """
        if self._thread is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a with block")
        return self._thread.run(work)

    async def run_from(self, work: Coroutine[Any, Any, T]) -> T:
        """The same, for the code of another loop.

        Raises:
            RuntimeError: the cluster does not run.
        """
        if self._thread is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a with block")
        return await self._thread.run_from(work)

    @contextlib.contextmanager
    def running(self, what: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Be within an asynchronous context on the cluster's loop: that of a driver, for example."""
        entered = self.run(_enter(what))
        try:
            yield entered
        finally:
            self.run(_leave(what))

    def surroundings(self, driver: str, node: str = "node-0") -> Surroundings:
        """Where a driver of one's own runs on a node: its directories, and a client for the cluster's loop."""
        return self.asynchronous.surroundings(driver, node)

    @property
    def options(self) -> Options:
        """What it was started with."""
        return self.asynchronous.options

    @property
    def url(self) -> str:
        """The API server's address."""
        return self.asynchronous.url

    @property
    def data(self) -> Path:
        """The cluster's directory; a temporary one."""
        return self.asynchronous.data

    @property
    def kubeconfig(self) -> Path:
        """For kubectl and every other client."""
        return self.asynchronous.kubeconfig

    @property
    def worn(self) -> bool:
        """Whether something happened that a roll back does not undo: a broken device."""
        return self.asynchronous.worn

    def apply(self, *what: str | Path | JsonObject, namespace: str | None = None) -> Objects:
        """Create or change objects: files and folders, YAML or JSON as text, or dictionaries; gives them as stored."""
        return self.run(self.asynchronous.apply(*what, namespace=namespace))

    def get(self, target: str, namespace: str | None = None) -> JsonObject:
        """The object ``kind/name``."""
        return self.run(self.asynchronous.get(target, namespace))

    def list(
        self, kind: str, namespace: str | None = None, *, selector: str = "", field_selector: str = ""
    ) -> Objects:
        """The objects of a kind, in all namespaces unless one is named."""
        found = self.asynchronous.list(kind, namespace, selector=selector, field_selector=field_selector)
        return self.run(found)

    def delete(
        self, *what: str | Path | JsonObject, namespace: str | None = None, grace_period: int | None = 0
    ) -> None:
        """Delete ``kind/name``, or what manifests name, and wait until all of it is gone."""
        self.run(self.asynchronous.delete(*what, namespace=namespace, grace_period=grace_period))

    def wait_for(
        self,
        target: str,
        condition: Condition = "",
        *,
        namespace: str | None = None,
        timeout: float = TIMEOUT,
    ) -> JsonObject:
        """Wait until the object ``kind/name`` meets the condition: see :meth:`AsyncCluster.wait_for`."""
        return self.run(self.asynchronous.wait_for(target, condition, namespace=namespace, timeout=timeout))

    def until(
        self, condition: Callable[[], object], *, timeout: float = TIMEOUT, what: str = "the condition"
    ) -> Any:
        """Wait for the first true result of ``condition``, which is called in a thread of its own."""

        async def ask() -> object:
            return await asyncio.to_thread(condition)

        return self.run(self.asynchronous.until(ask, timeout=timeout, what=what))

    def pod(self, name: str, namespace: str = "default") -> "Pod":
        """The pod of that name, whether it is there or not yet."""
        return Pod(self, self.asynchronous.pod(name, namespace))

    def explain(self, target: str, namespace: str = "default") -> str:
        """Why ``pod/NAME`` or ``claim/NAME`` is where it is, or nowhere: ``dralab explain``."""
        return self.run(self.asynchronous.explain(target, namespace))

    def events(self, namespace: str | None = None) -> Objects:
        """The events, oldest first."""
        return self.run(self.asynchronous.events(namespace))

    def bundle(self, folder: Path) -> Path:
        """Write all that is known of the cluster into ``folder``: objects, events, explanations, logs."""
        return self.run(self.asynchronous.bundle(folder))

    def fault(self, node: str = "node-0", gpu: int = 0, **fault: Any) -> None:
        """Break a simulated GPU: ``xid=79``, ``lost=True``, ``uncorrected_ecc=1``, ``corrected_ecc=1``."""
        self.run(self.asynchronous.fault(node, gpu, **fault))

    def disturb(self, fault: str, *, seconds: float = 10.0, **options: Any) -> "Disturbed":
        """Let something go wrong: see :meth:`AsyncCluster.disturb`."""
        return Disturbed(self, self.run(self.asynchronous.disturb(fault, seconds=seconds, **options)))

    def calm(self) -> None:
        """End what :meth:`disturb` began."""
        self.run(self.asynchronous.calm())

    def advance(self, seconds: float) -> None:
        """Let time pass on the fake clock."""
        self.run(self.asynchronous.clock.advance(seconds))

    def snapshot(self) -> Snapshot:
        """All objects as they are now."""
        return self.run(self._snapshot())

    async def _snapshot(self) -> Snapshot:
        return self.asynchronous.snapshot()

    def rollback(self, to: Snapshot | None = None) -> None:
        """Make all objects as they were in the snapshot, or when the cluster was new."""
        self.run(self.asynchronous.rollback(to))

    def httpx(self, **arguments: Any) -> httpx.Client:
        """A client of httpx, which the caller closes."""
        return httpx.Client(base_url=self.url, **arguments)

    def lightkube(self, **arguments: Any) -> Any:
        """A ``Client`` of lightkube."""
        from lightkube import Client, KubeConfig

        return Client(config=KubeConfig.from_file(self.kubeconfig), **arguments)

    def kr8s(self, **arguments: Any) -> Any:
        """An API object of ``kr8s``."""
        import kr8s

        return kr8s.api(kubeconfig=str(self.kubeconfig), **arguments)

    def kubernetes(self) -> Any:
        """An ``ApiClient`` of the official client."""
        return self.asynchronous.kubernetes()


@dataclass(frozen=True)
class Disturbed:
    """A fault that was asked for: see :class:`~dra_testing.disturbance.Disturbance`."""

    cluster: Cluster
    asynchronous: Disturbance

    @property
    def what(self) -> str:
        """What it does."""
        return self.asynchronous.what

    @property
    def promise(self) -> str:
        """What Kubernetes promises to those who live through it."""
        return self.asynchronous.promise

    def verdict(self) -> Verdict:
        """Wait until it is over and the cluster at rest: what was kept of the promise, and what was not."""
        return self.cluster.run(self.asynchronous.verdict())

    def kept(self) -> list[str]:
        """What was kept of the promise, once it is over; nothing where nothing of it was tried.

        Raises:
            Broken: something was not.
        """
        return self.cluster.run(self.asynchronous.kept())


@dataclass(frozen=True)
class Pod:
    """A pod by name."""

    cluster: Cluster
    asynchronous: AsyncPod

    @property
    def name(self) -> str:
        """Its name."""
        return self.asynchronous.name

    def logs(self, container: str | None = None, *, timeout: float = TIMEOUT, **params: str) -> str:
        """Its log, as soon as there is one; of its only container, unless one is named."""
        return self.cluster.run(self.asynchronous.logs(container, timeout=timeout, **params))

    def wait_for(self, condition: Condition = "", *, timeout: float = TIMEOUT) -> JsonObject:
        """Wait until it meets the condition: see :meth:`AsyncCluster.wait_for`."""
        return self.cluster.run(self.asynchronous.wait_for(condition, timeout=timeout))

    def object(self) -> JsonObject:
        """The object."""
        return self.cluster.run(self.asynchronous.object())

    def explain(self) -> str:
        """Why it is where it is, or nowhere."""
        return self.cluster.run(self.asynchronous.explain())

    def delete(self, grace_period: int | None = 0) -> None:
        """Delete it and wait until it is gone."""
        self.cluster.run(self.asynchronous.delete(grace_period))

    def claims(self) -> Objects:
        """The claims that it uses, in the order of its spec."""
        return self.cluster.run(self.asynchronous.claims())
