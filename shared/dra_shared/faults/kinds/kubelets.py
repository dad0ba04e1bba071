"""Kubelets that end, lose their checkpoint, or cannot write."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from dra_shared.faults.errors import FaultError
from dra_shared.faults.kind import Count
from dra_shared.faults.nodes import FaultyNode, KubeletStartError, NodeFault, NodeKind
from dra_shared.faults.parts import CLAIMS, CONTAINERS, ONCE
from dra_shared.log import logger

_OF_CHECKPOINT = ("checkpoint-lost", "checkpoint-corrupt")

_log = logger(__name__)


@contextlib.asynccontextmanager
async def _stop_kubelet(node: FaultyNode, fault: NodeFault) -> AsyncIterator[None]:
    await node.stop_kubelet()
    try:
        yield
    finally:
        await node.start_kubelet()


KUBELET_STOP = NodeKind(
    name="kubelet-stop",
    what="a kubelet ends, and is started again",
    promise="containers keep running; prepared claims are read from the checkpoint",
    parts=(CONTAINERS, CLAIMS, ONCE),
    spec=NodeFault,
    strike=_stop_kubelet,
)


@contextlib.asynccontextmanager
async def _detached_checkpoint(node: FaultyNode, fault: NodeFault) -> AsyncIterator[Path]:
    """Yield the checkpoint of the stopped kubelet. At the end it is restored, and the kubelet starts again.

    Raises:
        FaultError: another fault uses it.
    """
    if any(other is not fault and other.fault in _OF_CHECKPOINT for other in node.faults):
        raise FaultError(f"node {node.name!r}: its checkpoint is lost or damaged already")
    await node.stop_kubelet()
    try:
        node.note_checkpoint()
        yield node.checkpoint
    finally:
        await node.stop_kubelet()
        node.restore_checkpoint()
        await node.start_kubelet()


@contextlib.asynccontextmanager
async def _lose_checkpoint(node: FaultyNode, fault: NodeFault) -> AsyncIterator[None]:
    """Run the kubelet without its checkpoint until the end of the fault.

    Like upstream's, it does not prepare the claims of running containers, and cannot unprepare unknown
    ones. Drivers keep those devices until then.
    """
    async with _detached_checkpoint(node, fault) as file:
        file.unlink()
        try:
            await node.start_kubelet()
        except KubeletStartError as error:
            raise FaultError(f"the kubelet does not start without its checkpoint: {error}") from error
        yield


CHECKPOINT_LOST = NodeKind(
    name="checkpoint-lost",
    what="a kubelet restarts without its checkpoint of claims, which is restored later",
    promise="containers keep running; drivers keep prepared devices until the checkpoint is restored",
    parts=(CONTAINERS, CLAIMS, ONCE),
    spec=NodeFault,
    strike=_lose_checkpoint,
)


@contextlib.asynccontextmanager
async def _damage_checkpoint(node: FaultyNode, fault: NodeFault) -> AsyncIterator[None]:
    """Damage the checkpoint until the end of the fault, so that the kubelet does not start."""
    async with _detached_checkpoint(node, fault) as file:
        file.write_bytes(b"{")
        try:
            await node.start_kubelet()
        except KubeletStartError as error:
            _log.warning("the kubelet does not start with a damaged checkpoint", error=str(error))
        else:
            raise FaultError("the kubelet started with a damaged checkpoint")
        yield


CHECKPOINT_CORRUPT = NodeKind(
    name="checkpoint-corrupt",
    what="a kubelet's checkpoint of claims is damaged, and repaired later",
    promise="the kubelet does not start with it, and no device leaks; containers keep running",
    parts=(CONTAINERS, CLAIMS, ONCE),
    spec=NodeFault,
    strike=_damage_checkpoint,
)


@contextlib.asynccontextmanager
async def _fill_disk(node: FaultyNode, fault: NodeFault) -> AsyncIterator[Count]:
    with node.fill_disk() as count:
        yield count


DISK_FULL = NodeKind(
    name="disk-full",
    what="nothing can be written to a node's disk",
    promise="pods wait with an event; no device is prepared that is not in a checkpoint",
    parts=(CLAIMS, ONCE),
    spec=NodeFault,
    strike=_fill_disk,
    idle="nothing was written meanwhile",
)
