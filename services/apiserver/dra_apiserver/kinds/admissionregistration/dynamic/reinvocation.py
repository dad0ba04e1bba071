"""Decide which plugins see an object again after others have changed it (the plugins' reinvocation contexts)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dra_shared.jsontext import dumps


@dataclass(slots=True)
class Reinvocation:
    """The policies or webhooks of one request that may be invoked again, and those that must be invoked again."""

    eligible: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    _seen: bytes = b""

    def begin(self, obj: dict[str, Any] | None, again: bool) -> None:
        """Begin a round of calls. In the second round, changes by other plugins since the first round count as well."""
        if again and dumps(obj) != self._seen:
            self.record_change()

    def record_change(self) -> None:
        """Record a change of the object: plugins that were invoked before are invoked again."""
        self.wanted |= self.eligible
        self.eligible = set()

    def end(self, obj: dict[str, Any] | None) -> None:
        """End the round."""
        self._seen = dumps(obj)
