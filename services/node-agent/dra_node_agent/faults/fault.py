"""A requested fault of a node, and the functions that cause and undo it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import msgspec
from dra_shared.faults.board import LONGEST, Count

_YEAR = 365 * 86400
_LAST_XID = 1024


class Fault(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A fault of ``node`` for ``seconds``.

    Args:
        driver: which driver's calls; empty for every one's.
        gpu, xid: of faults of devices.
        delay: how long calls of a slow driver take, in seconds.
        ahead: how far the node's clock is ahead, in seconds.
    """

    fault: str
    seconds: float
    node: str = "node-0"
    driver: str = ""
    gpu: int = 0
    xid: int = 79
    delay: float = 2.0
    ahead: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST:
            raise ValueError(f"seconds: must be above 0 and at most {LONGEST:.0f}")
        if not 0 < self.delay <= LONGEST:
            raise ValueError(f"delay: must be above 0 and at most {LONGEST:.0f}")
        if not 0 < self.ahead <= _YEAR:
            raise ValueError(f"ahead: must be above 0 and at most {_YEAR}")
        if not 1 <= self.xid <= _LAST_XID:
            raise ValueError(f"xid: must be from 1 to {_LAST_XID}")


# Causes a fault within its context and undoes it at the end. Entering it raises FaultError.
Strike = Callable[[Fault], AbstractAsyncContextManager[Count | None]]
