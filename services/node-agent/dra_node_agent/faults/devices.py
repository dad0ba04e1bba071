"""Faults of simulated GPUs: errors, losses, partitions that change behind the driver, memory that is full."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from dra_shared.faults.board import FaultError, UnknownNode

from dra_node_agent.faults.fault import Fault, Repair, Strike
from dra_node_agent.nvml.system import NO_INSTANCE, Process

if TYPE_CHECKING:
    from dra_node_agent.nvml.system import SimulatedGpu, SimulatedSystem

#: The process that fills the memory; no real one has this id.
_PID = (1 << 22) + 1
_MIB = 1024 * 1024


class DeviceFaults:
    """Faults of the GPUs of an agent's nodes.

    Args:
        system: a node's simulated GPUs, None where there are none.
        repair: called for a node whose GPUs work again: its drivers take their taints away.
        knows: whether there is a node of that name.
    """

    def __init__(
        self,
        system: "Callable[[str], SimulatedSystem | None]",
        repair: Repair,
        knows: Callable[[str], bool],
    ) -> None:
        self._system = system
        self._knows = knows
        self._repair = repair

    def strikes(self) -> dict[str, Strike]:
        """The faults by name."""
        return {
            "xid": self._xid,
            "ecc": self._ecc,
            "gpu-lost": self._lost,
            "mig-changed": self._mig_changed,
            "memory-full": self._memory_full,
        }

    @contextlib.asynccontextmanager
    async def _xid(self, fault: Fault) -> AsyncIterator[None]:
        system, gpu = self._gpu(fault)
        # A GPU in MIG mode has no programs of its own, and drivers ignore what it reports of the whole.
        with system.lock:
            place = next(
                ((whole.id, part.id) for whole, part in gpu.mig_devices()), (NO_INSTANCE, NO_INSTANCE)
            )
        system.inject_xid(fault.gpu, fault.xid, *place)
        try:
            yield
        finally:
            await self._repair(fault.node)

    @contextlib.asynccontextmanager
    async def _ecc(self, fault: Fault) -> AsyncIterator[None]:
        system, gpu = self._gpu(fault)
        before = gpu.uncorrected_ecc
        system.inject_ecc(fault.gpu, uncorrected=1)
        try:
            yield
        finally:
            gpu.uncorrected_ecc = before

    @contextlib.asynccontextmanager
    async def _lost(self, fault: Fault) -> AsyncIterator[None]:
        system, gpu = self._gpu(fault)
        system.lose(fault.gpu)
        try:
            yield
        finally:
            gpu.lost = False
            await self._repair(fault.node)

    @contextlib.asynccontextmanager
    async def _mig_changed(self, fault: Fault) -> AsyncIterator[None]:
        system, gpu = self._gpu(fault)
        if not gpu.mig_enabled:
            raise FaultError(f"GPU {fault.gpu} of node {fault.node} is not in MIG mode")
        with system.lock:
            before = dict(gpu.instances)
            gpu.instances.clear()
        try:
            yield
        finally:
            with system.lock:
                # What somebody made meanwhile goes: the old partitions are those that claims know.
                gpu.instances.clear()
                gpu.instances.update(before)

    @contextlib.asynccontextmanager
    async def _memory_full(self, fault: Fault) -> AsyncIterator[None]:
        _, gpu = self._gpu(fault)
        free = gpu.model.memory_mib - gpu.used_mib
        hog = Process(_PID, "simulated", max(0, free), NO_INSTANCE, NO_INSTANCE)
        gpu.processes.append(hog)
        try:
            yield
        finally:
            gpu.processes.remove(hog)

    def _gpu(self, fault: Fault) -> "tuple[SimulatedSystem, SimulatedGpu]":
        if not self._knows(fault.node):
            raise UnknownNode(f"there is no node {fault.node!r}")
        system = self._system(fault.node)
        if system is None:
            raise FaultError(f"node {fault.node!r} has no simulated GPUs")
        if not 0 <= fault.gpu < len(system.gpus):
            raise FaultError(f"node {fault.node!r} has only the GPUs 0 to {len(system.gpus) - 1}")
        return system, system.gpus[fault.gpu]
