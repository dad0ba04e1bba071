"""Partially prepared claims that were deleted from the API server."""

import asyncio
from typing import Any, cast

import httpx
import pytest
from dra_driverkit.claims import ClaimRef
from dra_driverkit.errors import PrepareError
from dra_node_agent.drivers.nvidia.computedomain.cleanup import StaleClaims
from dra_shared.api.meta import ObjectMeta, Status
from dra_shared.api.resource import ResourceClaim
from dra_shared.client.errors import NotFound
from dra_shared.client.rest import Client
from dra_shared.clock import FakeClock, settle


class Api:
    def __init__(self, **uids: str) -> None:
        self.uids = uids
        self.error: Exception | None = None

    async def get(self, resource: Any, name: str, namespace: str) -> ResourceClaim:
        if self.error:
            raise self.error
        if name not in self.uids:
            raise NotFound(Status(code=404, reason="NotFound", message=f'resourceclaims "{name}" not found'))
        return ResourceClaim(metadata=ObjectMeta(name=name, uid=self.uids[name]))


class Attempts:
    def __init__(self, *names: str) -> None:
        self.left = [ClaimRef("ns", name, f"uid-of-{name}") for name in names]
        self.refused: set[str] = set()
        self.forgotten = 0

    def unfinished_claims(self) -> list[ClaimRef]:
        return list(self.left)

    async def unprepare(self, claim: ClaimRef) -> None:
        if claim.name in self.refused:
            raise PrepareError("the API server is away")
        self.left.remove(claim)

    async def forget_aborted(self) -> int:
        self.forgotten += 1
        return 0


def cleaner(api: Api, attempts: Attempts) -> StaleClaims:
    return StaleClaims(cast(Client, api), FakeClock(), attempts)


def names(attempts: Attempts) -> list[str]:
    return [claim.name for claim in attempts.left]


def test_deleted_claims_are_unprepared() -> None:
    attempts = Attempts("there", "gone", "another")
    api = Api(there="uid-of-there", another="of one that was created later")
    asyncio.run(cleaner(api, attempts).clean())
    assert names(attempts) == ["there"]
    assert attempts.forgotten == 1


def test_a_failed_unprepare_is_retried_at_the_next_check() -> None:
    attempts, api = Attempts("first", "second"), Api()
    attempts.refused = {"first"}

    async def run() -> None:
        clock = FakeClock()
        task = asyncio.create_task(StaleClaims(cast(Client, api), clock, attempts).run())
        await settle()
        assert names(attempts) == ["first"]
        attempts.refused = set()
        await clock.advance(600)
        assert names(attempts) == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), TimeoutError()])
def test_no_claim_is_stale_if_the_api_server_does_not_respond(error: Exception) -> None:
    attempts, api = Attempts("one"), Api()
    api.error = error
    asyncio.run(cleaner(api, attempts).clean())
    assert names(attempts) == ["one"]
