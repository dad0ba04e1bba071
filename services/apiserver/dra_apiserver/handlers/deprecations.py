"""Which served versions are on their way out; a request for one is answered with a warning."""

from __future__ import annotations

from dra_apiserver.kindkit.kind import Kind


def deprecation(kind: Kind, version: str) -> str | None:
    """The warning for a request that uses the kind in this version."""
    return kind.deprecated.get(version)
