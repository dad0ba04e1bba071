"""Warnings for requests of deprecated versions."""

from __future__ import annotations

from dra_apiserver.kindkit.kind import Kind


def deprecation(kind: Kind, version: str) -> str | None:
    """Return the warning for a request that uses the kind in this version, or None."""
    return kind.deprecated.get(version)
