"""Each mutant fails the check for its bug, and no other."""

import asyncio
import os
import re
from collections.abc import Sequence

import pytest
from dra_conformance.pace import Pace
from dralab.conformance import CHECKS, Outcome

from tests.driver_conformance.mutants import MUTANTS, Mutant, slices
from tests.driver_conformance.trial import GENEROUS, LONG, PACE, run_suite

_SAMPLE = (slices.DeletesAtExit,)
_ALL = os.environ.get("DRALAB_MUTANTS") == "all"
_CHOSEN: Sequence[type[Mutant]] = MUTANTS if _ALL else _SAMPLE
# Many mutants leave calls unanswered. Those of the sample do not, and reach no limit on a slow machine.
_PACE = PACE if _ALL else LONG
# Several runs are concurrent, because each of them mostly waits.
_AT_A_TIME = 6
_GROUPS = [_CHOSEN[place : place + _AT_A_TIME] for place in range(0, len(_CHOSEN), _AT_A_TIME)]


@pytest.mark.system
@pytest.mark.parametrize("group", _GROUPS, ids=lambda group: ",".join(one.__name__ for one in group))
async def test_a_mutant_fails_only_the_check_for_its_bug(group: Sequence[type[Mutant]]) -> None:
    results = await asyncio.gather(*(_name_bugs(mutant, _PACE) for mutant in group))
    for mutant, named in zip(group, results, strict=True):
        if _ALL and named.keys() != {mutant.check}:
            # On a busy machine correct calls may exceed the short limits.
            named = await _name_bugs(mutant, GENEROUS)
        assert named.keys() == {mutant.check}, (mutant.__name__, named)


async def _name_bugs(mutant: type[Mutant], pace: Pace) -> dict[str, str]:
    """Return the messages of the mutant's breaches, by check."""
    found = await run_suite(mutant, pace=pace)
    return {one.check.id: one.message for one in found if one.outcome in (Outcome.BROKEN, Outcome.WARNING)}


def test_every_mutant_names_a_check_and_a_report_of_its_bug() -> None:
    known = {check.id for check in CHECKS}
    assert len(MUTANTS) >= 40
    assert len({mutant.__name__ for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.check in known, mutant.__name__
        assert re.search(r"https://github\.com/\S+", mutant.source), mutant.__name__
        assert mutant.__doc__ != Mutant.__doc__, mutant.__name__


def test_dependencies_between_checks_have_no_cycles() -> None:
    known = {check.id: check for check in CHECKS}

    def bases(name: str) -> set[str]:
        found = set(known[name].rests_on)
        return found.union(*map(bases, found)) if found else found

    for name in known:
        assert name not in bases(name), name
