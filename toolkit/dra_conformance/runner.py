"""Run the checks stage by stage. Checks of the background stage run during the next stage."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dra_node_agent.kubelet.dra.connection import DriverError
from dra_node_agent.kubelet.dra.wire import CallError
from dra_shared.client.errors import ApiError

from dra_conformance.check import Breach, Check, NotOffered, NotShown, Outcome, Result, Stage, Unmet
from dra_conformance.session import Session

Report = Callable[[Result], None]

#: The driver is not restarted any more after this many failed restarts in a row.
_REVIVALS = 3
_BLAMED = frozenset({Outcome.BROKEN, Outcome.WARNING})
_FAILED = frozenset({Outcome.BROKEN, Outcome.WARNING, Outcome.UNTRIED})


async def run(
    session: Session, checks: Sequence[Check], known: Mapping[str, Check], report: Report | None = None
) -> list[Result]:
    """Start the driver, run the checks, and report each result as soon as it is known.

    ``known`` has all checks by id, because the chosen checks may rest on others.
    """
    await session.open()
    return await _Run(session, known, report).all(checks)


class _Run:
    def __init__(self, session: Session, known: Mapping[str, Check], report: Report | None) -> None:
        self._session = session
        self._known = known
        self._report = report
        self._tried: dict[str, Result] = {}
        self._found: list[Result] = []
        self._lost = 0

    async def all(self, checks: Sequence[Check]) -> list[Result]:
        for stage in Stage:
            chosen = [check for check in checks if check.stage is stage]
            if stage is Stage.BACKGROUND:
                waiting = [asyncio.create_task(self._result(check)) for check in chosen]
                try:
                    await self._each([one for one in checks if one.stage is Stage.CALLS])
                    for task in waiting:
                        self._note(await task)
                finally:
                    for task in waiting:
                        task.cancel()
            elif stage is not Stage.CALLS:
                await self._each(chosen)
        return self._found

    def _note(self, result: Result) -> None:
        self._found.append(result)
        if self._report is not None:
            self._report(result)

    async def _each(self, checks: Iterable[Check]) -> None:
        for check in checks:
            result = await self._result(check)
            self._note(result)
            await self._revive(result)

    async def _revive(self, result: Result) -> None:
        """Restart a driver that has exited, because the following checks need one that runs.

        A driver that never started, or that failed to restart several times in a row, is not restarted.
        """
        session = self._session
        if session.start_problem or self._lost >= _REVIVALS:
            return
        if session.driver.restarts and not session.driver.alive():
            if result.outcome not in _BLAMED:
                session.deaths.append(result.check.id)
            try:
                await session.driver.kill()
                await session.start_again()
                self._lost = 0
            except Unmet:
                self._lost += 1

    async def _result(self, check: Check) -> Result:
        """Return the check's result. Run the check unless another check that rests on it has run it before."""
        if check.id not in self._tried:
            result = await self._try(check)
            # The cause may be an earlier check that left the driver stuck: restart it from nothing and try again.
            if (
                result.outcome in _FAILED
                and check.stage is Stage.CALLS
                and await self._session.restart_if_stuck(check.id)
            ):
                result = await self._try(check)
            if result.outcome in _BLAMED and check.stage is Stage.CALLS and self._session.hopeless:
                result = await self._unless_stuck(result)
            self._session.works |= check.id == "prepare.succeeds" and result.outcome is Outcome.KEPT
            self._tried[check.id] = result
        return self._tried[check.id]

    async def _unless_stuck(self, result: Result) -> Result:
        """Return the result, or mark it as untried if the driver prepares no claims at all any more.

        Another check, ``process.stuck``, reports that.
        """
        try:
            problem = await self._session.probe() and await self._session.probe()
        except (Unmet, NotOffered, DriverError, ApiError) as error:
            problem = str(error)
        if not problem:
            return result
        message = f"the driver prepares no claims any more: {problem}; here: {result.message}"
        return replace(result, outcome=Outcome.UNTRIED, message=message)

    async def _try(self, check: Check) -> Result:
        loop = asyncio.get_running_loop()
        began = loop.time()
        outcome, message = Outcome.KEPT, ""
        try:
            if absence := check.absence(self._session.version):
                raise NotOffered(absence)
            await check.attempt(self._session)
            if self._session.start_problem:
                # No check may pass for a driver that never registered: reading its registration raises Unmet. A
                # check that found a breach during the start has raised Breach above.
                _ = self._session.registration
        except Breach as breach:
            outcome, message = Outcome.WARNING if check.recommended else Outcome.BROKEN, str(breach)
            if base := await self._broken_base(check):
                outcome, message = Outcome.UNTRIED, f"{base} fails already; here: {breach}"
        except NotShown as reason:
            outcome, message = Outcome.NOT_SHOWN, str(reason)
        except NotOffered as reason:
            outcome, message = Outcome.SKIPPED, str(reason)
        except (Unmet, DriverError, CallError, ApiError, OSError, TimeoutError) as error:
            outcome, message = Outcome.UNTRIED, str(error) or type(error).__name__
        except Exception as error:
            # A driver's answers may have any shape. A check that cannot cope must not end the whole run.
            outcome, message = Outcome.UNTRIED, f"the suite cannot judge it: {error!r}"
        return Result(check, outcome, message, loop.time() - began)

    async def _broken_base(self, check: Check) -> str:
        """Return the id of the first failed check that this check rests on, or "" if none failed."""
        for name in check.rests_on:
            base = self._known[name]
            if (await self._result(base)).outcome in _FAILED:
                return name
        return ""
