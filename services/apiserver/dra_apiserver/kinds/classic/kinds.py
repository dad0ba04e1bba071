"""The kinds of classic DRA, only served with ``--runtime-config resource.k8s.io/classic=true``.

Those of resource.k8s.io are upstream's v1alpha2 (`k8s.io/api/resource/v1alpha2`), also served as v1alpha3,
which some documents use. Those of drivers' groups are CustomResourceDefinitions upstream. All are stored
separately from the current objects that a controller creates for them, because their resources may have the
same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dra_shared.classic.pods import POD_MAKERS

from dra_apiserver.common.objectcells import name_and_age
from dra_apiserver.common.printing import printer
from dra_apiserver.kindkit.kind import Kind, api_version
from dra_apiserver.kindkit.serving import Printer
from dra_apiserver.kinds.classic import columns, schemas, sources
from dra_apiserver.kinds.classic.strategy import (
    ClassicStrategy,
    PodSchedulingContextStrategy,
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceClassStrategy,
)
from dra_apiserver.kinds.custom.definitions import kind_of_definition

_GROUP = "resource.k8s.io"
_VERSIONS = ("v1alpha3", "v1alpha2")
_STRATEGY = ClassicStrategy()
_NAMED = printer("Name|Age", name_and_age)


@dataclass(frozen=True, slots=True)
class _Declared:
    """The declaration of a classic kind, from which its record is built."""

    kind: str
    plural: str
    schema: schemas.Schema
    namespaced: bool = True
    status: bool = False
    strategy: ClassicStrategy = _STRATEGY
    printer: Printer = _NAMED
    group: str = _GROUP
    versions: Sequence[str] = _VERSIONS


_IN_TREE = (
    _Declared(
        "ResourceClass",
        "resourceclasses",
        schemas.RESOURCE_CLASS,
        namespaced=False,
        strategy=ResourceClassStrategy(),
        printer=printer("Name|DriverName|Age", columns.resource_class),
    ),
    _Declared(
        "ResourceClaim",
        "resourceclaims",
        schemas.RESOURCE_CLAIM,
        status=True,
        strategy=ResourceClaimStrategy(),
        printer=printer("Name|ResourceClassName|AllocationMode|State|Age", columns.resource_claim),
    ),
    _Declared(
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        schemas.RESOURCE_CLAIM_TEMPLATE,
        strategy=ResourceClaimTemplateStrategy(),
        printer=printer("Name|ResourceClassName|AllocationMode|Age", columns.resource_claim_template),
    ),
    _Declared(
        "PodSchedulingContext",
        "podschedulingcontexts",
        schemas.POD_SCHEDULING_CONTEXT,
        status=True,
        strategy=PodSchedulingContextStrategy(),
        printer=printer("Name|SelectedNode|Age", columns.pod_scheduling_context),
    ),
    _Declared("ResourceClaimParameters", "resourceclaimparameters", schemas.RESOURCE_CLAIM_PARAMETERS),
    _Declared("ResourceClassParameters", "resourceclassparameters", schemas.RESOURCE_CLASS_PARAMETERS),
)
_OF_DRIVERS = (
    ("gpu.nvidia.com", ("v1", "v1alpha1")),
    ("gpu.resource.nvidia.com", ("v1alpha1",)),
    ("gpu.resource.example.com", ("v1alpha1",)),
)
_PARAMETERS = (
    ("ComputeInstanceClaimParameters", True),
    ("DeviceClass", False),
    ("DeviceClassParameters", False),
    ("GpuClaimParameters", True),
    ("GpuClassParameters", False),
    ("MigDeviceClaimParameters", True),
)


def classic_kinds() -> Iterable[Kind]:
    """Return the records of all classic kinds."""
    yield from map(_record, _IN_TREE)
    for group, versions in _OF_DRIVERS:
        for kind, namespaced in _PARAMETERS:
            plural = f"{kind.lower()}es" if kind.endswith("Class") else kind.lower()
            yield _record(
                _Declared(kind, plural, schemas.PARAMETERS, namespaced, group=group, versions=versions)
            )


def with_sources(kinds: Iterable[Kind]) -> list[Kind]:
    """Return the kinds, with support for `source:` in those that contain pods."""
    return [
        replace(kind, types=replace(kind.types, rewrite_body=_sources(kind)))
        if (kind.group, kind.kind) in POD_MAKERS
        else kind
        for kind in kinds
    ]


def _sources(kind: Kind) -> Callable[[bytes], bytes]:
    return sources.rewrite(kind.api_version(kind.storage_version), kind.kind)


def _record(declared: _Declared) -> Kind:
    subresources: dict[str, Any] = {"subresources": {"status": {}}} if declared.status else {}
    definition = {
        "spec": {
            "group": declared.group,
            "scope": "Namespaced" if declared.namespaced else "Cluster",
            "names": {"kind": declared.kind, "plural": declared.plural},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == declared.versions[0],
                    "schema": {"openAPIV3Schema": declared.schema},
                    **subresources,
                }
                for version in declared.versions
            ],
        }
    }
    kind = kind_of_definition(definition)
    assert kind is not None, api_version(declared.group, declared.versions[0])
    return replace(
        kind,
        storage=(declared.group, f"classic{declared.plural}"),
        strategies=dict.fromkeys(kind.strategies, declared.strategy),
        printers={"": declared.printer},
        # kubectl has types for this group's kinds, and sends strategic merge patches for these.
        types=replace(kind.types, names_itself=False, strategic_merge=declared.group == _GROUP),
    )
