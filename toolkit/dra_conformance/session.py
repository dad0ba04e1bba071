"""What a check works with: the driver as it runs, the kubelet's calls to it, claims, and what was seen before.

What several checks look at, such as a restart, is observed once: :meth:`Session.once`.
"""

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dra_apiserver.traffic import Visit
from dra_node_agent.kubelet.dra import wire
from dra_node_agent.kubelet.dra.connection import DriverConnection, DriverError
from dra_shared.client.errors import ApiError
from dra_shared.jsontypes import JsonObject
from dra_shared.quantity import Quantity
from dra_shared.version import Version

from dra_conformance.cdifiles import CdiFiles
from dra_conformance.check import NotOffered, Unmet
from dra_conformance.claims import Claim, Claims, Device, Result, devices_of, together
from dra_conformance.driverprocess import Driver
from dra_conformance.kubelet import Kubelet, Registration
from dra_conformance.pace import Pace
from dra_conformance.patience import Patience
from dra_conformance.traffic import about, is_write
from dra_conformance.world import NAMESPACE, World

T = TypeVar("T")

_PROBED = 2
_HOPELESS = 10
#: How often it may be stuck.
_STUCK = 24


class Session:
    """One run of the suite against one driver.

    Args:
        parameters: opaque parameters that the driver takes; None where the user gave none.
        metrics_url: where the driver serves its metrics; empty where the user gave none.

    ``works`` is whether the driver has prepared a claim, ``starts`` how often it was started, ``changing`` is held
    while it is started from nothing, ``deaths`` are the checks during which it ended, ``stuck`` those before which it
    prepared nothing any more, ``excused`` parts of its log in which it may panic, ``of_large_node`` its requests with
    thousands of devices.
    """

    def __init__(
        self,
        world: World,
        kubelet: Kubelet,
        driver: Driver,
        cdi: CdiFiles,
        pace: Pace,
        *,
        parameters: JsonObject | None = None,
        metrics_url: str = "",
    ) -> None:
        self.world = world
        self.kubelet = kubelet
        self.driver = driver
        self.cdi = cdi
        self.pace = pace
        self.patience = Patience(pace)
        self.parameters = parameters
        self.metrics_url = metrics_url
        self.claims = Claims(world)
        self.slices: list[JsonObject] = []
        self.devices: list[Device] = []
        self.works = False
        self.starts = 0
        self.changing = asyncio.Lock()
        self.deaths: list[str] = []
        self.stuck: list[str] = []
        self.excused: list[str] = []
        self.of_large_node: list[Visit] = []
        self.start_problem = self.notify_problem = self.publish_problem = ""
        self.writes_at_start = 0
        self._registration: Registration | None = None
        self._connection: DriverConnection | None = None
        self._seen: dict[Any, asyncio.Task[Any]] = {}

    @property
    def version(self) -> Version:
        """The version of Kubernetes that the driver meets."""
        return self.world.version

    @property
    def registration(self) -> Registration:
        """How the driver registered last.

        Raises:
            Unmet: it has not.
        """
        if self._registration is None:
            raise Unmet(": ".join(filter(None, ("the driver is not registered", self.start_problem))))
        return self._registration

    @property
    def name(self) -> str:
        """The driver's name."""
        return self.registration.name

    @property
    def connection(self) -> DriverConnection:
        """For calls to the driver.

        Raises:
            Unmet: there is none.
        """
        if self._connection is None:
            raise Unmet("the driver offers no service that the kubelet calls")
        return self._connection

    async def once(self, observe: "Callable[[Session], Awaitable[T]]") -> T:
        """What ``observe`` gives, or raises; it runs once in a session."""
        if observe not in self._seen:

            async def run() -> T:
                return await observe(self)

            self._seen[observe] = asyncio.create_task(run())
        found: T = await asyncio.shield(self._seen[observe])
        return found

    async def close(self) -> None:
        """End what is still observed, the connection and the driver."""
        for task in self._seen.values():
            task.cancel()
        await asyncio.gather(*self._seen.values(), return_exceptions=True)
        await self._disconnect()
        await self.driver.kill()

    # The driver's life

    async def open(self) -> None:
        """Start the driver for the first time; what goes wrong is kept for the checks that are about it."""
        try:
            await self.start()
        except DriverError as error:
            last = self.driver.output().strip().splitlines()[-1:]
            self.start_problem = "; its last line: ".join([str(error), *last])
            return
        try:
            await self.kubelet.notify(self.registration.socket)
        except wire.CallError as error:
            self.notify_problem = str(error)
        if not await self.published(self.pace.start):
            pools = incomplete(self.slices)
            self.publish_problem = f"incomplete pools: {', '.join(pools)}" if pools else "there are no slices"

    async def start(self) -> Registration:
        """Start the driver and register it as the kubelet does.

        Raises:
            DriverError: it does not register in time, or ends before.
        """
        self.starts += 1
        self.patience.started()
        await self.driver.start()
        registration = await self.kubelet.find(self.pace.start, alive=self.driver.alive)
        await self.register(registration)
        return registration

    async def register(self, registration: Registration) -> None:
        """Use this registration from now on."""
        await self._disconnect()
        self._registration = registration
        with contextlib.suppress(DriverError):
            self._connection = self.kubelet.connect(registration, self.pace.call)

    async def restart(self, *, kill: bool) -> None:
        """End the driver and start it again.

        Raises:
            NotOffered: it was started by somebody else.
            Unmet: it does not come back.
        """
        self.need_restarts()
        if kill:
            await self.driver.kill()
        else:
            await self.driver.stop(self.pace.stop)
        await self.back()

    async def back(self) -> None:
        """Start the driver again.

        Raises:
            Unmet: it does not come back.
        """
        await self._disconnect()
        try:
            await self.start()
            await self.kubelet.notify(self.registration.socket)
        except Exception as error:
            raise Unmet(f"the driver does not come back: {error}") from error

    async def probe(self) -> str:
        """Prepare and unprepare claims of the devices that checks use most; gives what goes wrong."""
        for device in together(self.devices, self.counters())[:_PROBED]:
            async with self.claim([Result(device)]) as claim:
                answer = await self.attempt(claim)
                if problem := answer if isinstance(answer, str) else await self.undo(claim):
                    return problem
        return ""

    async def unstuck(self, before: str) -> bool:
        """Start a driver from nothing that has prepared claims and does not any more; gives whether it is one."""
        if not self.works or self.hopeless or not self.driver.alive():
            return False
        try:
            # Twice, as a machine that is busy may take longer for once.
            if not (await self.probe() and (problem := await self.probe())):
                return False
            self.stuck.append(f"before {before}: {problem}")
            await self.fresh()
        except (Unmet, NotOffered, DriverError, ApiError):
            return False
        return True

    @property
    def hopeless(self) -> bool:
        """Whether the driver was stuck so often that it is not started from nothing any more."""
        return len(self.stuck) >= _STUCK

    async def fresh(self) -> None:
        """Start the driver again, without all that it has written to the node.

        Raises:
            NotOffered: it was started by somebody else.
            Unmet: it does not come back.
        """
        self.need_restarts()
        async with self.changing:
            await self.driver.kill()
            for folder in (self.kubelet.plugins, self.kubelet.registry, self.cdi.directory):
                await asyncio.to_thread(_empty, folder)
            await self.back()

    def need_restarts(self) -> None:
        """Raise NotOffered where the driver must not be ended."""
        if not self.driver.restarts:
            raise NotOffered("the driver was started by somebody else (--attach)")

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    # Slices and devices

    async def look(self) -> list[JsonObject]:
        """The driver's slices as they are now."""
        return await self.world.slices(self.name)

    async def published(self, within: float) -> bool:
        """Wait until every pool has all its slices, and take them as those of the session; gives whether they have."""
        loop = asyncio.get_running_loop()
        # What did not come in all the time at its first start is not waited for again and again.
        end = loop.time() + (within / _HOPELESS if self.publish_problem else within)
        while True:
            found = await self.look()
            complete = bool(found) and not incomplete(found)
            late = loop.time() > end
            if complete or (late and not self.slices):
                self.slices, self.devices = found, devices_of(found)
            if complete or late:
                return complete
            await asyncio.sleep(self.pace.poll)

    def now(self) -> float:
        """The time, in seconds since 1970."""
        return time.time()

    def counters(self) -> dict[tuple[str, str, str], Quantity]:
        """What each counter of the pools has: by pool, counter set and name."""
        return {
            (one["spec"]["pool"]["name"], group["name"], name): Quantity.parse(counter["value"])
            for one in self.slices
            for group in one["spec"].get("sharedCounters") or ()
            for name, counter in group["counters"].items()
        }

    def pick(self, number: int = 1, *, shared: bool | None = None) -> list[Device]:
        """Devices that can be prepared at the same time.

        Raises:
            NotOffered: the driver has not as many.
        """
        usable = [one for one in self.devices if shared is None or one.shared is shared]
        found = together(usable, self.counters())[:number]
        if len(found) < number:
            if not self.devices:
                raise Unmet("the driver has published no devices")
            what = "device that several claims may share" if shared else "device"
            raise NotOffered(f"needs {number} {what}{'s' if number > 1 else ''}, and there are {len(found)}")
        return found

    def spare(self) -> Device:
        """A device that other checks rarely take: for a claim that may never be unprepared."""
        return self.pick(min(3, len(self.devices)) or 1)[-1] if len(self.devices) > 2 else self.pick()[0]

    def writes(self) -> int:
        """How many requests of the driver's have changed slices, or tried to."""
        answered = self.world.requests.answered
        return sum(1 for visit in answered if about(visit, "resourceslices") and is_write(visit))

    # Claims

    @contextlib.asynccontextmanager
    async def claim(
        self,
        results: Sequence[Result] = (),
        config: Sequence[JsonObject] = (),
        *,
        prepare: bool = False,
        name: str = "",
        namespace: str = NAMESPACE,
        annotations: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Claim]:
        """A claim, of any one device unless ``results`` say otherwise; unprepared and gone at the end."""
        wanted = results or [Result(self.pick()[0])]
        made = await self.claims.make(wanted, config, name=name, namespace=namespace, annotations=annotations)
        try:
            if prepare:
                await self.ready(made)
            yield made
        finally:
            with contextlib.suppress(DriverError, Unmet):
                await self.unprepare(made)
            with contextlib.suppress(ApiError):
                await self.claims.delete(made)

    async def prepare(self, *claims: Claim) -> Mapping[str, Any]:
        """NodePrepareResources; answers by UID.

        Raises:
            DriverError: the call failed.
        """
        async with self.patience.call():
            return await self.connection.prepare([claim.message for claim in claims])

    async def unprepare(self, *claims: Claim) -> Mapping[str, str]:
        """NodeUnprepareResources; errors by UID.

        Raises:
            DriverError: the call failed.
        """
        async with self.patience.call():
            return await self.connection.unprepare([claim.message for claim in claims])

    async def ready(self, claim: Claim) -> Any:
        """Prepare the claim for a check that is about something else.

        Raises:
            Unmet: it cannot be prepared.
        """
        answer = await self.attempt(claim)
        if isinstance(answer, str):
            raise Unmet(f"the claim is not prepared: {answer}")
        return answer

    async def undone(self, claim: Claim) -> None:
        """Unprepare the claim for a check that is about something else.

        Raises:
            Unmet: it cannot be unprepared.
        """
        if problem := await self.undo(claim):
            raise Unmet(f"the claim is not unprepared: {problem}")

    async def attempt(self, claim: Claim) -> Any:
        """The driver's answer for one claim, or as a text what went wrong."""
        try:
            answers = await self.prepare(claim)
        except DriverError as error:
            return str(error)
        if claim.uid not in answers:
            return "the driver's answer leaves the claim out"
        return answers[claim.uid].error or answers[claim.uid]

    async def undo(self, claim: Claim) -> str:
        """What went wrong when one claim was to be unprepared; empty for nothing."""
        try:
            answers = await self.unprepare(claim)
        except DriverError as error:
            return str(error)
        return answers.get(claim.uid, "the driver's answer leaves the claim out")


def incomplete(slices: Sequence[JsonObject]) -> list[str]:
    """The pools that have not as many slices as they say, in their newest generation."""
    pools: dict[str, list[JsonObject]] = {}
    for one in slices:
        pools.setdefault(one["spec"]["pool"]["name"], []).append(one["spec"]["pool"])
    found = []
    for name, parts in pools.items():
        newest = max(part.get("generation", 0) for part in parts)
        current = [part for part in parts if part.get("generation", 0) == newest]
        if any(part["resourceSliceCount"] != len(current) for part in current):
            found.append(name)
    return found


def cdi_ids(answer: Any) -> list[str]:
    """The CDI ids of an answer for one claim."""
    return [one for device in answer.devices for one in device.cdi_device_ids]


def plain(answer: Any) -> list[tuple[Any, ...]]:
    """An answer for one claim so that it can be compared."""
    return sorted(
        (one.pool_name, one.device_name, sorted(one.request_names), sorted(one.cdi_device_ids), one.share_id)
        for one in answer.devices
    )


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
