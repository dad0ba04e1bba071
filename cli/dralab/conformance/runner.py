"""Runs checks one after the other, stage by stage; those that only wait run while others work."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence

from dra_node_agent.kubelet.dra.connection import DriverError
from dra_node_agent.kubelet.dra.wire import CallError
from dra_shared.client.errors import ApiError

from dralab.conformance.check import Breach, Check, NotOffered, Outcome, Result, Stage, Unmet
from dralab.conformance.session import Session

Report = Callable[[Result], None]

_WITH_CALLS = (Stage.BACKGROUND, Stage.CALLS)


async def run(session: Session, checks: Sequence[Check], report: Report | None = None) -> list[Result]:
    """Start the driver and try the checks; each result is reported when it is there."""
    found: list[Result] = []

    def note(result: Result) -> None:
        found.append(result)
        if report is not None:
            report(result)

    await session.open()
    for stage in Stage:
        chosen = [check for check in checks if check.stage is stage]
        if stage is Stage.BACKGROUND:
            waiting = [asyncio.create_task(_try(session, check)) for check in chosen]
            try:
                await _each(session, [one for one in checks if one.stage is Stage.CALLS], note)
                for task in waiting:
                    note(await task)
            finally:
                for task in waiting:
                    task.cancel()
        elif stage not in _WITH_CALLS:
            await _each(session, chosen, note)
    return found


async def _each(session: Session, checks: Iterable[Check], note: Report) -> None:
    for check in checks:
        result = await _try(session, check)
        note(result)
        if session.driver.restarts and not session.driver.alive():
            session.deaths += 1
            # The checks to come are worth nothing without a driver.
            with contextlib.suppress(Unmet):
                await session.driver.kill()
                await session.back()


async def _try(session: Session, check: Check) -> Result:
    loop = asyncio.get_running_loop()
    began = loop.time()
    outcome, message = Outcome.KEPT, ""
    try:
        await check.attempt(session)
    except Breach as breach:
        outcome, message = Outcome.WARNING if check.recommended else Outcome.BROKEN, str(breach)
    except NotOffered as reason:
        outcome, message = Outcome.SKIPPED, str(reason)
    except (Unmet, DriverError, CallError, ApiError, OSError, TimeoutError) as error:
        outcome, message = Outcome.UNTRIED, str(error) or type(error).__name__
    return Result(check, outcome, message, loop.time() - began)
