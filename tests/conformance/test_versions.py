"""Served APIs of Kubernetes 1.34.9 and 1.35.6, compared with recordings of their kube-apiservers."""

import gzip
import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from dra_apiserver.discovery import Discovery, version_info
from dra_apiserver.kinds import catalog
from dra_apiserver.openapi import OpenApi
from dra_recordings import comparison as conformance
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_37, Version, release

from tests.support.cases import each_case
from tests.support.reference import load_vectors, reference_path

_RECORDED = (V1_34, V1_35)
_STARTS = ("all", "default")
_GROUPS = ("resource.k8s.io", "scheduling.k8s.io")
# Gates of the distribution that the recorded servers were built from.
_NOT_KUBERNETES = {"MinimumKubeletVersion", "RouteExternalCertificate", "StoragePerformantSecurityPolicy"}
_STAGES = {"AllAlpha", "AllBeta"}
# On in the recorded servers, which OpenShift built, and off in Kubernetes.
_OTHER_DEFAULTS = {"NodeLogQuery": ("beta", True)}
_NOT_SERVED_OR_USED = (
    "io.k8s.api.scheduling.v1alpha3.WorkloadCompositePodGroup",
    "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroup",
    "io.k8s.api.scheduling.v1beta1.PriorityClass",
)

Server = tuple[Version, Discovery, OpenApi, JsonObject, JsonObject]


def _read_recording(version: Version, name: str) -> JsonObject:
    path = reference_path("reference", f"kubernetes-{version}", name)
    data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    found: JsonObject = json.loads(data)
    return found


def gates(version: Version, start: str) -> FeatureGates:
    changed: JsonObject = (
        _read_recording(version, "gates-running.json")["changed-in-all"] if start == "all" else {}
    )
    return FeatureGates(version, **{name: gate["enabled"] for name, gate in changed.items()})


@pytest.fixture(
    scope="module", params=[(v, s) for v in _RECORDED for s in _STARTS], ids=lambda p: f"{p[0]}-{p[1]}"
)
def server(request: pytest.FixtureRequest) -> Server:
    version, start = request.param
    registry = catalog.registry("api/all=true" if start == "all" else "", gates(version, start))
    documents = _read_recording(version, f"discovery-{start}.json")
    return (
        version,
        Discovery(registry),
        OpenApi(registry),
        documents,
        _read_recording(version, f"openapi-{start}.json.gz"),
    )


@pytest.mark.parametrize("version", _RECORDED, ids=str)
def test_feature_gates_equal_those_recorded_for_the_version(version: Version) -> None:
    recorded = _read_recording(version, "gates-running.json")["default"]
    known = release(version).gates
    ours = {name: (gate.stage.lower(), gate.default) for name, gate in known.items()}
    theirs = {name: (gate["stage"], gate["enabled"]) for name, gate in recorded.items()}
    expected = {n: gate for n, gate in theirs.items() if n not in _NOT_KUBERNETES | _STAGES}
    assert {name: _OTHER_DEFAULTS.get(name, gate) for name, gate in ours.items()} == expected
    for name, gate in _read_recording(version, "gates.json").items():
        effective = gate["effective"]
        assert (known[name].stage.lower(), known[name].default, known[name].locked) == (
            effective["stage"],
            effective["default"],
            effective["locked"],
        )


@pytest.mark.parametrize("version", _RECORDED, ids=str)
def test_dependencies_between_gates_equal_those_recorded_for_the_version(version: Version) -> None:
    theirs = {
        name: gate["dependsOn"]
        for name, gate in _read_recording(version, "gates.json").items()
        if gate.get("dependsOn")
    }
    known = release(version).gates
    assert {name: list(known[name].needs) for name in theirs} == theirs
    assert theirs or not any(gate.needs for gate in known.values())


def test_version_info_equals_the_recorded_one(server: Server) -> None:
    version, *_, documents, _ = server
    ours, theirs = version_info(version), documents["/version"]["body"]
    assert {key: ours[key] for key in theirs} | {"gitVersion": theirs["gitVersion"]} == theirs
    assert ours["gitVersion"] == f"{theirs['gitVersion']}+dralab"


def test_api_groups_equal_the_recorded_ones(server: Server) -> None:
    _, discovery, _, documents, _ = server
    assert discovery.groups() == documents["/apis"]["body"]


def test_core_resources_equal_the_recorded_ones(server: Server) -> None:
    _, discovery, _, documents, _ = server
    ours = discovery.resources("", "v1")
    assert ours is not None
    theirs = {one["name"]: one for one in documents["/api/v1"]["body"]["resources"]}
    assert {one["name"]: one for one in ours["resources"]} == theirs


@pytest.mark.parametrize("group", _GROUPS)
def test_resources_of_groups_equal_the_recorded_ones(server: Server, group: str) -> None:
    _, discovery, _, documents, _ = server
    for path, recorded in documents.items():
        if path.startswith(f"/apis/{group}/"):
            ours = discovery.resources(group, path.rpartition("/")[2])
            assert ours == (recorded["body"] if recorded["code"] == 200 else None), path


def test_aggregated_discovery_equals_the_recorded_one(server: Server) -> None:
    _, discovery, _, documents, _ = server
    ours = {one["metadata"]["name"]: one for one in discovery.build_aggregated(core=False)["items"]}
    theirs = documents["aggregated v2 /apis"]["body"]["items"]
    assert {one["metadata"]["name"]: ours[one["metadata"]["name"]] for one in theirs} == {
        one["metadata"]["name"]: one for one in theirs
    }


def test_openapi_index_equals_the_recorded_one(server: Server) -> None:
    _, _, openapi, documents, _ = server

    def versions(paths: Iterable[str]) -> set[str]:
        return {
            path for path in paths if path == "api/v1" or (path.startswith("apis/") and path.count("/") == 2)
        }

    assert versions(json.loads(openapi.index())["paths"]) == versions(
        documents["/openapi/v3"]["body"]["paths"]
    )


def test_openapi_schemas_equal_the_recorded_ones(server: Server) -> None:
    _, _, openapi, _, recorded = server
    for path, document in recorded.items():
        made = openapi.v3(path.removeprefix("/openapi/v3/"))
        assert made is not None, path
        ours, theirs = (_schemas(one) for one in (json.loads(made), document))
        assert ours.keys() == theirs.keys(), path
        for name, schema in theirs.items():
            assert ours[name] == schema, name


# The fields of 1.37's generated clients. v1beta1 of scheduling.k8s.io has no priority classes any more, and
# v1alpha3 names no types that it does not use.
@each_case(
    ("group", "path"),
    [
        ("resource.k8s.io", "v1"),
        ("resource.k8s.io", "v1alpha3"),
        ("resource.k8s.io", "v1beta1"),
        ("resource.k8s.io", "v1beta2"),
        ("scheduling.k8s.io", "v1"),
        ("scheduling.k8s.io", "v1alpha3"),
        ("scheduling.k8s.io", "v1beta1"),
    ],
)
def test_openapi_schemas_of_1_37_equal_the_recorded_ones(group: str, path: str) -> None:
    recorded = _read_recording(V1_37, f"openapi/{group}__{path}.json.gz")
    made = OpenApi(catalog.registry("api/all=true", kubernetes=V1_37)).v3(f"apis/{group}/{path}")
    assert made is not None
    ours, theirs = (_schemas(one) for one in (json.loads(made), {"components": recorded}))
    used = set(re.findall(r"schemas/([\w.]+)", json.dumps(recorded)))
    for name, schema in theirs.items():
        if name not in ours:
            assert name not in used or name.startswith(_NOT_SERVED_OR_USED), name
            continue
        assert ours[name].get("properties") == schema.get("properties"), name
        assert set(ours[name].get("required", ())) == set(schema.get("required", ())), name


def _schemas(document: JsonObject) -> JsonObject:
    return {name: _plain(schema) for name, schema in document["components"]["schemas"].items()}


def _plain(value: Any) -> Any:
    """Return a schema without descriptions, enumerations, defaults of items and kinds of shared types."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _plain(one) for key, one in value.items() if not _is_left_out(key, one)}
    if "allOf" in kept:
        # Until 1.35 a reference to a struct may say that it is an atomic list, which means nothing.
        kept.pop("x-kubernetes-list-type", None)
    for key in {"items", "additionalProperties"} & kept.keys():
        if isinstance(kept[key], dict) and "default" in kept[key]:
            item = {name: one for name, one in kept[key].items() if name != "default"}
            kept[key] = item["allOf"][0] if "allOf" in item else item
    return kept


def _is_left_out(key: str, value: Any) -> bool:
    return key in ("enum", "x-kubernetes-group-version-kind") or (
        key == "description" and isinstance(value, str)
    )


@each_case(
    ("subject", "version"),
    [
        ("alloc", V1_34),
        ("alloc", V1_35),
        ("cel", V1_34),
        ("cel", V1_35),
        ("validate", V1_34),
        ("validate", V1_35),
    ],
    ids=str,
)
def test_cases_recorded_for_a_version_agree(subject: str, version: Version) -> None:
    about = conformance.subject(subject)
    lines = load_vectors(f"random-{subject}-{version}.jsonl.gz")
    disagree = [
        line["in"]["name"]
        for line in lines
        if "panic" not in line["out"]
        and not any(
            about.agrees(about.answer({**line["in"], "kubernetesVersion": str(version)}), out)
            for out in conformance.outcomes(line)
        )
    ]
    assert disagree == []
