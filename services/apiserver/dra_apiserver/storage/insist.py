"""What the server itself writes: it has no client that would ask again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_apiserver.errors import StatusError

_EVERY = 1.0

_log = logger(__name__)


async def insist(clock: Clock, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work, and again each second while the database fails: it must bear to be done from the beginning."""
    while True:
        try:
            await work()
        except StatusError as error:
            if error.code < 500:
                raise
            _log.warning("the server's own writes wait for the database", error=error.message)
        else:
            return
        await clock.sleep(_EVERY)
