"""Faults of simulated GPUs, without a cluster."""

from pathlib import Path
from typing import Any, cast

import pytest
from dra_node_agent.faults.nodes import AgentNode, NodeFaults
from dra_node_agent.faults.remains import Remains
from dra_node_agent.nvml.node import parse_gpus
from dra_node_agent.nvml.system import NO_INSTANCE, XID_CRITICAL, EventSet, SimulatedSystem
from dra_shared.faults.catalog import KINDS
from dra_shared.faults.errors import FaultError
from dra_shared.faults.nodes import NodeFault


def _fault(**fields: Any) -> NodeFault:
    fault: NodeFault = KINDS[fields["fault"]].spec(**fields)
    return fault


class _Node:
    def __init__(self, folder: Path) -> None:
        self.remains = Remains(folder, folder)

    async def mark_repaired(self) -> None: ...


async def test_an_error_of_a_gpu_in_mig_mode_affects_a_mig_device(tmp_path: Path) -> None:
    """Drivers ignore an error of the whole GPU, because none of their devices is the whole GPU."""
    system = SimulatedSystem(parse_gpus("1xA100:7g.40gb, 1xT4", "n"))
    events = EventSet()
    events.masks = dict.fromkeys(range(2), XID_CRITICAL)
    system.event_sets.append(events)
    node = cast(AgentNode, _Node(tmp_path))
    strike = NodeFaults(lambda _: node, lambda _: system).strikes()["xid"]
    for gpu in range(2):
        async with strike(_fault(fault="xid", seconds=1, gpu=gpu)):
            pass
    whole, part = next(iter(system.gpus[0].mig_devices()))
    places = [(event.gpu, event.gpu_instance, event.compute_instance) for event in events.pending]
    assert places == [(0, whole.id, part.id), (1, NO_INSTANCE, NO_INSTANCE)]


@pytest.mark.parametrize(
    ("first", "second", "gpu"),
    [
        ("xid", "gpu-lost", 1),
        ("gpu-lost", "gpu-lost", 1),
        ("mig-changed", "mig-changed", 0),
        ("ecc", "xid", 0),
    ],
)
async def test_a_fault_that_conflicts_with_an_active_one_is_rejected(
    tmp_path: Path, first: str, second: str, gpu: int
) -> None:
    """Once, the end of one fault removed the taints of both, and MIG devices removed by both were not restored."""
    system = SimulatedSystem(parse_gpus("2xA100:7g.40gb", "n"))
    parts = len(list(system.gpus[0].mig_devices()))
    node = cast(AgentNode, _Node(tmp_path))
    strikes = NodeFaults(lambda _: node, lambda _: system).strikes()
    message = f"{first} of GPU 0 is active on node 'node-0': wait for its end, or clear it, before {second}"
    async with strikes[first](_fault(fault=first, seconds=1)):
        with pytest.raises(FaultError, match=message):
            await strikes[second](_fault(fault=second, seconds=1, gpu=gpu)).__aenter__()
        # A fault that neither taints devices nor has the same GPU as its target may be active at the same
        # time. So may a fault of another node.
        async with strikes["memory-full"](_fault(fault="memory-full", seconds=1, gpu=1)):
            pass
        async with strikes[second](_fault(fault=second, seconds=1, gpu=gpu, node="node-1")):
            pass
    async with strikes[second](_fault(fault=second, seconds=1, gpu=gpu)):
        pass
    assert len(list(system.gpus[0].mig_devices())) == parts
