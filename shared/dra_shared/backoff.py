"""Delays that double, from 10 seconds to 5 minutes for restarts (client-go's flowcontrol.Backoff)."""

from dataclasses import dataclass

INITIAL = 10.0
LONGEST = 300.0


@dataclass
class _Entry:
    delay: float
    since: float


class Backoff:
    """Exponential delays by key. All times are seconds of one clock."""

    def __init__(self, initial: float = INITIAL, longest: float = LONGEST) -> None:
        self._initial, self._longest = initial, longest
        self._entries: dict[str, _Entry] = {}

    def remaining_delay(self, key: str, failed_at: float, now: float) -> float:
        """Return the seconds that a restart after a failure at ``failed_at`` still has to wait."""
        entry = self._entries.get(key)
        if entry is None or failed_at - entry.since > 2 * self._longest:
            return 0.0
        return max(entry.delay - (now - failed_at), 0.0)

    def remaining_since_update(self, key: str, now: float) -> float:
        """Return the seconds that the next restart still has to wait, counted from the last one
        (IsInBackOffSinceUpdate).
        """
        entry = self._entries.get(key)
        return 0.0 if entry is None else self.remaining_delay(key, entry.since, now)

    def collect(self, now: float) -> None:
        """Remove keys whose last failure is more than twice the longest delay ago (GC)."""
        self._entries = {
            key: entry for key, entry in self._entries.items() if now - entry.since <= 2 * self._longest
        }

    def delay(self, key: str) -> float:
        """Return the current delay of the key."""
        entry = self._entries.get(key)
        return entry.delay if entry is not None else 0.0

    def next(self, key: str, failed_at: float, now: float) -> None:
        """Record a restart and double the delay of the next one."""
        entry = self._entries.get(key)
        if entry is None or failed_at - entry.since > 2 * self._longest:
            self._entries[key] = _Entry(self._initial, now)
        else:
            self._entries[key] = _Entry(min(entry.delay * 2, self._longest), now)
