"""Objects of any version with their defaults, in the version that is wanted: what a server would make of a manifest.

Mirrors upstream's ``runtime.Decoder`` with conversion (``k8s.io/apimachinery/pkg/runtime/serializer/versioning``).
"""

import functools
from typing import Any

import orjson

from dra_apiserver.conversion import convert, to_storage
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import Registry
from dra_apiserver.schema import DecodeError, decode, default


def converted(group: str, version: str, kind: str, obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    """``obj`` with defaults, in version ``wanted``. Objects of unknown kinds stay as they are.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    known = _registry().known_kind(group, version, kind)
    if known is None:
        return obj
    # As a request's body, which may have a number where a quantity is meant.
    try:
        obj = decode(_registry(), known, version, orjson.dumps(obj), field_validation="Ignore").obj
    except DecodeError as error:
        raise ValueError(str(error)) from error
    default(known, version, obj)
    if version != wanted:
        to_storage(known, obj, version)
        if known.storage_version != wanted:
            convert(known, obj, wanted)
    return obj


@functools.cache
def _registry() -> Registry:
    return catalog.registry("api/all=true")
