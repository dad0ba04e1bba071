"""Objects of any version with their defaults, in the version that is wanted: what a server would make of a manifest.

Mirrors upstream's ``runtime.Decoder`` with conversion (``k8s.io/apimachinery/pkg/runtime/serializer/versioning``).
"""

import functools
from typing import Any

from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import Registry
from dra_apiserver.schema import default


def converted(group: str, version: str, kind: str, obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    """``obj`` with defaults, in version ``wanted``; changes it. Objects of unknown kinds stay as they are."""
    known = _registry().known_kind(group, version, kind)
    if known is None:
        return obj
    default(known, version, obj)
    if version != wanted:
        to_storage(known, obj, version)
        if known.storage_version != wanted:
            convert(known, obj, wanted)
    return obj


@functools.cache
def _registry() -> Registry:
    return catalog.registry("api/all=true")
