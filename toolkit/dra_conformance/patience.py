"""How long a driver is waited for that leaves calls unanswered: a run with one that deadlocks has to end, too."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from dra_node_agent.kubelet.dra.connection import DriverError

from dra_conformance.check import Unmet
from dra_conformance.pace import Pace

#: A call that takes so many times as long as the slowest one that was answered has no answer.
_SLOWER = 10


class Patience:
    """Gives each call the kubelet's time; once one had no answer in it, less; and in the end none.

    A driver that answers every call in the kubelet's time never meets it.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._slowest = self._waited = self._until = 0.0
        self._silent = False

    @property
    def limit(self) -> float:
        """How many seconds the next call may take."""
        if not self._waited:
            return self._pace.call
        least = self._pace.call_silent if self._silent else self._pace.call_again
        return min(self._pace.call, max(least, _SLOWER * self._slowest))

    def started(self) -> None:
        """The driver was started again: it may answer."""
        self._silent = False

    @property
    def exhausted(self) -> str:
        """Why the driver is not called any more; empty as long as it is."""
        if self._waited < self._pace.unanswered:
            return ""
        return f"it left calls unanswered for {self._waited:.0f} s in all"

    @contextlib.asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Within it the driver is called, as long as :attr:`limit` says.

        Raises:
            DriverError: it did not answer in time.
            Unmet: it was waited for too long, so that it is not called any more.
        """
        if self.exhausted:
            raise Unmet(f"the driver is not called any more: {self.exhausted}")
        loop = asyncio.get_running_loop()
        began, limit = loop.time(), self.limit
        try:
            async with asyncio.timeout(limit):
                yield
        except (TimeoutError, DriverError) as error:
            if (now := loop.time()) - began < limit:
                raise
            # Calls that wait at the same time cost their time once.
            self._waited += now - max(began, self._until)
            self._until, self._silent = now, True
            raise DriverError(f"no answer within {limit:.1f} s") from error
        self._slowest, self._silent = max(self._slowest, loop.time() - began), False
