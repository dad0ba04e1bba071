"""Repeat writes of the server itself until they succeed, because no client would repeat them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dra_shared.clock import Clock
from dra_shared.log import logger

from dra_apiserver.errors import StatusError

_EVERY = 1.0

_log = logger(__name__)


async def insist(clock: Clock, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work, and repeat it each second while the database fails. The work must be able to start again."""
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
