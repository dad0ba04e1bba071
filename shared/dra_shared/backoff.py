"""Delays that double, from 10 seconds to 5 minutes for restarts (client-go's flowcontrol.Backoff)."""

from dataclasses import dataclass

INITIAL = 10.0
LONGEST = 300.0


@dataclass
class _Entry:
    delay: float
    since: float


class Backoff:
    """The delays by key. Times are seconds of one clock."""

    def __init__(self, initial: float = INITIAL, longest: float = LONGEST) -> None:
        self._initial, self._longest = initial, longest
        self._entries: dict[str, _Entry] = {}

    def remaining(self, key: str, failed_at: float, now: float) -> float:
        """How long a restart after a failure at ``failed_at`` still has to wait."""
        entry = self._entries.get(key)
        if entry is None or failed_at - entry.since > 2 * self._longest:
            return 0.0
        return max(entry.delay - (now - failed_at), 0.0)

    def remaining_since_update(self, key: str, now: float) -> float:
        """How long the next one still has to wait after the last one (IsInBackOffSinceUpdate)."""
        entry = self._entries.get(key)
        return 0.0 if entry is None else self.remaining(key, entry.since, now)

    def collect(self, now: float) -> None:
        """Forget what has been well for twice the longest delay (GC)."""
        self._entries = {
            key: entry for key, entry in self._entries.items() if now - entry.since <= 2 * self._longest
        }

    def delay(self, key: str) -> float:
        """The delay that applies now."""
        entry = self._entries.get(key)
        return entry.delay if entry is not None else 0.0

    def next(self, key: str, failed_at: float, now: float) -> None:
        """A restart happens: the one after it waits twice as long."""
        entry = self._entries.get(key)
        if entry is None or failed_at - entry.since > 2 * self._longest:
            self._entries[key] = _Entry(self._initial, now)
        else:
            self._entries[key] = _Entry(min(entry.delay * 2, self._longest), now)
