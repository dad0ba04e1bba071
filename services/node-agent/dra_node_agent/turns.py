"""Turns: of many that want to start only some do at a time.

Thousands of nodes whose drivers all ask and are answered at once leave holes in the process's memory, 30 KiB a node.
"""

import asyncio

#: How many start at a time.
_AT_A_TIME = 64
#: How long one may take before others begin, in seconds.
_LONGEST = 5.0


class Turn:
    """One start's; given back once."""

    __slots__ = ("_places", "_timer")

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places
        self._timer = asyncio.get_running_loop().call_later(_LONGEST, self.end)

    def end(self) -> None:
        """Let the next one begin."""
        self._timer.cancel()
        places, self._places = self._places, None
        if places is not None:
            places.release()


class Turns:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_A_TIME)

    async def next(self) -> Turn:
        """Wait for a turn; it is to be ended after the start, also where that failed."""
        await self._places.acquire()
        return Turn(self._places)
