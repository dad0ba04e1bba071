"""Record the driver's requests to the API server, and hold or refuse some of them."""

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
    """Requests that are being held. ``reached`` is set when the first of them arrives."""

    chosen: Chosen
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


class Recorder:
    """Records the requests of one user, and holds or refuses those that a check selects."""

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
    def hold(self, chosen: Chosen) -> Iterator[Hold]:
        """Hold the chosen requests until ``released`` is set, or until the end of the block."""
        hold = Hold(chosen)
        self._holds.append(hold)
        try:
            yield hold
        finally:
            self._holds.remove(hold)
            hold.released.set()

    @contextlib.contextmanager
    def refuse(self, chosen: Chosen, code: int = 503) -> Iterator[None]:
        """Answer the chosen requests with an error within the block."""
        entry = (chosen, code)
        self._failing.append(entry)
        try:
            yield
        finally:
            self._failing.remove(entry)


def is_about(visit: Visit, plural: str) -> bool:
    """True if the request is for objects of the given kind."""
    parts = visit.path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return rest[:1] == [plural]


def is_write(visit: Visit) -> bool:
    """True if the request changes an object."""
    return visit.method in _WRITES


def field_selector(visit: Visit) -> str:
    """Return the request's field selector, or "" if it has none."""
    return parse_qs(visit.query).get("fieldSelector", [""])[0]
