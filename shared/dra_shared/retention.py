"""The retention of a cluster's history: the value of ``--history``."""

from __future__ import annotations

from typing import NamedTuple

from dra_shared.durations import parse_age
from dra_shared.quantity import Quantity

#: Seconds for which Kubernetes' own clients can read revisions; etcd's are compacted as often
#: (--etcd-compaction-interval).
WINDOW = 300.0


class Retention(NamedTuple):
    """The highest age in seconds, and the most bytes on disk; None for no limit."""

    age: float | None = None
    size: int | None = None

    @property
    def window(self) -> float:
        """The seconds for which revisions can be read through Kubernetes' own API."""
        return WINDOW if self.age is None else min(WINDOW, self.age)

    @property
    def is_lasting(self) -> bool:
        """True if history is kept longer than that."""
        return self.age is None or self.age > WINDOW


def parse_retention(text: str) -> Retention:
    """Parse ``all``, an age (``90s``, ``24h``, ``7d``), a size (``2Gi``), or both: ``24h,2Gi``.

    Raises:
        ValueError: the text is none of these.
    """
    if text == "all":
        return Retention()
    age: float | None = None
    size: int | None = None
    for part in text.split(","):
        found = parse_age(part)
        if found is not None and age is None:
            age = found
        elif size is None:
            size = _bytes(part, text)
        else:
            raise _parse_error(text)
    return Retention(age, size)


def _bytes(part: str, text: str) -> int:
    try:
        size = Quantity.parse(part).value()
    except ValueError:
        raise _parse_error(text) from None
    if size < 1 << 20:
        raise ValueError(f"{part} is too little for a history: 1Mi is the least")
    return size


def _parse_error(text: str) -> ValueError:
    return ValueError(f"not a history: {text!r}, such as all, 24h, 2Gi or 24h,2Gi")
