"""Which served versions are on their way out; a request for one is answered with a warning."""

from __future__ import annotations

from dra_apiserver.registry import KindInfo


def deprecation(kind: KindInfo, version: str) -> str | None:
    """The warning for a request that uses the kind in this version."""
    if kind.custom is None:
        return kind.deprecated.get(version)
    made = kind.custom[version]
    if not made.deprecated:
        return None
    return made.deprecation_warning or f"{kind.api_version(version)} {kind.kind} is deprecated"
