"""Time limits of calls to a driver that does not respond."""

import asyncio
import selectors
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest
from dra_conformance.catalog import select
from dra_conformance.check import Unmet
from dra_conformance.pace import Pace
from dra_conformance.patience import Patience
from dra_node_agent.kubelet.dra.connection import DriverError
from dra_shared.jsontypes import JsonObject
from dralab.conformance import Outcome

from tests.driver_conformance.reference import Reference
from tests.driver_conformance.trial import PACE, run_suite

_PACE = Pace(call=20.0, call_again=10.0, call_silent=5.0, unanswered=45.0)


class _Selector(selectors.DefaultSelector):
    """Returns at once: time is advanced instead of waiting."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Timers are due once their time is over, whatever was lost in rounding.
        self.passed += timeout + 1e-6 if timeout else 0.0
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose time advances as soon as all of its tasks wait, on any machine."""

    def __init__(self) -> None:
        self._waits = _Selector()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.passed


def _run(test: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(test)


async def _time_out(patience: Patience) -> None:
    with pytest.raises(DriverError, match="no answer within"):
        async with patience.call():
            await asyncio.Event().wait()


def test_calls_to_a_responsive_driver_have_the_time_limit_of_the_kubelet() -> None:
    async def test() -> None:
        patience = Patience(_PACE)
        async with patience.call():
            await asyncio.sleep(_PACE.call / 2)
        with pytest.raises(DriverError, match="refused"):
            async with patience.call():
                raise DriverError("refused")
        assert patience.limit == _PACE.call

    _run(test())


def test_calls_to_an_unresponsive_driver_have_a_shorter_time_limit() -> None:
    async def test() -> None:
        patience = Patience(_PACE)
        await _time_out(patience)
        assert patience.limit == _PACE.call_silent
        patience.reset()
        assert patience.limit == _PACE.call_again
        # Calls at the same time cost their time once.
        await asyncio.gather(*(_time_out(patience) for _ in range(20)))
        patience.reset()
        await _time_out(patience)
        await _time_out(patience)
        with pytest.raises(Unmet, match="it left calls unanswered for 45 s in all"):
            async with patience.call():
                pass

    _run(test())


def test_calls_to_a_slow_driver_may_take_ten_times_its_longest_response_time() -> None:
    async def test() -> None:
        patience = Patience(replace(_PACE, call=30.0, call_again=0.0, call_silent=0.0))
        async with patience.call():
            await asyncio.sleep(2)
        await _time_out(patience)
        assert patience.limit == pytest.approx(20, abs=0.01)

    _run(test())


class _Deadlocks(Reference):
    """A driver whose lock is never released after a claim was rejected, so that later calls hang."""

    async def prepare_one(self, claim: Any) -> list[JsonObject]:
        await self.turn.acquire()
        found = await super().prepare_one(claim)
        self.turn.release()
        return found

    async def unprepare(self, claims: Sequence[Any]) -> dict[str, str]:
        async with self.turn:
            return await super().unprepare(claims)

    @property
    def turn(self) -> asyncio.Lock:
        lock: asyncio.Lock = self.__dict__.setdefault("_turn", asyncio.Lock())
        return lock


@pytest.mark.system
async def test_the_suite_does_not_wait_for_each_check_of_a_deadlocked_driver() -> None:
    """Once, each call of each check waited for the kubelet's 45 seconds."""
    # Calls that a busy machine answers late must not count as unanswered.
    pace = replace(PACE, call=6.0, call_again=4.0, call_silent=4.0, unanswered=12.0)
    results = await run_suite(_Deadlocks, select("prepare,config,process.answers,-unprepare"), pace=pace)
    named = {one.check.id for one in results if one.outcome is Outcome.BROKEN}
    assert "process.answers" in named
    assert named <= {"prepare.half-failed", "prepare.half-failed-call", "process.answers"}
    untried = [one.message for one in results if one.outcome is Outcome.UNTRIED]
    assert any("the driver is not called any more: it left calls unanswered for" in one for one in untried)
