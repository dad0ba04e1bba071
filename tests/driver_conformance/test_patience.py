"""How long a driver is waited for that leaves calls unanswered."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from dra_node_agent.kubelet.dra.connection import DriverError
from dralab.conformance import Outcome
from dralab.conformance.catalog import select
from dralab.conformance.check import Unmet
from dralab.conformance.pace import Pace
from dralab.conformance.patience import Patience

from tests.driver_conformance.reference import Json, Reference
from tests.driver_conformance.trial import PACE, tried

_PACE = Pace(call=0.2, call_again=0.1, call_silent=0.05, unanswered=0.45)


async def _unanswered(patience: Patience) -> None:
    with pytest.raises(DriverError, match="no answer within"):
        async with patience.call():
            await asyncio.Event().wait()


async def test_a_driver_that_answers_has_the_kubelets_time() -> None:
    patience = Patience(_PACE)
    async with patience.call():
        pass
    with pytest.raises(DriverError, match="refused"):
        async with patience.call():
            raise DriverError("refused")
    assert patience.limit == _PACE.call


async def test_one_that_does_not_has_less_each_time_until_it_is_called_no_more() -> None:
    patience = Patience(_PACE)
    await _unanswered(patience)
    assert patience.limit == _PACE.call_silent
    patience.started()
    assert patience.limit == _PACE.call_again
    # Calls at the same time cost their time once.
    await asyncio.gather(*(_unanswered(patience) for _ in range(20)))
    patience.started()
    await _unanswered(patience)
    await _unanswered(patience)
    with pytest.raises(Unmet, match="it left calls unanswered for 0 s in all"):
        async with patience.call():
            pass


async def test_one_that_is_slow_has_ten_times_its_own_time() -> None:
    patience = Patience(replace(_PACE, call=0.3, call_again=0.0, call_silent=0.0))
    async with patience.call():
        await asyncio.sleep(0.02)
    await _unanswered(patience)
    assert 0.2 <= patience.limit <= 0.3


class _Deadlocks(Reference):
    """Its lock stays held when a claim is refused, and the calls to come wait for good."""

    async def prepare_one(self, claim: Any) -> list[Json]:
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
async def test_a_driver_that_deadlocks_does_not_make_the_suite_wait_for_each_check() -> None:
    """Each call had the kubelet's 45 seconds, check by check."""
    pace = replace(PACE, call=3.0, call_again=0.5, call_silent=0.25, unanswered=12.0)
    results = await tried(_Deadlocks, select("prepare,config,process.answers,-unprepare"), pace=pace)
    named = {one.check.id for one in results if one.outcome is Outcome.BROKEN}
    assert "process.answers" in named
    assert named <= {"prepare.half-failed", "prepare.half-failed-call", "process.answers"}
    assert sum(one.seconds for one in results) < 45
    untried = [one.message for one in results if one.outcome is Outcome.UNTRIED]
    assert any("the driver is not called any more: it left calls unanswered for" in one for one in untried)
