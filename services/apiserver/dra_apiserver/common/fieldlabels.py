"""Errors for unknown labels in field selectors, for kinds that convert the labels themselves."""

from __future__ import annotations

from dra_apiserver.errors import quote


def unsupported_field_label(api_version: str, kind: str, label: str) -> str:
    """Return the usual error of a field label conversion (upstream's `pkg/apis/<group>/<version>/conversion.go`)."""
    return f"field label not supported: {label}"


def unsupported_kind_label(api_version: str, kind: str, label: str) -> str:
    """Return the error of a conversion that names the kind."""
    return f"field label {quote(label)} not supported for {kind}"


def unsupported_version_label(api_version: str, kind: str, label: str) -> str:
    """Return the error of a conversion that names the version and the kind."""
    return f"field label not supported for {api_version}, Kind={kind}: {label}"
