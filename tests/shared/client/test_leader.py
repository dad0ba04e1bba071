"""Test the competition for a Lease, with time that the test controls."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from dra_shared.client.leader import LeaderElector, LeadershipLost, Role
from dra_shared.clock import FakeClock, rfc3339_micro

from tests.support.fakeapi import FakeApi


class _World:
    def __init__(self, **spec: Any) -> None:
        self.clock = FakeClock()
        self.api = FakeApi()
        if spec:
            self.renew(**spec)

    def renew(self, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Write the lease as another holder does."""
        self.api.add(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "lease", "namespace": "kube-system", "annotations": annotations or {}},
                "spec": {"renewTime": rfc3339_micro(self.clock.now()), "leaseTransitions": 3, **spec},
            }
        )

    @property
    def lease(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.api.get("leases", "kube-system", "lease")["spec"]
        return spec

    @contextlib.asynccontextmanager
    async def elect(self, transport: httpx.AsyncBaseTransport | None = None) -> AsyncIterator["_Candidate"]:
        client = self.api.client()
        if transport is not None:
            client._transport = transport
        candidate = _Candidate(LeaderElector(client, "lease", "us", clock=self.clock))
        try:
            yield candidate
        finally:
            candidate.task.cancel()
            await asyncio.gather(candidate.task, return_exceptions=True)


class _Candidate:
    def __init__(self, elector: LeaderElector) -> None:
        self._works = False
        self.task = asyncio.create_task(elector.run(self._lead))

    def leads(self) -> bool:
        return self._works

    async def _lead(self) -> None:
        self._works = True
        try:
            await asyncio.Event().wait()
        finally:
            self._works = False


async def test_a_new_lease_is_written_as_upstream_writes_it() -> None:
    world = _World()
    async with world.elect() as us:
        await world.clock.advance(0)
        assert us.leads()
        start = rfc3339_micro(world.clock.now())
        assert world.lease == {
            "holderIdentity": "us",
            "leaseDurationSeconds": 15,
            "acquireTime": start,
            "renewTime": start,
            "leaseTransitions": 0,
        }
        await world.clock.advance(4)
        assert world.lease["acquireTime"] == start
        assert world.lease["renewTime"] == rfc3339_micro(world.clock.now())
    assert world.lease["holderIdentity"] == ""
    assert world.lease["leaseDurationSeconds"] == 1


async def test_a_dead_holder_is_replaced_after_the_duration_that_it_wrote() -> None:
    world = _World(holderIdentity="them", leaseDurationSeconds=60)
    async with world.elect() as us:
        await world.clock.advance(58)
        assert not us.leads()
        await world.clock.advance(4)
        assert us.leads()
        assert world.lease["holderIdentity"] == "us"
        assert world.lease["leaseTransitions"] == 4


async def test_a_lease_holder_keeps_the_lease_only_by_renewing_it() -> None:
    world = _World(holderIdentity="them", leaseDurationSeconds=15)
    async with world.elect() as us:
        renewed = world.lease["renewTime"]
        for second in range(9):
            world.renew(
                {"touched": str(second)}, renewTime=renewed, holderIdentity="them", leaseDurationSeconds=15
            )
            await world.clock.advance(2)
        assert us.leads()
    world = _World(holderIdentity="them", leaseDurationSeconds=15)
    async with world.elect() as us:
        for _ in range(9):
            world.renew(holderIdentity="them", leaseDurationSeconds=15)
            await world.clock.advance(2)
        assert not us.leads()


class _Stalling(httpx.AsyncBaseTransport):
    """A transport that gives no answers while it is ``stalled``."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.stalled = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.stalled:
            await asyncio.Event().wait()
        return await self._inner.handle_async_request(request)


async def test_leadership_ends_in_time_if_the_server_does_not_respond() -> None:
    world = _World()
    network = _Stalling(world.api)
    async with world.elect(network) as us:
        await world.clock.advance(2)
        assert us.leads()
        network.stalled = True
        await world.clock.advance(9.5)
        assert us.leads()
        await world.clock.advance(1)
        assert not us.leads()
        await world.clock.advance(10)
        with pytest.raises(LeadershipLost, match="could not renew lease kube-system/lease"):
            async with asyncio.timeout(60):
                await us.task


async def test_leadership_callbacks_are_called_when_the_lease_is_acquired_or_lost() -> None:
    world = _World()
    network = _Stalling(world.api)
    client = world.api.client()
    client._transport = network
    elector = LeaderElector(client, "lease", "us", clock=world.clock)
    roles = []

    async def lead() -> None:
        try:
            roles.append(elector.role)
            await asyncio.Event().wait()
        finally:
            roles.append(elector.role)

    assert elector.role is Role.STANDBY
    term = asyncio.create_task(elector.run(lead))
    await world.clock.advance(4)
    network.stalled = True
    for _ in range(3):
        await world.clock.advance(10)
    with pytest.raises(LeadershipLost):
        async with asyncio.timeout(60):
            await term
    assert roles == [Role.LEADING, Role.RESIGNING]
    assert elector.role is Role.STANDBY
