"""Test declared state machines."""

from enum import StrEnum

import pytest
from dra_shared.states import ImpossibleTransition, StateMachine, markdown


class _Door(StrEnum):
    OPEN = "Open"
    SHUT = "Shut"
    GONE = "Gone"


class _Act(StrEnum):
    PUSH = "push"
    PULL = "pull"
    BREAK = "break"


_TABLE = {
    _Door.OPEN: {_Act.PUSH: _Door.SHUT},
    _Door.SHUT: {_Act.PULL: _Door.OPEN, _Act.BREAK: _Door.GONE},
    _Door.GONE: dict[_Act, _Door](),
}


def test_events_change_the_state_as_the_table_declares() -> None:
    door = StateMachine(_Door.OPEN, _TABLE)
    assert door.on(_Act.PUSH) is _Door.SHUT
    assert door.on(_Act.PULL) is _Door.OPEN
    assert door.state is _Door.OPEN
    assert door.has_been(_Door.SHUT)
    assert not door.has_been(_Door.GONE)


def test_an_event_that_the_state_does_not_allow_raises_and_changes_nothing() -> None:
    door = StateMachine(_Door.OPEN, _TABLE)
    with pytest.raises(ImpossibleTransition, match=r"PULL.*cannot happen in state.*OPEN"):
        door.on(_Act.PULL)
    assert door.state is _Door.OPEN


def test_the_table_of_a_state_machine_is_drawn_row_by_row() -> None:
    assert markdown(_TABLE).splitlines()[2:] == [
        "| Open | push | Shut |",
        "| Shut | pull | Open |",
        "| Shut | break | Gone |",
        "| Gone | | |",
    ]
