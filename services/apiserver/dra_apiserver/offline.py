"""Convert manifests to a wanted version with defaults, without a server.

Uses the newest version of Kubernetes that serves the object's version.

Mirrors upstream's ``runtime.Decoder`` with conversion
(``k8s.io/apimachinery/pkg/runtime/serializer/versioning``).
"""

import functools
from typing import Any

from dra_shared.features import FeatureGates
from dra_shared.version import DEFAULT, VERSIONS, Version

from dra_apiserver import manifests
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import Registry


def convert_with_defaults(
    group: str, version: str, kind: str, obj: dict[str, Any], wanted: str
) -> dict[str, Any]:
    """Return ``obj`` with defaults, in version ``wanted``. Objects of unknown kinds are unchanged.

    If no version of Kubernetes has both versions, as for pod groups, the object's version is kept.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    found = _find_kind(group, version, kind)
    return obj if found is None else manifests.convert_with_defaults(*found, version, obj, wanted)


def complete_object(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest completed like by a server, with the defaults of the pods of its template.

    Raises:
        ValueError: a field is of another type than the kind's.
    """
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    found = _find_kind(group, version, str(obj.get("kind")))
    return obj if found is None else manifests.complete_object(found[0], obj)


def admit_object(obj: dict[str, Any], around: manifests.Around) -> dict[str, Any]:
    """Return a completed object with the additions of admission plugins to its pods
    (:func:`manifests.admit_object`).
    """
    return manifests.admit_object(_registry(DEFAULT), obj, around, FeatureGates())


def admit_all(objects: list[dict[str, Any]], around: manifests.Around) -> list[dict[str, Any]]:
    """Return the objects, completed and admitted (:func:`manifests.admit_all`)."""
    return manifests.admit_all(_registry(DEFAULT), objects, around, FeatureGates())


@functools.cache
def _find_kind(group: str, version: str, kind: str) -> tuple[Registry, Kind] | None:
    # Try the default version first. The preview is only used for kinds and versions that no release has.
    for kubernetes in (DEFAULT, *reversed(VERSIONS)):
        registry = _registry(kubernetes)
        if (found := registry.known_kind(group, version, kind)) is not None:
            return registry, found
    return None


@functools.cache
def _registry(kubernetes: Version) -> Registry:
    return catalog.registry("api/all=true", kubernetes=kubernetes)
