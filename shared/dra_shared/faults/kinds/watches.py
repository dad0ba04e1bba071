"""Watches that end, or whose events are late. All watches are affected at once."""

import random
from typing import Any

from dra_shared.faults.kind import DELAY
from dra_shared.faults.parts import OF_REQUESTS
from dra_shared.faults.requests import Watches, WatchFault, WatchKind

_MOMENT = 0.02


def _draw(rng: random.Random) -> dict[str, Any]:
    return {"delay": round(rng.uniform(0.3, 1.0), 2)}


async def _cut_again(watches: Watches, fault: WatchFault) -> None:
    while (left := watches.seconds_left()) > 0:
        watches.met += watches.cut()
        await watches.clock.sleep(min(fault.delay, left))


WATCH_CUT = WatchKind(
    name="watch-cut",
    what="open watches end, again every --delay seconds",
    promise="watches resume where they ended: each event once, in order",
    parts=OF_REQUESTS,
    spec=WatchFault,
    flags=(DELAY,),
    disturb=_cut_again,
    draw=_draw,
)


async def _hold_back(watches: Watches, fault: WatchFault) -> None:
    try:
        while (left := watches.seconds_left()) > 0:
            # The number also has the watches that were opened after the fault began.
            watches.met += watches.hold(True)
            await watches.clock.sleep(min(fault.delay, left))
            watches.hold(False)
            await watches.clock.sleep(_MOMENT)
    finally:
        watches.hold(False)


WATCH_BEHIND = WatchKind(
    name="watch-behind",
    what="watches are delayed: events are sent only every --delay seconds",
    promise="clients act on their outdated state, and outdated writes are rejected; nothing is done twice",
    parts=OF_REQUESTS,
    spec=WatchFault,
    flags=(DELAY,),
    disturb=_hold_back,
    draw=_draw,
)
