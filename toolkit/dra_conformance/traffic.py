"""What the driver asks the API server, and requests of it that the suite holds or refuses."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from dra_apiserver.errors import StatusError
from dra_apiserver.traffic import Visit

Chosen = Callable[[Visit], bool]

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass
class Hold:
    """Requests that wait: ``reached`` is set when the first does."""

    chosen: Chosen
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Recorder:
    """Remembers the requests of one user, and stops those that it is asked to stop."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.answered: list[Visit] = []
        self._holds: list[Hold] = []
        self._failing: list[tuple[Chosen, int]] = []

    async def arrive(self, visit: Visit) -> None:
        """See :class:`~dra_apiserver.traffic.Traffic`."""
        if visit.user != self.user:
            return
        for chosen, code in self._failing:
            if chosen(visit):
                raise StatusError(code, "ServiceUnavailable", "the suite lets this request fail")
        for hold in self._holds:
            if hold.chosen(visit):
                hold.reached.set()
                await hold.released.wait()

    def depart(self, visit: Visit) -> None:
        """See :class:`~dra_apiserver.traffic.Traffic`."""
        if visit.user == self.user:
            self.answered.append(visit)

    @contextlib.contextmanager
    def held(self, chosen: Chosen) -> Iterator[Hold]:
        """Let such requests wait, until the end of the block at the latest."""
        hold = Hold(chosen)
        self._holds.append(hold)
        try:
            yield hold
        finally:
            self._holds.remove(hold)
            hold.released.set()

    @contextlib.contextmanager
    def failing(self, chosen: Chosen, code: int = 503) -> Iterator[None]:
        """Answer such requests with an error within the block."""
        entry = (chosen, code)
        self._failing.append(entry)
        try:
            yield
        finally:
            self._failing.remove(entry)


def about(visit: Visit, plural: str) -> bool:
    """Whether the request is for objects of that kind."""
    parts = visit.path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return rest[:1] == [plural]


def is_write(visit: Visit) -> bool:
    """Whether the request changes something."""
    return visit.method in _WRITES


def field_selector(visit: Visit) -> str:
    """The request's field selector; empty where it has none."""
    return parse_qs(visit.query).get("fieldSelector", [""])[0]
