"""The schema data by package: one for each group and version, like Go's packages of types."""

import functools
from collections.abc import Mapping
from typing import Any

import orjson
from dra_shared.api.schema import schema_document
from dra_shared.version import Version, release

_GROUP_PACKAGES = {
    "": "core",
    "internal.apiserver.k8s.io": "apiserverinternal",
    "rbac.authorization.k8s.io": "rbac",
    "flowcontrol.apiserver.k8s.io": "flowcontrol",
}
_OTHER_PACKAGES = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "metrics.k8s.io": "io.k8s.metrics.pkg.apis.metrics",
}
_LIST_KEYS = (
    "x-kubernetes-list-map-keys",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
)


def package_name(group: str, version: str) -> str:
    """Return the package with the definitions of a group and version."""
    if group in _OTHER_PACKAGES:
        return f"{_OTHER_PACKAGES[group]}.{version}"
    return f"io.k8s.api.{_GROUP_PACKAGES.get(group, group.split('.')[0])}.{version}"


def internal_package(group: str) -> str:
    """Return the Go package of a group's internal types."""
    return _GROUP_PACKAGES.get(group, group.partition(".")[0])


@functools.cache
def definitions(package: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the raw schemas of a package by type name."""
    document = schema_document(package)
    loaded: dict[str, dict[str, Any]] = orjson.loads(document) if document is not None else {}
    return loaded


def filter_present(name: str, properties: Mapping[str, Any], kubernetes: Version) -> Mapping[str, Any]:
    """Return the ``properties`` of the type ``name`` that a version of Kubernetes has."""
    *_, group, version, short = name.split(".")
    known, package = release(kubernetes), f"{group}/{version}"
    return {
        field: _atomic(spec) if known.is_atomic(package, short, field) else spec
        for field, spec in properties.items()
        if known.has_field(package, short, field)
    }


def _atomic(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a keyed list changed to that of an atomic list."""
    kept = {key: value for key, value in spec.items() if key not in _LIST_KEYS}
    return {**kept, "x-kubernetes-list-type": "atomic"}
