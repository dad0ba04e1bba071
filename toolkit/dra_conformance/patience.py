"""Time limits for calls to a driver that does not answer some calls, so that a run ends even if the driver
deadlocks.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from dra_node_agent.kubelet.dra.connection import DriverError

from dra_conformance.check import Unmet
from dra_conformance.pace import Pace

#: After a call without an answer, the limit is this many times the duration of the slowest answered call.
_SLOWER = 10


class Patience:
    """Limits the duration of each call.

    A call may take as long as the kubelet allows. Once a call had no answer, the limit is shorter. Once calls
    have been unanswered for too long in total, the driver is not called any more. The limits do not affect
    drivers that answer in time.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._slowest = self._waited = self._until = 0.0
        self._silent = False

    @property
    def limit(self) -> float:
        """The time limit of the next call, in seconds."""
        if not self._waited:
            return self._pace.call
        least = self._pace.call_silent if self._silent else self._pace.call_again
        return min(self._pace.call, max(least, _SLOWER * self._slowest))

    def reset(self) -> None:
        """Allow the full time again, because the driver has been restarted."""
        self._silent = False

    @property
    def exhaustion(self) -> str:
        """The reason why the driver is not called any more, or "" while it is."""
        if self._waited < self._pace.unanswered:
            return ""
        return f"it left calls unanswered for {self._waited:.0f} s in all"

    @contextlib.asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Run the block, which calls the driver, under the time limit :attr:`limit`.

        Raises:
            DriverError: the driver did not answer in time.
            Unmet: earlier calls were unanswered for too long, so the driver is not called any more.
        """
        if self.exhaustion:
            raise Unmet(f"the driver is not called any more: {self.exhaustion}")
        loop = asyncio.get_running_loop()
        began, limit = loop.time(), self.limit
        try:
            async with asyncio.timeout(limit):
                yield
        except (TimeoutError, DriverError) as error:
            if (now := loop.time()) - began < limit:
                raise
            # Time during which several calls wait at once counts only once.
            self._waited += now - max(began, self._until)
            self._until, self._silent = now, True
            raise DriverError(f"no answer within {limit:.1f} s") from error
        self._slowest, self._silent = max(self._slowest, loop.time() - began), False
