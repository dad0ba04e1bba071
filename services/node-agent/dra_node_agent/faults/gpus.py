"""The simulated GPUs of a node, with the operations that faults need."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dra_node_agent.nvml.system import NO_INSTANCE, Process

if TYPE_CHECKING:
    from dra_node_agent.nvml.system import SimulatedSystem

# The id of the process that fills the memory. No real process has this id.
_PID = (1 << 22) + 1


class FaultyGpu:
    """The GPU at ``index`` of a node's system."""

    def __init__(self, system: "SimulatedSystem", index: int) -> None:
        self._system = system
        self._index = index
        self._gpu = system.gpus[index]

    @property
    def uncorrected_ecc(self) -> int:
        """The number of uncorrectable memory errors."""
        return self._gpu.uncorrected_ecc

    @uncorrected_ecc.setter
    def uncorrected_ecc(self, count: int) -> None:
        self._gpu.uncorrected_ecc = count

    @property
    def mig_enabled(self) -> bool:
        """True if it is in MIG mode."""
        return self._gpu.mig_enabled

    def report_xid(self, xid: int) -> None:
        """Report a critical error."""
        # A GPU in MIG mode has no processes of its own, and drivers ignore XIDs of the whole GPU.
        with self._system.lock:
            place = next(
                ((whole.id, part.id) for whole, part in self._gpu.mig_devices()), (NO_INSTANCE, NO_INSTANCE)
            )
        self._system.inject_xid(self._index, xid, *place)

    def count_memory_error(self) -> None:
        """Count an uncorrectable memory error."""
        self._system.inject_ecc(self._index, uncorrected=1)

    def lose(self) -> None:
        """Make the GPU fall off the bus."""
        self._system.lose(self._index)

    def find(self) -> None:
        """Make the GPU return to the bus."""
        self._gpu.lost = False

    @contextlib.contextmanager
    def hide_partitions(self) -> Iterator[None]:
        """Remove the MIG devices during the context."""
        with self._system.lock:
            before = dict(self._gpu.instances)
            self._gpu.instances.clear()
        try:
            yield
        finally:
            with self._system.lock:
                # Delete MIG devices that were created during the fault, because claims refer to the old ones.
                self._gpu.instances.clear()
                self._gpu.instances.update(before)

    @contextlib.contextmanager
    def fill_memory(self) -> Iterator[None]:
        """Fill the memory during the context."""
        free = self._gpu.model.memory_mib - self._gpu.used_mib
        hog = Process(_PID, "simulated", max(0, free), NO_INSTANCE, NO_INSTANCE)
        self._gpu.processes.append(hog)
        try:
            yield
        finally:
            self._gpu.processes.remove(hog)
