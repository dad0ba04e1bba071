"""Leader election on a Lease: of several replicas, one is active (tools/leaderelection of client-go).

It can share leases with client-go's replicas. The leader renews the lease every ``retry_period``. A standby
takes over a lease that was unchanged for its duration, by the standby's clock. A leader that cannot renew
within ``renew_deadline`` stops. It stops its work before it releases the lease, so two replicas are never
active at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from enum import StrEnum

import httpx
import msgspec

from dra_shared.api.coordination import Lease, LeaseSpec
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.resources import LEASES
from dra_shared.client.errors import AlreadyExists, ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.client.terms import Terms
from dra_shared.clock import Clock, SystemClock, rfc3339_micro
from dra_shared.log import logger
from dra_shared.states import StateMachine

_log = logger(__name__)


class Role(StrEnum):
    """The role of a replica in the election for a Lease."""

    STANDBY = "Standby"
    LEADING = "Leading"
    RESIGNING = "Resigning"


class RoleEvent(StrEnum):
    """The events that change a replica's role."""

    ACQUIRED = "lease acquired"
    RENEWED = "lease renewed"
    LOST = "renew deadline exceeded"
    ENDED = "work ended"
    RELEASED = "lease released or left to expire"


ROLES = {
    Role.STANDBY: {RoleEvent.ACQUIRED: Role.LEADING},
    Role.LEADING: {
        RoleEvent.RENEWED: Role.LEADING,
        RoleEvent.LOST: Role.RESIGNING,
        RoleEvent.ENDED: Role.RESIGNING,
    },
    Role.RESIGNING: {RoleEvent.RELEASED: Role.STANDBY},
}


class LeadershipLost(Exception):
    """The lease could not be renewed in time. Another replica may be active already."""


class LeaderElector:
    """Competes for the Lease ``namespace/name`` as ``identity``."""

    def __init__(
        self,
        client: Client,
        name: str,
        identity: str,
        *,
        namespace: str = "kube-system",
        clock: Clock | None = None,
        terms: Terms | None = None,
    ) -> None:
        self._client = client
        self._name, self._namespace, self._identity = name, namespace, identity
        self._clock = clock or SystemClock()
        self._terms = terms or Terms()
        self._observed: tuple[LeaseSpec, float] | None = None
        self._role = StateMachine(Role.STANDBY, ROLES)

    @property
    def role(self) -> Role:
        """The current role of this replica."""
        return self._role.state

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then run ``lead`` for as long as it lasts.

        Raises:
            LeadershipLost: the lease could not be renewed; ``lead`` was cancelled.
        """
        while not await self._try_acquire():
            await self._clock.sleep(self._terms.retry_period)
        self._role.on(RoleEvent.ACQUIRED)
        _log.info("became leader", lease=f"{self._namespace}/{self._name}", identity=self._identity)
        work = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            await (work if work.done() else renewal)
        finally:
            if self.role is Role.LEADING:
                self._role.on(RoleEvent.ENDED)
            await self._resign(work, renewal)

    async def _resign(self, *tasks: asyncio.Future[None]) -> None:
        """Stop the work, then release the lease, so that the next leader does not overlap with this one."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self._lease_expired():
            await self._within(self._terms.renew_deadline, self._release())
        self._role.on(RoleEvent.RELEASED)

    async def _renew(self) -> None:
        deadline = self._clock.monotonic() + self._terms.renew_deadline
        while True:
            await self._clock.sleep(self._terms.retry_period)
            asked = self._clock.monotonic()
            # If the server does not answer, this replica must still stop before the lease ends.
            if await self._within(deadline - asked, self._try_acquire()):
                deadline = asked + self._terms.renew_deadline
                self._role.on(RoleEvent.RENEWED)
            elif self._clock.monotonic() >= deadline:
                self._role.on(RoleEvent.LOST)
                raise LeadershipLost(f"could not renew lease {self._namespace}/{self._name}")

    async def _within(self, seconds: float, work: Coroutine[None, None, bool]) -> bool:
        """Return the result of ``work``, or cancel it and return False after ``seconds``."""
        attempt = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((attempt, timer), return_when=asyncio.FIRST_COMPLETED)
            return attempt.done() and attempt.result()
        finally:
            attempt.cancel()
            timer.cancel()

    def _lease_expired(self) -> bool:
        """True if the observed lease was not renewed for its duration."""
        if self._observed is None:
            return True
        held, since = self._observed
        duration = held.lease_duration_seconds or self._terms.lease_duration
        return self._clock.monotonic() - since >= duration

    async def _try_acquire(self) -> bool:
        try:
            return await self._acquire()
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            _log.debug("lease not acquired", lease=f"{self._namespace}/{self._name}", error=str(error))
            return False

    async def _acquire(self) -> bool:
        now = rfc3339_micro(self._clock.now())
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            spec = self._spec(now, now, 0)
            lease = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
            try:
                self._observe(await self._client.create(LEASES, lease))
            except AlreadyExists:
                return False
            return True
        self._observe(lease)
        held = lease.spec or LeaseSpec()
        mine = held.holder_identity == self._identity
        if held.holder_identity and not mine and not self._lease_expired():
            return False
        transitions = held.lease_transitions or 0
        spec = self._spec(
            held.acquire_time if mine and held.acquire_time else now,
            now,
            transitions if mine else transitions + 1,
        )
        self._observe(await self._client.update(LEASES, msgspec.structs.replace(lease, spec=spec)))
        return True

    def _spec(self, acquired: str, renewed: str, transitions: int) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=int(self._terms.lease_duration),
            acquire_time=acquired,
            renew_time=renewed,
            lease_transitions=transitions,
        )

    def _observe(self, lease: Lease) -> None:
        held = lease.spec or LeaseSpec()
        if self._observed is None or self._observed[0] != held:
            self._observed = (held, self._clock.monotonic())

    async def _release(self) -> bool:
        """Release the lease, so that a standby need not wait for its expiry. Return whether that succeeded."""
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
            if lease.spec is None or lease.spec.holder_identity != self._identity:
                return False
            now = rfc3339_micro(self._clock.now())
            spec = msgspec.structs.replace(
                lease.spec, holder_identity="", lease_duration_seconds=1, acquire_time=now, renew_time=now
            )
            await self._client.update(LEASES, msgspec.structs.replace(lease, spec=spec))
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            _log.debug("lease not released", lease=f"{self._namespace}/{self._name}", error=str(error))
            return False
        return True
