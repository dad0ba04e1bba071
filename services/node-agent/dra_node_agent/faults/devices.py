"""Faults of simulated GPUs: errors, losses, partitions that change behind the driver, full memory."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol

from dra_shared.faults.board import FaultError, UnknownNode

from dra_node_agent.faults.fault import Fault, Strike
from dra_node_agent.faults.remains import Remains
from dra_node_agent.nvml.system import NO_INSTANCE, Process

if TYPE_CHECKING:
    from dra_node_agent.nvml.system import SimulatedGpu, SimulatedSystem

# The id of the process that fills the memory. No real process has this id.
_PID = (1 << 22) + 1
_MIB = 1024 * 1024
# Drivers taint a whole node for a lost GPU, and a repair applies to all of its devices.
_TAINTING = frozenset({"xid", "gpu-lost"})


class GpuNode(Protocol):
    """The interface of a node for faults of its devices."""

    remains: Remains

    async def mark_repaired(self) -> None:
        """Remove the drivers' taints, because the devices work again."""
        ...


class DeviceFaults:
    """Faults of the GPUs of an agent's nodes.

    Args:
        system: a node's simulated GPUs, None where there are none.
        node: a node by name, None where there is none.
    """

    def __init__(
        self,
        system: "Callable[[str], SimulatedSystem | None]",
        node: Callable[[str], GpuNode | None],
    ) -> None:
        self._system = system
        self._find = node
        self._working: list[Fault] = []

    def strikes(self) -> dict[str, Strike]:
        """Return the faults by name."""
        strikes: dict[str, Strike] = {
            "xid": self._xid,
            "ecc": self._ecc,
            "gpu-lost": self._lose_gpu,
            "mig-changed": self._mig_changed,
            "memory-full": self._memory_full,
        }
        return {name: functools.partial(self._run_alone, strike) for name, strike in strikes.items()}

    @contextlib.asynccontextmanager
    async def _run_alone(self, strike: Strike, fault: Fault) -> AsyncIterator[None]:
        """Run the fault unless another one is active that would interfere with it.

        Raises:
            FaultError: there is one.
        """
        for other in self._working:
            if other.node == fault.node and (
                other.gpu == fault.gpu or {other.fault, fault.fault} <= _TAINTING
            ):
                raise FaultError(
                    f"{other.fault} of GPU {other.gpu} is at work on node {fault.node!r}: "
                    f"wait for its end, or clear it, before {fault.fault} of GPU {fault.gpu}"
                )
        self._working.append(fault)
        try:
            async with strike(fault):
                yield
        finally:
            self._working.remove(fault)

    @contextlib.asynccontextmanager
    async def _xid(self, fault: Fault) -> AsyncIterator[None]:
        node, system, gpu = self._gpu(fault)
        # A GPU in MIG mode has no processes of its own, and drivers ignore its reports about the whole GPU.
        with system.lock:
            place = next(
                ((whole.id, part.id) for whole, part in gpu.mig_devices()), (NO_INSTANCE, NO_INSTANCE)
            )
        # Drivers remember an XID until the machine reboots, even if the agent restarts.
        with node.remains.devices():
            system.inject_xid(fault.gpu, fault.xid, *place)
            try:
                yield
            finally:
                await node.mark_repaired()

    @contextlib.asynccontextmanager
    async def _ecc(self, fault: Fault) -> AsyncIterator[None]:
        _, system, gpu = self._gpu(fault)
        before = gpu.uncorrected_ecc
        system.inject_ecc(fault.gpu, uncorrected=1)
        try:
            yield
        finally:
            gpu.uncorrected_ecc = before

    @contextlib.asynccontextmanager
    async def _lose_gpu(self, fault: Fault) -> AsyncIterator[None]:
        node, system, gpu = self._gpu(fault)
        system.lose(fault.gpu)
        try:
            yield
        finally:
            gpu.lost = False
            await node.mark_repaired()

    @contextlib.asynccontextmanager
    async def _mig_changed(self, fault: Fault) -> AsyncIterator[None]:
        _, system, gpu = self._gpu(fault)
        if not gpu.mig_enabled:
            raise FaultError(f"GPU {fault.gpu} of node {fault.node} is not in MIG mode")
        with system.lock:
            before = dict(gpu.instances)
            gpu.instances.clear()
        try:
            yield
        finally:
            with system.lock:
                # Remove partitions that someone created meanwhile, because claims know the old ones.
                gpu.instances.clear()
                gpu.instances.update(before)

    @contextlib.asynccontextmanager
    async def _memory_full(self, fault: Fault) -> AsyncIterator[None]:
        _, _, gpu = self._gpu(fault)
        free = gpu.model.memory_mib - gpu.used_mib
        hog = Process(_PID, "simulated", max(0, free), NO_INSTANCE, NO_INSTANCE)
        gpu.processes.append(hog)
        try:
            yield
        finally:
            gpu.processes.remove(hog)

    def _gpu(self, fault: Fault) -> "tuple[GpuNode, SimulatedSystem, SimulatedGpu]":
        node = self._find(fault.node)
        if node is None:
            raise UnknownNode(f"there is no node {fault.node!r}")
        system = self._system(fault.node)
        if system is None:
            raise FaultError(f"node {fault.node!r} has no simulated GPUs")
        if not 0 <= fault.gpu < len(system.gpus):
            raise FaultError(f"node {fault.node!r} has only the GPUs 0 to {len(system.gpus) - 1}")
        return node, system, system.gpus[fault.gpu]
