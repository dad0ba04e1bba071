"""A session: the state that all checks share, with the driver, the kubelet's calls to it, claims, and observations.

An observation that several checks need, such as a restart, runs once: :meth:`Session.once`.
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
from dra_conformance.check import NotOffered, NotShown, Unmet
from dra_conformance.claims import Claim, Claims, Device, Result, allocatable_together, devices_of
from dra_conformance.driverprocess import Driver
from dra_conformance.foreignslices import ANOTHER_NODE
from dra_conformance.kubelet import Kubelet, Registration
from dra_conformance.pace import Pace
from dra_conformance.patience import Patience
from dra_conformance.traffic import is_about, is_write
from dra_conformance.world import NAMESPACE, World

T = TypeVar("T")

_PROBED = 2
_HOPELESS = 10
#: The slices are read again after this many polls before they count as complete.
_SETTLING = 10
#: The number of times that a stuck driver is started from nothing.
_STUCK = 24


class Session:
    """One run of the suite against one driver.

    Args:
        parameters: opaque parameters that the driver accepts; None if the user gave none.
        metrics_url: the address of the driver's metrics; empty if the user gave none.

    Attributes:
        works: True if the driver has prepared a claim.
        starts: the number of starts of the driver.
        changing: a lock that is held while the driver is started from nothing.
        deaths: ids of the checks during which the driver exited by itself.
        stuck: descriptions of the times when the driver prepared no claim any more.
        excused: parts of its log in which it may panic.
        of_large_node: its requests while it had thousands of devices.
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
        self._registration: Registration | None = None
        self._connection: DriverConnection | None = None
        self._seen: dict[Any, asyncio.Task[Any]] = {}

    @property
    def version(self) -> Version:
        """The version of Kubernetes that the suite simulates."""
        return self.world.version

    @property
    def registration(self) -> Registration:
        """The driver's last registration.

        Raises:
            Unmet: the driver is not registered.
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
        """The connection for calls to the driver.

        Raises:
            Unmet: there is none.
        """
        if self._connection is None:
            raise Unmet("the driver offers no service that the kubelet calls")
        return self._connection

    async def once(self, observe: "Callable[[Session], Awaitable[T]]") -> T:
        """Return the result of ``observe``, or raise its error. It runs once in a session."""
        if observe not in self._seen:

            async def run() -> T:
                return await observe(self)

            self._seen[observe] = asyncio.create_task(run())
        found: T = await asyncio.shield(self._seen[observe])
        return found

    async def close(self) -> None:
        """Cancel running observations, close the connection and kill the driver."""
        for task in self._seen.values():
            task.cancel()
        await asyncio.gather(*self._seen.values(), return_exceptions=True)
        await self._disconnect()
        await self.driver.kill()

    # Starting and stopping the driver

    async def open(self) -> None:
        """Start the driver for the first time. Errors are recorded for the checks that report them."""
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
        if not await self.await_slices(self.pace.start):
            pools = incomplete_pools(self.slices)
            self.publish_problem = f"incomplete pools: {', '.join(pools)}" if pools else "there are no slices"

    async def start(self) -> Registration:
        """Start the driver and register it as the kubelet does.

        Raises:
            DriverError: the driver does not register in time, or exits.
        """
        self.starts += 1
        self.patience.reset()
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
        """Kill or stop the driver and start it again.

        Raises:
            NotOffered: the user has started the driver.
            Unmet: the driver does not register again.
        """
        self.need_restarts()
        if kill:
            await self.driver.kill()
        else:
            await self.driver.stop(self.pace.stop)
        await self.start_again()

    async def start_again(self) -> None:
        """Start the driver again and register it.

        Raises:
            Unmet: the driver does not register.
        """
        await self._disconnect()
        try:
            await self.start()
            await self.kubelet.notify(self.registration.socket)
        except Exception as error:
            raise Unmet(f"the driver does not come back: {error}") from error

    async def ends(self, within: float) -> bool:
        """Wait a while, and return True as soon as the driver has ended by itself."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while self.driver.alive():
            if loop.time() > end:
                return False
            await asyncio.sleep(self.pace.poll)
        return True

    async def probe(self) -> str:
        """Prepare and unprepare claims for the devices that most checks use. Return the first error or ""."""
        for device in allocatable_together(self.devices, self.counters())[:_PROBED]:
            async with self.claim([Result(device)]) as claim:
                answer = await self.try_prepare(claim)
                if problem := answer if isinstance(answer, str) else await self.try_unprepare(claim):
                    return problem
        return ""

    async def restart_if_stuck(self, before: str) -> bool:
        """Start the driver from nothing if it has prepared claims earlier and prepares none any more.

        Returns:
            True if the driver was stuck and has been started again.
        """
        if not self.works or self.hopeless or not self.driver.alive():
            return False
        try:
            # Probe twice, because one call may be slow on a busy machine.
            if not (await self.probe() and (problem := await self.probe())):
                return False
            self.stuck.append(f"before {before}: {problem}")
            await self.start_from_nothing()
        except (Unmet, NotOffered, DriverError, ApiError):
            return False
        return True

    @property
    def hopeless(self) -> bool:
        """True if the driver was stuck too often to be started from nothing again."""
        return len(self.stuck) >= _STUCK

    async def start_from_nothing(self) -> None:
        """Restart the driver and delete all that it has written to the node.

        Raises:
            NotOffered: the user has started the driver.
            Unmet: the driver does not register again.
        """
        self.need_restarts()
        async with self.changing:
            await self.driver.kill()
            for folder in (self.kubelet.plugins, self.kubelet.registry, self.cdi.directory):
                await asyncio.to_thread(_empty, folder)
            await self.start_again()

    def need_restarts(self) -> None:
        """Raise NotOffered if the suite must not stop the driver."""
        if not self.driver.restarts:
            raise NotOffered("the driver was started by somebody else (--attach)")

    def read_output(self) -> str:
        """Return what the driver has written to standard output and standard error.

        Raises:
            NotShown: it has written nothing.
            NotOffered: the user has started the driver, so that its output is unknown.
        """
        if output := self.driver.output():
            return output
        kind = NotShown if self.driver.restarts else NotOffered
        raise kind("the driver logs nothing that the suite sees")

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    # Slices and devices

    async def read_slices(self) -> list[JsonObject]:
        """Read the driver's slices, without those that the suite has created for another node."""
        found = await self.world.slices(self.name)
        return [one for one in found if one["spec"].get("nodeName") != ANOTHER_NODE]

    async def await_slices(self, within: float) -> bool:
        """Wait until every pool is complete, adopt its slices for the session, and return True if it was in time."""
        loop = asyncio.get_running_loop()
        # If the pools were incomplete at the end of the first start, later waits are shorter.
        end = loop.time() + (within / _HOPELESS if self.publish_problem else within)
        last: list[JsonObject] = []
        while True:
            found = await self.read_slices()
            complete = bool(found) and not incomplete_pools(found)
            late = loop.time() > end
            if complete and not late and found != last:
                # The driver may be about to write another slice of a pool that looks complete.
                last = found
                await asyncio.sleep(_SETTLING * self.pace.poll)
                continue
            if complete or (late and not self.slices):
                self.slices, self.devices = found, devices_of(found)
            if complete or late:
                return complete
            await asyncio.sleep(self.pace.poll)

    def now(self) -> float:
        """Return the current time in seconds since 1970."""
        return time.time()

    def counters(self) -> dict[tuple[str, str, str], Quantity]:
        """Return the capacity of each counter, by pool, counter set and name."""
        return {
            (one["spec"]["pool"]["name"], group["name"], name): Quantity.parse(counter["value"])
            for one in self.slices
            for group in one["spec"].get("sharedCounters") or ()
            for name, counter in group["counters"].items()
        }

    def pick(self, number: int = 1, *, shared: bool | None = None) -> list[Device]:
        """Return devices that can be prepared at the same time.

        Raises:
            NotShown: the driver has fewer.
            NotOffered: the driver has fewer devices that several claims may share.
        """
        usable = [one for one in self.devices if shared is None or one.is_shared is shared]
        found = allocatable_together(usable, self.counters())[:number]
        if len(found) < number:
            if not self.devices:
                raise Unmet("the driver has published no devices")
            what = "device that several claims may share" if shared else "device"
            reason = f"needs {number} {what}{'s' if number > 1 else ''}, and there are {len(found)}"
            raise NotOffered(reason) if shared else NotShown(reason)
        return found

    def spare(self) -> Device:
        """Return a device that other checks rarely use, for a claim that may stay prepared."""
        return self.pick(min(3, len(self.devices)) or 1)[-1] if len(self.devices) > 2 else self.pick()[0]

    def writes(self) -> int:
        """Return the number of requests by which the driver has written slices or tried to."""
        answered = self.world.requests.answered
        return sum(1 for visit in answered if is_about(visit, "resourceslices") and is_write(visit))

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
        """Create an allocated claim for the block. At the end it is unprepared and deleted.

        Without ``results`` it has one device. With ``prepare`` it is also prepared.
        """
        wanted = results or [Result(self.pick()[0])]
        made = await self.claims.make(wanted, config, name=name, namespace=namespace, annotations=annotations)
        try:
            if prepare:
                await self.prepare_or_skip(made)
            yield made
        finally:
            with contextlib.suppress(DriverError, Unmet):
                await self.unprepare(made)
            with contextlib.suppress(ApiError):
                await self.claims.delete(made)

    async def prepare(self, *claims: Claim) -> Mapping[str, Any]:
        """Call NodePrepareResources and return the answers by UID.

        Raises:
            DriverError: the call failed.
        """
        async with self.patience.call():
            return await self.connection.prepare([claim.message for claim in claims])

    async def unprepare(self, *claims: Claim) -> Mapping[str, str]:
        """Call NodeUnprepareResources and return the errors by UID.

        Raises:
            DriverError: the call failed.
        """
        async with self.patience.call():
            return await self.connection.unprepare([claim.message for claim in claims])

    async def prepare_or_skip(self, claim: Claim) -> Any:
        """Prepare the claim and return the answer, for a check of something else.

        Raises:
            Unmet: the claim is not prepared.
        """
        answer = await self.try_prepare(claim)
        if isinstance(answer, str):
            raise Unmet(f"the claim is not prepared: {answer}")
        return answer

    async def unprepare_or_skip(self, claim: Claim) -> None:
        """Unprepare the claim for a check of something else.

        Raises:
            Unmet: the claim is not unprepared.
        """
        if problem := await self.try_unprepare(claim):
            raise Unmet(f"the claim is not unprepared: {problem}")

    async def try_prepare(self, claim: Claim) -> Any:
        """Prepare one claim and return the driver's answer, or the error as a text."""
        try:
            answers = await self.prepare(claim)
        except DriverError as error:
            return str(error)
        if claim.uid not in answers:
            return "the driver's answer leaves the claim out"
        return answers[claim.uid].error or answers[claim.uid]

    async def try_unprepare(self, claim: Claim) -> str:
        """Unprepare one claim and return the error, or ""."""
        try:
            answers = await self.unprepare(claim)
        except DriverError as error:
            return str(error)
        return answers.get(claim.uid, "the driver's answer leaves the claim out")


def incomplete_pools(slices: Sequence[JsonObject]) -> list[str]:
    """Return the pools whose newest generation has another number of slices than the slices say."""
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
    """Return the CDI ids in the answer for a claim."""
    return [one for device in answer.devices for one in device.cdi_device_ids]


def plain(answer: Any) -> list[tuple[Any, ...]]:
    """Return the answer for a claim in a form that can be compared."""
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
