"""GPUs that report errors, fall off the bus, lose their partitions or are full."""

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from dra_shared.faults.errors import FaultError
from dra_shared.faults.kind import Flag
from dra_shared.faults.nodes import FaultyNode, Gpu, NodeFault, NodeKind
from dra_shared.faults.parts import AVOIDED, CLAIMS, CONTAINERS, SLICES, TAINTED
from dra_shared.optiontypes import number

_LAST_XID = 1024
# The number of GPUs that a node has by default. On a node with fewer GPUs the fault is refused, and a storm
# continues without it.
_GPUS = 8
# Drivers taint a whole node for a lost GPU, and a repair applies to all of its devices.
_TAINTING = frozenset({"xid", "gpu-lost"})


class GpuFault(NodeFault, kw_only=True, frozen=True):
    """A fault of one GPU."""

    gpu: int = 0


_GPU = Flag("gpu", "--gpu", "faults of devices: the index of the GPU (0)", {"type": number(0, 1024, int)})


def _draw_gpu(rng: random.Random) -> dict[str, Any]:
    return {"gpu": rng.randrange(_GPUS)}


def _find_gpu(node: FaultyNode, fault: GpuFault) -> Gpu:
    """Return the GPU, unless another active fault would interfere.

    Raises:
        FaultError: another active fault interferes, or the GPU does not exist.
    """
    for other in node.faults:
        if (
            other is not fault
            and isinstance(other, GpuFault)
            and (other.gpu == fault.gpu or {other.fault, fault.fault} <= _TAINTING)
        ):
            raise FaultError(
                f"{other.fault} of GPU {other.gpu} is active on node {fault.node!r}: "
                f"wait for its end, or clear it, before {fault.fault} of GPU {fault.gpu}"
            )
    return node.gpu(fault.gpu)


class _XidFault(GpuFault, kw_only=True, frozen=True):
    xid: int = 79

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.xid <= _LAST_XID:
            raise ValueError(f"xid: must be from 1 to {_LAST_XID}")


@contextlib.asynccontextmanager
async def _report_xid(node: FaultyNode, fault: _XidFault) -> AsyncIterator[None]:
    gpu = _find_gpu(node, fault)
    # Drivers remember an XID until the machine reboots, even if the agent restarts.
    with node.note_devices():
        gpu.report_xid(fault.xid)
        try:
            yield
        finally:
            await node.mark_repaired()


XID = NodeKind(
    name="xid",
    what="a GPU reports critical error --xid (79)",
    promise="the driver taints the device, and no new claim gets it; other devices do not change",
    parts=(TAINTED, AVOIDED, CONTAINERS, CLAIMS),
    spec=_XidFault,
    flags=(_GPU, Flag("xid", "--xid", "xid: which error (79)", {"type": number(1, _LAST_XID, int)})),
    strike=_report_xid,
    kubelet=False,
    draw=_draw_gpu,
)


@contextlib.asynccontextmanager
async def _count_memory_error(node: FaultyNode, fault: GpuFault) -> AsyncIterator[None]:
    gpu = _find_gpu(node, fault)
    before = gpu.uncorrected_ecc
    gpu.count_memory_error()
    try:
        yield
    finally:
        gpu.uncorrected_ecc = before


ECC = NodeKind(
    name="ecc",
    what="a GPU counts an uncorrectable memory error",
    promise="the driver continues; claims and pods do not change",
    parts=(CONTAINERS, CLAIMS),
    spec=GpuFault,
    flags=(_GPU,),
    strike=_count_memory_error,
    kubelet=False,
    draw=_draw_gpu,
)


@contextlib.asynccontextmanager
async def _lose_gpu(node: FaultyNode, fault: GpuFault) -> AsyncIterator[None]:
    gpu = _find_gpu(node, fault)
    gpu.lose()
    try:
        yield
    finally:
        gpu.find()
        await node.mark_repaired()


GPU_LOST = NodeKind(
    name="gpu-lost",
    what="a GPU falls off the bus, and comes back",
    promise="the driver cannot know which GPU, and taints all GPUs of the node until it is back",
    parts=(TAINTED, AVOIDED, SLICES, CONTAINERS, CLAIMS),
    spec=GpuFault,
    flags=(_GPU,),
    strike=_lose_gpu,
    kubelet=False,
    draw=_draw_gpu,
)


@contextlib.asynccontextmanager
async def _hide_partitions(node: FaultyNode, fault: GpuFault) -> AsyncIterator[None]:
    gpu = _find_gpu(node, fault)
    if not gpu.mig_enabled:
        raise FaultError(f"GPU {fault.gpu} of node {fault.node} is not in MIG mode")
    with gpu.hide_partitions():
        yield


def _draw_mig(rng: random.Random) -> dict[str, Any]:
    # By default half of a node's GPUs are in MIG mode, and the first is.
    return {"gpu": 0}


MIG_CHANGED = NodeKind(
    name="mig-changed",
    what="the MIG devices of a GPU are deleted without the driver, and created again later",
    promise="drivers do not notice: claims and pods do not change, and programs find no device",
    parts=(CONTAINERS, CLAIMS),
    spec=GpuFault,
    flags=(_GPU,),
    strike=_hide_partitions,
    kubelet=False,
    draw=_draw_mig,
)


@contextlib.asynccontextmanager
async def _fill_memory(node: FaultyNode, fault: GpuFault) -> AsyncIterator[None]:
    with _find_gpu(node, fault).fill_memory():
        yield


MEMORY_FULL = NodeKind(
    name="memory-full",
    what="a program outside of Kubernetes fills a GPU's memory",
    promise="DRA does not consider actual use: claims and pods do not change",
    parts=(CONTAINERS, CLAIMS),
    spec=GpuFault,
    flags=(_GPU,),
    strike=_fill_memory,
    kubelet=False,
    draw=_draw_gpu,
)
