"""The nodes of an agent, with the operations that faults need. :mod:`dra_shared.faults.kinds` has the faults."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dra_driverkit.files import full_disk
from dra_shared.clock import Clock, TickingClock, is_ticking
from dra_shared.faults.board import Strike
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.errors import FaultError, UnknownNode
from dra_shared.faults.kind import Count
from dra_shared.faults.nodes import KubeletStartError, NodeFault, NodeKind

from dra_node_agent.faults.remains import Remains
from dra_node_agent.kubelet.dra.callfaults import CallFaults
from dra_node_agent.kubelet.dra.checkpoint import STATE_FILE
from dra_node_agent.kubelet.dra.errors import DraError
from dra_node_agent.kubelet.node import NodeReporter

if TYPE_CHECKING:
    from dra_node_agent.faults.gpus import FaultyGpu
    from dra_node_agent.nvml.system import SimulatedSystem


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


class AgentNode(Protocol):
    """The interface of an agent's node for faults.

    Args:
        home: all of its files.
        root: its kubelet's directory.
        remains: the traces of faults on the node's disk.
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
        """Return the names of the drivers registered with the kubelet, whether the agent runs them or not."""
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

    async def power_off(self) -> str:
        """End all containers and remove the CDI files. Return the next boot id. Raises FaultError."""
        ...

    async def mark_repaired(self) -> None:
        """Make drivers remove the taints of device faults, because the devices work again."""
        ...


class NodeFaults:
    """Faults of an agent's nodes.

    Args:
        node: returns the agent's node with a name, or None. system: returns a node's simulated GPUs, or None.
    """

    def __init__(
        self,
        node: Callable[[str], AgentNode | None],
        system: "Callable[[str], SimulatedSystem | None]",
    ) -> None:
        self._find = node
        self._system = system
        self._faults: dict[str, list[NodeFault]] = {}

    def strikes(self) -> dict[str, Strike[NodeFault]]:
        """Return the faults by name."""
        return {
            name: functools.partial(self._strike, kind)
            for name, kind in KINDS.items()
            if isinstance(kind, NodeKind)
        }

    @contextlib.asynccontextmanager
    async def _strike(self, kind: NodeKind, fault: NodeFault) -> AsyncIterator[Count | None]:
        node = self._find(fault.node)
        if node is None:
            raise UnknownNode(f"there is no node {fault.node!r}")
        if kind.kubelet and not node.is_running:
            raise FaultError(f"node {fault.node!r}: its kubelet does not run")
        faults = self._faults.setdefault(fault.node, [])
        faults.append(fault)
        try:
            target = _FaultyNode(fault.node, node, self._system(fault.node), faults)
            async with kind.strike(target, fault) as count:
                yield count
        finally:
            # Compare by identity, because two faults may be equal.
            faults[:] = [other for other in faults if other is not fault]


class _FaultyNode:
    """A node of the agent, for the time of one fault."""

    def __init__(
        self, name: str, node: AgentNode, system: "SimulatedSystem | None", faults: Sequence[NodeFault]
    ) -> None:
        self.name = name
        self.faults = faults
        self._node = node
        self._system = system

    @property
    def calls(self) -> CallFaults:
        return self._node.calls

    @property
    def checkpoint(self) -> Path:
        return self._node.root / STATE_FILE

    def gpu(self, index: int) -> "FaultyGpu":
        system = self._system
        if system is None:
            raise FaultError(f"node {self.name!r} has no simulated GPUs")
        if not 0 <= index < len(system.gpus):
            raise FaultError(f"node {self.name!r} has only the GPUs 0 to {len(system.gpus) - 1}")
        # Agents without faults of GPUs need no simulated ones.
        from dra_node_agent.faults.gpus import FaultyGpu

        return FaultyGpu(system, index)

    def own_drivers(self) -> Collection[str]:
        return self._node.own_drivers()

    def registered_drivers(self) -> Collection[str]:
        return self._node.registered_drivers()

    def stop_driver(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._node.stop_driver(name)

    async def stop_kubelet(self) -> None:
        await self._node.stop_kubelet()

    async def start_kubelet(self) -> None:
        try:
            await self._node.start_kubelet()
        except DraError as error:
            raise KubeletStartError(str(error)) from error

    def note_checkpoint(self) -> None:
        self._node.remains.note_checkpoint()

    def restore_checkpoint(self) -> None:
        self._node.remains.restore_checkpoint()

    def note_devices(self) -> AbstractContextManager[None]:
        return self._node.remains.devices()

    async def mark_repaired(self) -> None:
        await self._node.mark_repaired()

    @contextlib.contextmanager
    def fill_disk(self) -> Iterator[Count]:
        with full_disk(self._node.home) as disk:
            yield lambda: disk.refused

    def silence(self) -> AbstractContextManager[None]:
        return self._node.reporter.silence()

    async def delete_node(self) -> None:
        await self._node.delete_node()

    async def power_off(self) -> None:
        boot_id = await self._node.power_off()
        if self._system is not None:
            self._system.reboot(boot_id)

    def advance_clock(self, seconds: float) -> None:
        self._node.clock.ahead += seconds
