"""The strategies of kinds that have one of their own: (group, plural, subresource) to strategy."""

from __future__ import annotations

from dra_apiserver.strategy import Strategy

STRATEGIES: dict[tuple[str, str, str], Strategy] = {}
