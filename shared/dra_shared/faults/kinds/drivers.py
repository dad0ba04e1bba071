"""Drivers that end, and calls to drivers that fail in several ways."""

import contextlib
import random
from collections.abc import AsyncIterator, Iterable
from typing import Any

from dra_shared.faults.errors import FaultError
from dra_shared.faults.kind import DELAY, Count, Flag
from dra_shared.faults.nodes import CallFault, FaultyNode, NodeFault, NodeKind, NodeStrike
from dra_shared.faults.parts import CLAIMS, CONTAINERS, OF_CALLS, ONCE, SLICES
from dra_shared.faults.places import LONGEST


class _DriverFault(NodeFault, kw_only=True, frozen=True):
    """A fault of a driver. An empty name means every driver."""

    driver: str = ""


_DRIVER = Flag("driver", "--driver", "driver-…: only calls to this driver (every one)")


def _check_driver(fault: _DriverFault, drivers: Iterable[str], others: Iterable[str] = ()) -> None:
    """Check that the node has the driver that the fault names, or any driver if it names none.

    Raises:
        FaultError: the node lacks the driver; ``others`` are drivers that run, but that the fault cannot affect.
    """
    known = sorted(drivers)
    if fault.driver in known or (known and not fault.driver):
        return
    if fault.driver in others:
        raise FaultError(f"driver {fault.driver!r} runs elsewhere: {fault.fault} cannot end it")
    if not known:
        raise FaultError(f"node {fault.node!r} has no DRA driver")
    raise FaultError(f"node {fault.node!r} has no driver {fault.driver!r}: choose {', '.join(known)}")


@contextlib.asynccontextmanager
async def _end_driver(node: FaultyNode, fault: _DriverFault) -> AsyncIterator[None]:
    _check_driver(fault, node.own_drivers(), node.registered_drivers())
    async with node.stop_driver(fault.driver):
        yield


DRIVER_CRASH = NodeKind(
    name="driver-crash",
    what="a DRA driver ends, and is started again",
    promise="running pods keep running; new preparations wait; slices are published again with the driver",
    parts=(SLICES, CONTAINERS, CLAIMS, ONCE),
    spec=_DriverFault,
    flags=(_DRIVER,),
    strike=_end_driver,
)


def _disturb_calls(kind: CallFault) -> NodeStrike:
    @contextlib.asynccontextmanager
    async def strike(node: FaultyNode, fault: _DriverFault) -> AsyncIterator[Count]:
        _check_driver(fault, {*node.own_drivers(), *node.registered_drivers()})
        delay = fault.delay if isinstance(fault, _SlowFault) else 0.0
        async with node.calls.inject(kind, fault.driver, delay) as count:
            yield count

    return strike


DRIVER_HANG = NodeKind(
    name="driver-hang",
    what="calls to a driver do not return",
    promise="the kubelet times out after 45 seconds and calls again; pods of other drivers start",
    parts=OF_CALLS,
    spec=_DriverFault,
    flags=(_DRIVER,),
    strike=_disturb_calls("driver-hang"),
)


class _SlowFault(_DriverFault, kw_only=True, frozen=True):
    delay: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delay <= LONGEST:
            raise ValueError(f"delay: must be above 0 and at most {LONGEST:.0f}")


def _draw_delay(rng: random.Random) -> dict[str, Any]:
    return {"delay": round(rng.uniform(0.2, 3.0), 2)}


DRIVER_SLOW = NodeKind(
    name="driver-slow",
    what="calls to a driver take --delay seconds (2)",
    promise="pods start later; no claim is prepared twice",
    parts=OF_CALLS,
    spec=_SlowFault,
    flags=(DELAY, _DRIVER),
    strike=_disturb_calls("driver-slow"),
    draw=_draw_delay,
)
DRIVER_WRONG = NodeKind(
    name="driver-wrong",
    what="a driver's answers lack the claims that they are about",
    promise="no container starts without its devices; the kubelet calls again",
    parts=OF_CALLS,
    spec=_DriverFault,
    flags=(_DRIVER,),
    strike=_disturb_calls("driver-wrong"),
)
DRIVER_GONE = NodeKind(
    name="driver-gone",
    what="a driver's socket is gone",
    promise="pods wait for it with an event, and start when it is back",
    parts=OF_CALLS,
    spec=_DriverFault,
    flags=(_DRIVER,),
    strike=_disturb_calls("driver-gone"),
)
DRIVER_RESET = NodeKind(
    name="driver-reset",
    what="a driver executes calls, but its responses are lost",
    promise="the kubelet calls again; the driver gives the same answer and prepares nothing twice",
    parts=OF_CALLS,
    spec=_DriverFault,
    flags=(_DRIVER,),
    strike=_disturb_calls("driver-reset"),
)
DRIVER_OLD = NodeKind(
    name="driver-old",
    what="a driver is called like one for Kubernetes 1.33, which only has v1beta1",
    promise="pods get the same devices; claims prepared in one version are unprepared in the other",
    parts=OF_CALLS,
    spec=_DriverFault,
    flags=(_DRIVER,),
    strike=_disturb_calls("driver-old"),
)
