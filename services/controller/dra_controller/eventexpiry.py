"""Deletes events an hour after they were last seen, where the API server doesn't do it itself."""

from datetime import datetime, timedelta

import httpx
from dra_shared.api.core import Event
from dra_shared.api.resources import EVENTS
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.clock import parse_rfc3339
from dra_shared.log import logger

from dra_controller.framework import Controller

# kube-apiserver's --event-ttl.
_TTL = timedelta(hours=1)
_SHORTEST_SECONDS, _LONGEST_SECONDS = 30.0, 3600.0
_PAGE = 500

_log = logger(__name__)


class EventExpiryController(Controller):
    """Our own: with a real API server, whose store forgets events by itself, it finds nothing to do."""

    name = "event-expiry-controller"

    async def run(self) -> None:
        while True:
            try:
                wait = await self.expire()
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info("events not expired, trying again", error=str(error))
                wait = _SHORTEST_SECONDS
            await self._clock.sleep(wait)

    async def expire(self) -> float:
        """Delete what is too old; gives the seconds until the next event may be."""
        now = self._clock.now()
        oldest = now
        expired = 0
        page: str | None = None
        while True:
            events = await self._client.list(EVENTS, limit=_PAGE, continue_=page)
            for event in events.items:
                seen = _last_seen(event) or now
                if now - seen < _TTL:
                    oldest = min(oldest, seen)
                    continue
                try:
                    await self._client.delete(
                        EVENTS, event.metadata.name, event.metadata.namespace, uid=event.metadata.uid
                    )
                    expired += 1
                except NotFound:
                    continue
            page = events.metadata.continue_
            if not page:
                break
        if expired:
            _log.info("expired events", number=expired)
        wait = (oldest + _TTL - now).total_seconds()
        return min(max(wait, _SHORTEST_SECONDS), _LONGEST_SECONDS)


def _last_seen(event: Event) -> datetime | None:
    series = event.series.last_observed_time if event.series is not None else None
    times = [
        parse_rfc3339(text)
        for text in (event.metadata.creation_timestamp, event.last_timestamp, event.event_time, series)
        if text
    ]
    return max(times) if times else None
