"""Faults of nodes. A node agent implements :class:`FaultyNode`; a fault's function ``strike`` calls its methods."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from dra_shared.faults.kind import Count, Kind, Spec, Where

CallFault = Literal["driver-hang", "driver-slow", "driver-wrong", "driver-gone", "driver-reset", "driver-old"]


class NodeFault(Spec, kw_only=True, frozen=True):
    """A fault of a node."""

    node: str = "node-0"


class KubeletStartError(Exception):
    """The kubelet does not start. The message says why."""


class Calls(Protocol):
    """The kubelet's calls to drivers."""

    def inject(
        self, kind: CallFault, driver: str, delay: float
    ) -> AbstractAsyncContextManager[Callable[[], int]]:
        """Apply the fault to calls to the driver during the context. An empty name means every driver."""
        ...


class Gpu(Protocol):
    """A simulated GPU."""

    uncorrected_ecc: int

    @property
    def mig_enabled(self) -> bool:
        """True if the GPU is in MIG mode."""
        ...

    def report_xid(self, xid: int) -> None:
        """Report a critical error."""
        ...

    def count_memory_error(self) -> None:
        """Count an uncorrectable memory error."""
        ...

    def lose(self) -> None:
        """Make the GPU fall off the bus."""
        ...

    def find(self) -> None:
        """Make the GPU return to the bus."""
        ...

    def hide_partitions(self) -> AbstractContextManager[None]:
        """Remove the MIG devices during the context."""
        ...

    def fill_memory(self) -> AbstractContextManager[None]:
        """Fill the memory during the context by a program outside of Kubernetes."""
        ...


class FaultyNode(Protocol):
    """A node with the operations that faults need.

    ``faults`` are the active faults of the node, including the one that is beginning.
    """

    @property
    def name(self) -> str:
        """The node's name."""
        ...

    @property
    def faults(self) -> Sequence[NodeFault]:
        """The active faults, including the one that is beginning."""
        ...

    @property
    def calls(self) -> Calls:
        """The kubelet's calls to drivers."""
        ...

    @property
    def checkpoint(self) -> Path:
        """The file of the kubelet's checkpoint of claims."""
        ...

    def gpu(self, index: int) -> Gpu:
        """Return a GPU.

        Raises:
            FaultError: the node has no simulated GPU with that index.
        """
        ...

    def own_drivers(self) -> Collection[str]:
        """Return the names of the DRA drivers that the agent runs there."""
        ...

    def registered_drivers(self) -> Collection[str]:
        """Return the names of the drivers registered with the kubelet, wherever they run."""
        ...

    def stop_driver(self, name: str) -> AbstractAsyncContextManager[None]:
        """Stop the driver during the context. An empty name means every driver."""
        ...

    async def stop_kubelet(self) -> None:
        """Stop the kubelet. Its containers keep running."""
        ...

    async def start_kubelet(self) -> None:
        """Start a new kubelet.

        Raises:
            KubeletStartError: its checkpoint is damaged.
        """
        ...

    def note_checkpoint(self) -> None:
        """Save a copy of the checkpoint, from which the next agent restores it if this one is killed."""
        ...

    def restore_checkpoint(self) -> object:
        """Restore the saved checkpoint, merged with later claims."""
        ...

    def note_devices(self) -> AbstractContextManager[None]:
        """Record until the end of the context that drivers remember a fault of devices, for the next agent if this
        one is killed.
        """
        ...

    async def mark_repaired(self) -> None:
        """Remove the drivers' taints, because the devices work again."""
        ...

    def fill_disk(self) -> AbstractContextManager[Count]:
        """Refuse writes inside the context. Yield a function that counts them."""
        ...

    def silence(self) -> AbstractContextManager[None]:
        """Send no status and no lease inside the context."""
        ...

    async def delete_node(self) -> None:
        """Delete the Node object, like a cloud provider whose machine was removed."""
        ...

    async def power_off(self) -> None:
        """End all containers, and discard all state that a reboot of the machine loses.

        The kubelet and the drivers are stopped.

        Raises:
            FaultError: the node has directories of a real machine.
        """
        ...

    def advance_clock(self, seconds: float) -> None:
        """Set the node's clock ahead by this number of seconds, in addition to earlier calls."""
        ...


#: Causes a fault within its context and undoes it at the end. Entering it raises FaultError.
NodeStrike = Callable[[FaultyNode, Any], AbstractAsyncContextManager[Count | None]]


@dataclass(frozen=True, kw_only=True)
class NodeKind(Kind):
    """A kind of fault of a node. ``kubelet`` is True if the fault needs a running kubelet."""

    where: ClassVar[Where] = "node"

    strike: NodeStrike
    kubelet: bool = True
    idle: str = "no call was made to a driver meanwhile"
