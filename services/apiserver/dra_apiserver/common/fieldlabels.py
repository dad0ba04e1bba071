"""Why a field selector can't name a label, for kinds that convert the labels themselves."""

from __future__ import annotations

from dra_apiserver.errors import quote
from dra_apiserver.kindkit.kind import Kind


def unsupported_field_label(kind: Kind, version: str, label: str) -> str:
    """The usual answer of a field label conversion (upstream's `pkg/apis/<group>/<version>/conversion.go`)."""
    return f"field label not supported: {label}"


def unsupported_kind_label(kind: Kind, version: str, label: str) -> str:
    """The answer of a conversion that names the kind."""
    return f"field label {quote(label)} not supported for {kind.kind}"


def unsupported_version_label(kind: Kind, version: str, label: str) -> str:
    """The answer of a conversion that names the version and the kind."""
    return f"field label not supported for {kind.api_version(version)}, Kind={kind.kind}: {label}"
