"""Nodes that are silent, are deleted, or have a clock that is wrong."""

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from dra_shared.faults.kind import Flag
from dra_shared.faults.nodes import FaultyNode, NodeFault, NodeKind
from dra_shared.faults.parts import BACK, BOOTED, CLAIMS, CONTAINERS, ONCE, READY, RESTARTED, SILENCE, SLICES
from dra_shared.optiontypes import number

_YEAR = 365 * 86400


@contextlib.asynccontextmanager
async def _silence(node: FaultyNode, fault: NodeFault) -> AsyncIterator[None]:
    with node.silence():
        yield


NODE_SILENT = NodeKind(
    name="node-silent",
    what="a node reports neither status nor lease",
    promise="after 40 seconds it is NotReady and gets no pods; its pods are evicted after their tolerations",
    parts=(SILENCE, ONCE),
    spec=NodeFault,
    strike=_silence,
)


@contextlib.asynccontextmanager
async def _delete_node(node: FaultyNode, fault: NodeFault) -> AsyncIterator[None]:
    with node.silence():
        await node.delete_node()
        yield


NODE_GONE = NodeKind(
    name="node-gone",
    what="a Node object is deleted, and its kubelet registers it again later",
    promise="its slices are deleted and published again with it; its pods are deleted if it does not return",
    parts=(BACK, SLICES, ONCE),
    spec=NodeFault,
    strike=_delete_node,
)


@contextlib.asynccontextmanager
async def _reboot(node: FaultyNode, fault: NodeFault) -> AsyncIterator[None]:
    async with node.stop_driver(""):
        await node.stop_kubelet()
        try:
            await node.power_off()
            yield
        finally:
            await node.start_kubelet()


REBOOT = NodeKind(
    name="reboot",
    what="a node reboots: another boot id, no container, no CDI file; its drivers start again",
    promise="claims are prepared again before containers restart; the node is Ready again",
    parts=(BOOTED, RESTARTED, CLAIMS, SLICES, ONCE),
    spec=NodeFault,
    strike=_reboot,
)


class _ClockFault(NodeFault, kw_only=True, frozen=True):
    ahead: float = 300.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ahead <= _YEAR:
            raise ValueError(f"ahead: must be above 0 and at most {_YEAR}")


@contextlib.asynccontextmanager
async def _advance_clock(node: FaultyNode, fault: _ClockFault) -> AsyncIterator[None]:
    node.advance_clock(fault.ahead)
    try:
        yield
    finally:
        node.advance_clock(-fault.ahead)


def _draw_ahead(rng: random.Random) -> dict[str, Any]:
    return {"ahead": rng.choice((5, 60, 600))}


CLOCK_AHEAD = NodeKind(
    name="clock-ahead",
    what="a node's clock is ahead by --ahead seconds (300)",
    promise="other components use their own clocks: the node stays Ready, and nothing is evicted",
    parts=(READY, CONTAINERS, CLAIMS),
    spec=_ClockFault,
    flags=(Flag("ahead", "--ahead", "clock-ahead: seconds (300)", {"type": number(0.1, _YEAR, float)}),),
    strike=_advance_clock,
    draw=_draw_ahead,
)
