"""Compare every resource and every field of every type with the released Kubernetes of each version.

The files in tests/data/served are written by `make served`.
"""

import json
from pathlib import Path

import pytest
from dra_apiserver.discovery import Discovery
from dra_apiserver.kinds import catalog
from dra_apiserver.openapi import OpenApi
from dra_shared.version import Version

from tools.served.__main__ import format_resources, format_types

_RECORDS = sorted((Path(__file__).parents[2] / "data/served").glob("*.txt"))
_EVERY_VERSION = ("1.34", "1.35", "1.36", "1.37", "1.38")

# The preview of 1.38 lacks conditional authorization and security profiles in images: both are alpha and do not
# concern devices. The types of groups of Jobs were alpha's before.
_OF_THE_PREVIEW = (
    "type io.k8s.api.authorization.v1.AuthorizationOptions ",
    "type io.k8s.api.authorization.v1.Condition ",
    "type io.k8s.api.authorization.v1.ConditionsAwareDecision ",
    "type io.k8s.api.authorization.v1.ConditionsMap ",
    "type io.k8s.api.authorization.v1.NamedConditionsAwareDecision ",
    "type io.k8s.api.authorization.v1.SelfSubjectAccessReviewSpec ",
    "type io.k8s.api.authorization.v1.SubjectAccessReviewSpec ",
    "type io.k8s.api.authorization.v1.SubjectAccessReviewStatus ",
    "type io.k8s.api.authorization.v1.UnconditionalDecision ",
    "type io.k8s.api.core.v1.SeccompProfile ",
    "type io.k8s.api.core.v1.SecurityProfileOCI",
    "type io.k8s.api.scheduling.v1.Workload",
    "type io.k8s.api.scheduling.v1alpha3.WorkloadPodGroup",
)

# Types in documents whose paths are not in our OpenAPI, and types that no other type refers to.
_NOT_DESCRIBED = (
    "type io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup ",
    "type io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList ",
    "type io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions ",
    "type io.k8s.apimachinery.pkg.apis.meta.v1.GroupVersionForDiscovery ",
    "type io.k8s.apimachinery.pkg.apis.meta.v1.ServerAddressByClientCIDR ",
    "type io.k8s.apimachinery.pkg.version.Info ",
    "type io.k8s.api.admissionregistration.v1alpha1.MatchCondition ",
)


def test_every_supported_version_has_recorded_resources_and_types() -> None:
    assert {path.stem for path in _RECORDS} >= set(_EVERY_VERSION)


@pytest.mark.parametrize("record", _RECORDS, ids=lambda path: path.stem)
def test_resources_are_those_of_the_release(record: Path) -> None:
    registry = catalog.registry("api/all=true", kubernetes=Version.parse(record.stem))
    discovery = Discovery(registry)
    documents = [discovery.build_aggregated(core=core) for core in (False, True)]
    ours = {line for document in documents for line in format_resources(document)}
    assert ours == _read_record(record, "resource")


@pytest.mark.parametrize("record", _RECORDS, ids=lambda path: path.stem)
def test_types_have_the_fields_of_the_release(record: Path) -> None:
    openapi = OpenApi(catalog.registry("api/all=true", kubernetes=Version.parse(record.stem)))
    documents = [json.loads(openapi.v3(path) or "{}") for path in json.loads(openapi.index())["paths"]]
    left_out = _OF_THE_PREVIEW if record.stem == "1.38" else ()
    ours = {line for line in format_types(documents) if not line.startswith(left_out)}
    assert ours == {line for line in _read_record(record, "type") if not line.startswith(left_out)}


def _read_record(record: Path, word: str) -> set[str]:
    return {
        line
        for line in record.read_text().splitlines()
        if line.startswith(f"{word} ") and not line.startswith(_NOT_DESCRIBED)
    }
