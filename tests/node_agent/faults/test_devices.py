"""Faults of simulated GPUs, without a cluster."""

from pathlib import Path

from dra_node_agent.faults.devices import DeviceFaults
from dra_node_agent.faults.fault import Fault
from dra_node_agent.faults.remains import Remains
from dra_node_agent.nvml.node import parse_gpus
from dra_node_agent.nvml.system import NO_INSTANCE, XID_CRITICAL, EventSet, SimulatedSystem


class _Node:
    def __init__(self, folder: Path) -> None:
        self.remains = Remains(folder, folder)

    async def repaired(self) -> None: ...


async def test_an_error_of_a_gpu_in_mig_mode_is_that_of_a_mig_device(tmp_path: Path) -> None:
    """Drivers ignore one of the whole GPU, as none of their devices is that."""
    system = SimulatedSystem(parse_gpus("1xA100:7g.40gb, 1xT4", "n"))
    events = EventSet()
    events.masks = dict.fromkeys(range(2), XID_CRITICAL)
    system.event_sets.append(events)
    node = _Node(tmp_path)
    strike = DeviceFaults(lambda _: system, lambda _: node).strikes()["xid"]
    for gpu in range(2):
        async with strike(Fault(fault="xid", seconds=1, gpu=gpu)):
            pass
    whole, part = next(iter(system.gpus[0].mig_devices()))
    places = [(event.gpu, event.gpu_instance, event.compute_instance) for event in events.pending]
    assert places == [(0, whole.id, part.id), (1, NO_INSTANCE, NO_INSTANCE)]
