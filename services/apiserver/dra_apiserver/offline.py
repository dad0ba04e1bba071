"""Objects of any version with their defaults, in the version that is wanted: what a server would make of a manifest.

A server of the newest Kubernetes that has the object's version.

Mirrors upstream's ``runtime.Decoder`` with conversion (``k8s.io/apimachinery/pkg/runtime/serializer/versioning``).
"""

import functools
from typing import Any

import orjson
from dra_shared.version import VERSIONS, Version

from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.kinds import catalog
from dra_apiserver.kinds.kind import Kind
from dra_apiserver.registry import Registry
from dra_apiserver.schema import DecodeError, decode, default


def converted(group: str, version: str, kind: str, obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    """``obj`` with defaults, in version ``wanted``. Objects of unknown kinds stay as they are.

    Where no Kubernetes has both versions, as of pod groups, the object stays in its own.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    found = _known(group, version, kind)
    if found is None:
        return obj
    registry, known = found
    # As a request's body, which may have a number where a quantity is meant.
    try:
        obj = decode(registry, known, version, orjson.dumps(obj), field_validation="Ignore").obj
    except DecodeError as error:
        raise ValueError(str(error)) from error
    default(known, version, obj)
    if version != wanted and wanted in known.versions:
        to_storage(known, obj, version)
        if known.storage_version != wanted:
            convert(known, obj, wanted)
    return obj


@functools.cache
def _known(group: str, version: str, kind: str) -> tuple[Registry, Kind] | None:
    for kubernetes in reversed(VERSIONS):
        registry = _registry(kubernetes)
        if (found := registry.known_kind(group, version, kind)) is not None:
            return registry, found
    return None


@functools.cache
def _registry(kubernetes: Version) -> Registry:
    return catalog.registry("api/all=true", kubernetes=kubernetes)
