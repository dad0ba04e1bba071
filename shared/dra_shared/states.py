"""Declared state machines: an enum of states, an enum of events, one table of transitions.

The table is complete: an event that the table does not have for the current state raises, so a wrong order is
found where it happens. docs/node-agent.md has the tables.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class ImpossibleTransition(Exception):
    """An event that cannot happen in the current state."""


class StateMachine(Generic[S, E]):
    """Starts in ``start`` and follows ``table``: state, event, next state."""

    def __init__(self, start: S, table: Mapping[S, Mapping[E, S]]) -> None:
        self._table = table
        self._visited = {start}
        self.state = start

    def on(self, event: E) -> S:
        """Follow the event to the next state, and return it.

        Raises:
            ImpossibleTransition: the table has no such event for the current state.
        """
        following = self._table[self.state].get(event)
        if following is None:
            raise ImpossibleTransition(f"{event!r} cannot happen in state {self.state!r}")
        self.state = following
        self._visited.add(following)
        return following

    def has_been(self, state: S) -> bool:
        """True if the machine is or was in ``state``."""
        return state in self._visited


def markdown(table: Mapping[S, Mapping[E, S]]) -> str:
    """Format the table as Markdown. A state without events is final."""
    rows = ["| state | event | next state |", "|---|---|---|"]
    for state, events in table.items():
        if not events:
            rows.append(f"| {state} | | |")
        rows += [f"| {state} | {event} | {following} |" for event, following in events.items()]
    return "\n".join(rows) + "\n"
