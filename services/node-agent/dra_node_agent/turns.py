"""Limit how many drivers of a process start at the same time.

If the drivers of thousands of nodes send their requests at once, the memory of the process becomes
fragmented: 30 KiB a node.
"""

import asyncio

#: The maximum number of drivers that start at the same time.
_AT_A_TIME = 64
#: The seconds after which a turn ends, even if the driver has not finished its start.
_LONGEST = 5.0


class Turn:
    """The permission of one driver to start. It is released only once."""

    __slots__ = ("_places", "_timer")

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places
        self._timer = asyncio.get_running_loop().call_later(_LONGEST, self.end)

    def end(self) -> None:
        """Release the turn, so that the next driver may start."""
        self._timer.cancel()
        places, self._places = self._places, None
        if places is not None:
            places.release()


class Turns:
    """The turns of a process (see the docstring of the module)."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_A_TIME)

    async def next(self) -> Turn:
        """Wait for a turn. The caller ends it after the start, even if the start failed."""
        await self._places.acquire()
        return Turn(self._places)
