"""Who is to look at an object again, because others changed it since (the plugins' reinvocation contexts)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dra_shared.jsontext import dumps


@dataclass(slots=True)
class Reinvocation:
    """One request's policies, or its webhooks: who may be asked again, and who is to be."""

    eligible: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    _seen: bytes = b""

    def begin(self, obj: dict[str, Any] | None, again: bool) -> None:
        """A round begins; in the second, what the others did since the first is a change."""
        if again and dumps(obj) != self._seen:
            self.changed()

    def changed(self) -> None:
        """The object changed: who was asked before is to be asked again."""
        self.wanted |= self.eligible
        self.eligible = set()

    def end(self, obj: dict[str, Any] | None) -> None:
        """The round is over."""
        self._seen = dumps(obj)
