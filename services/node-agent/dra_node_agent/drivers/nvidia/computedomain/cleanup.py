"""Cleanup of claims that were partially prepared and no longer exist (cmd/compute-domain-kubelet-plugin/cleanup.go)."""

from typing import Protocol

import httpx
from dra_driverkit.claims import ClaimRef
from dra_driverkit.errors import PrepareError
from dra_shared.api.resources import RESOURCE_CLAIMS
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import Clock
from dra_shared.log import logger

_PERIOD_SECONDS = 600.0
_PASSING = (ApiError, PrepareError, httpx.HTTPError, OSError, TimeoutError)

_log = logger(__name__)


class Attempts(Protocol):
    """The claims that a driver started to prepare."""

    def unfinished_claims(self) -> list[ClaimRef]:
        """Return the claims whose preparation is neither complete nor aborted."""
        ...

    async def unprepare(self, claim: ClaimRef) -> None:
        """Give up a claim. Raises PrepareError."""
        ...

    async def forget_aborted(self) -> int:
        """Drop the claims that were given up long ago, and return their number. Raises PrepareError, OSError."""
        ...


class StaleClaims:
    """Unprepares claims that no longer exist in the API server, because the kubelet does not do that."""

    def __init__(self, client: Client, clock: Clock, attempts: Attempts) -> None:
        self._client = client
        self._clock = clock
        self._attempts = attempts

    async def run(self) -> None:
        """Clean up now, and then every ten minutes until cancelled."""
        while True:
            await self.clean()
            await self._clock.sleep(_PERIOD_SECONDS)

    async def clean(self) -> None:
        """Clean up once. Failures are retried the next time."""
        for claim in self._attempts.unfinished_claims():
            try:
                if await self._is_gone(claim):
                    await self._attempts.unprepare(claim)
                    _log.info("unprepared a stale claim", claim=str(claim))
            except _PASSING as error:
                _log.warning(
                    "cannot clean up a claim that may be stale, trying again later",
                    claim=str(claim),
                    error=str(error),
                )
        try:
            count = await self._attempts.forget_aborted()
        except _PASSING as error:
            _log.warning("cannot forget aborted claims, trying again later", error=str(error))
            return
        if count:
            _log.info("forgot claims that were given up", claims=count)

    async def _is_gone(self, claim: ClaimRef) -> bool:
        try:
            found = await self._client.get(RESOURCE_CLAIMS, claim.name, claim.namespace)
        except NotFound:
            return True
        return found.metadata.uid != claim.uid
