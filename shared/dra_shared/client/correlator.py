"""Limit the events about one object: client-go's EventCorrelator with its defaults.

The tenth message for one reason within ten minutes, and all later ones, are combined into one event with the
newest message. A component writes at most 25 events about an object, and then one in five minutes.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dra_shared.clock import Clock

V = TypeVar("V")

COMBINED = "(combined from similar events): "

_CACHE_SIZE = 4096
_MESSAGES = 10
_FORGET_SECONDS = 600.0
_BURST = 25
_REFILL_SECONDS = 300.0


@dataclass
class _Group:
    last: float
    messages: set[str] = field(default_factory=set)


@dataclass
class _Bucket:
    tokens: float
    filled: float


class Correlator:
    """Decides whether an event is combined or dropped. The caller's keys identify groups and objects."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: _Recent[_Group] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()

    def combines(self, group: Hashable, message: str) -> bool:
        """True if the group of the event has too many messages, so that it is combined into one event."""
        now = self._clock.monotonic()
        known = self._groups.get(group)
        if known is None or now - known.last > _FORGET_SECONDS:
            known = _Group(now)
        known.last = now
        known.messages.add(message)
        self._groups.put(group, known)
        if len(known.messages) < _MESSAGES:
            return False
        known.messages.pop()
        return True

    def allows(self, involved: Hashable) -> bool:
        """Return whether another write about the object is allowed, and count the write if it is."""
        now = self._clock.monotonic()
        bucket = self._buckets.get(involved) or _Bucket(_BURST, now)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.filled) / _REFILL_SECONDS)
        bucket.filled = now
        self._buckets.put(involved, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


class _Recent(Generic[V]):
    """A bounded cache of the values that were used last."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        return self._values.get(key)

    def put(self, key: Hashable, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > _CACHE_SIZE:
            self._values.popitem(last=False)
