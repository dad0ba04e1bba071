"""Objects of any version with their defaults, in the version that is wanted: what a server would make of a manifest.

A server of the newest Kubernetes that has the object's version.

Mirrors upstream's ``runtime.Decoder`` with conversion (``k8s.io/apimachinery/pkg/runtime/serializer/versioning``).
"""

import functools
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, VERSIONS, Version

from dra_apiserver import manifests
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import Registry


def converted(group: str, version: str, kind: str, obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    """``obj`` with defaults, in version ``wanted``. Objects of unknown kinds stay as they are.

    Where no Kubernetes has both versions, as of pod groups, the object stays in its own.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    found = _known(group, version, kind)
    return obj if found is None else manifests.converted(*found, version, obj, wanted)


def completed(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest as a server would complete it, with the defaults of the pods that its template makes.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    found = _known(group, version, str(obj.get("kind")))
    return obj if found is None else manifests.completed(found[0], obj)


def admitted(obj: dict[str, Any], around: manifests.Around) -> dict[str, Any]:
    """Return a completed object with what admission plugins add to its pods (:func:`manifests.admitted`)."""
    return manifests.admitted(_registry(DEFAULT), obj, around, FeatureGates())


def all_admitted(objects: list[dict[str, Any]], around: manifests.Around) -> list[dict[str, Any]]:
    """Return the objects, completed and admitted (:func:`manifests.all_admitted`)."""
    return manifests.all_admitted(_registry(DEFAULT), objects, around, FeatureGates())


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
