"""Faults of nodes: their drivers, kubelets, disks, clocks and their reports to the API server."""

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from dra_driverkit.files import full_disk
from dra_shared.clock import Clock, TickingClock, is_ticking
from dra_shared.faults.board import Count, FaultError, UnknownNode
from dra_shared.log import logger

from dra_node_agent.faults.fault import Fault, Strike
from dra_node_agent.faults.remains import Remains
from dra_node_agent.kubelet.dra.callfaults import CallFault, CallFaults
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.node import NodeReporter

_CALLS: tuple[CallFault, ...] = (
    "driver-hang",
    "driver-slow",
    "driver-wrong",
    "driver-gone",
    "driver-reset",
    "driver-old",
)

_log = logger(__name__)


class NodeClock:
    """A node's clock, which may be ahead of other clocks and runs at the same speed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = 0.0

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class TickingNodeClock(NodeClock):
    """A node's clock over a clock that advances by itself."""

    def __init__(self, clock: TickingClock) -> None:
        super().__init__(clock)
        self._real = clock.real

    def real(self, seconds: float) -> float:
        return self._real(seconds)


def node_clock(clock: Clock) -> NodeClock:
    """Return a clock for one node, based on the agent's."""
    return TickingNodeClock(clock) if is_ticking(clock) else NodeClock(clock)


class FaultyNode(Protocol):
    """The interface of a node for faults.

    Args:
        home: all of its files.
        root: its kubelet's directory.
        remains: what faults leave there.
    """

    home: Path
    root: Path
    remains: Remains
    calls: CallFaults
    clock: NodeClock

    @property
    def reporter(self) -> NodeReporter: ...

    @property
    def is_running(self) -> bool:
        """True if its kubelet is running."""
        ...

    def own_drivers(self) -> Collection[str]:
        """Return the names of the DRA drivers that the agent runs there."""
        ...

    def registered_drivers(self) -> Collection[str]:
        """Return the names of the drivers registered with the kubelet, wherever they run."""
        ...

    def stop_driver(self, name: str) -> AbstractAsyncContextManager[None]:
        """Stop the driver inside the context. An empty name means every driver."""
        ...

    async def stop_kubelet(self) -> None:
        """Stop the kubelet. Its containers keep running."""
        ...

    async def start_kubelet(self) -> None:
        """Start a new kubelet. Raises DraError if its checkpoint is damaged."""
        ...

    async def delete_node(self) -> None:
        """Delete the Node object, like a cloud provider whose machine was removed."""
        ...


class NodeFaults:
    """Faults of an agent's nodes. ``node`` returns a node by name, or None."""

    def __init__(self, node: Callable[[str], FaultyNode | None]) -> None:
        self._find = node
        self._checkpoints: set[str] = set()

    def strikes(self) -> dict[str, Strike]:
        """Return the faults by name."""
        return {
            **dict.fromkeys(_CALLS, self._call),
            "driver-crash": self._driver_crash,
            "kubelet-stop": self._kubelet_stop,
            "checkpoint-lost": self._checkpoint_lost,
            "checkpoint-corrupt": self._checkpoint_corrupt,
            "disk-full": self._disk_full,
            "node-silent": self._node_silent,
            "node-gone": self._node_gone,
            "clock-ahead": self._clock_ahead,
        }

    @contextlib.asynccontextmanager
    async def _call(self, fault: Fault) -> AsyncIterator[Count]:
        kind = next(kind for kind in _CALLS if kind == fault.fault)
        node = self._node(fault)
        _check_driver(fault, {*node.own_drivers(), *node.registered_drivers()})
        async with node.calls.inject(kind, fault.driver, fault.delay) as count:
            yield count

    @contextlib.asynccontextmanager
    async def _driver_crash(self, fault: Fault) -> AsyncIterator[None]:
        node = self._node(fault)
        _check_driver(fault, node.own_drivers(), node.registered_drivers())
        async with node.stop_driver(fault.driver):
            yield

    @contextlib.asynccontextmanager
    async def _kubelet_stop(self, fault: Fault) -> AsyncIterator[None]:
        node = self._node(fault)
        await node.stop_kubelet()
        try:
            yield
        finally:
            await node.start_kubelet()

    @contextlib.asynccontextmanager
    async def _checkpoint_lost(self, fault: Fault) -> AsyncIterator[None]:
        """Run the kubelet without its checkpoint until the end of the fault.

        Like upstream's, it does not prepare the claims of running containers, and cannot unprepare unknown
        ones. Drivers keep those devices until then.
        """
        node = self._node(fault)
        async with self._detached_checkpoint(node, fault.node) as file:
            file.unlink()
            try:
                await node.start_kubelet()
            except DraError as error:
                raise FaultError(f"the kubelet does not start without its checkpoint: {error}") from error
            yield

    @contextlib.asynccontextmanager
    async def _checkpoint_corrupt(self, fault: Fault) -> AsyncIterator[None]:
        """Damage the checkpoint until the end of the fault, so that the kubelet does not start."""
        node = self._node(fault)
        async with self._detached_checkpoint(node, fault.node) as file:
            file.write_bytes(b"{")
            try:
                await node.start_kubelet()
            except DraError as error:
                _log.warning("the kubelet does not start with a damaged checkpoint", error=str(error))
            else:
                raise FaultError("the kubelet started with a damaged checkpoint")
            yield

    @contextlib.asynccontextmanager
    async def _detached_checkpoint(self, node: FaultyNode, name: str) -> AsyncIterator[Path]:
        """Yield the checkpoint of the stopped kubelet. At the end it is restored, and the kubelet starts again.

        Raises:
            FaultError: another fault uses it.
        """
        if name in self._checkpoints:
            raise FaultError(f"node {name!r}: its checkpoint is lost or damaged already")
        self._checkpoints.add(name)
        with contextlib.ExitStack() as stack:
            stack.callback(self._checkpoints.remove, name)
            await node.stop_kubelet()
            try:
                node.remains.note_checkpoint()
                yield node.root / STATE_FILE
            finally:
                await node.stop_kubelet()
                node.remains.restore_checkpoint()
                await node.start_kubelet()

    @contextlib.asynccontextmanager
    async def _disk_full(self, fault: Fault) -> AsyncIterator[Count]:
        with full_disk(self._node(fault).home) as disk:
            yield lambda: disk.refused

    @contextlib.asynccontextmanager
    async def _node_silent(self, fault: Fault) -> AsyncIterator[None]:
        with self._node(fault).reporter.silence():
            yield

    @contextlib.asynccontextmanager
    async def _node_gone(self, fault: Fault) -> AsyncIterator[None]:
        node = self._node(fault)
        with node.reporter.silence():
            await node.delete_node()
            yield

    @contextlib.asynccontextmanager
    async def _clock_ahead(self, fault: Fault) -> AsyncIterator[None]:
        node = self._node(fault)
        node.clock.ahead += fault.ahead
        try:
            yield
        finally:
            node.clock.ahead -= fault.ahead

    def _node(self, fault: Fault) -> FaultyNode:
        node = self._find(fault.node)
        if node is None:
            raise UnknownNode(f"there is no node {fault.node!r}")
        if not node.is_running:
            raise FaultError(f"node {fault.node!r}: its kubelet does not run")
        return node


def _check_driver(fault: Fault, drivers: Iterable[str], others: Iterable[str] = ()) -> None:
    """Check that the node has the driver that the fault names, or any driver if it names none.

    Raises:
        FaultError: it does not; ``others`` are drivers that run, but that the fault cannot affect.
    """
    known = sorted(drivers)
    if fault.driver in known or (known and not fault.driver):
        return
    if fault.driver in others:
        raise FaultError(f"driver {fault.driver!r} runs elsewhere: {fault.fault} cannot end it")
    if not known:
        raise FaultError(f"node {fault.node!r} has no DRA driver")
    raise FaultError(f"node {fault.node!r} has no driver {fault.driver!r}: choose {', '.join(known)}")
