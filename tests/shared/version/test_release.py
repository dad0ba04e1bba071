import json
from collections import Counter
from pathlib import Path

import pytest
from dra_shared.api.schema import kinds_document, schema_document
from dra_shared.features import FeatureGates
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, V1_38, VERSIONS, Gate, Version, release
from dra_shared.version.release import changes, page

from tools.schemas.kept import full_name

_UNTIL_1_37 = (V1_34, V1_35, V1_36, V1_37)


def test_gates_are_added_changed_and_removed_by_version() -> None:
    name, wanted = "DRADeviceTaints", ("DynamicResourceAllocation",)
    assert [release(version).gates[name] for version in _UNTIL_1_37] == [
        Gate("Alpha", False, False, ()),
        Gate("Alpha", False, False, wanted),
        Gate("Beta", True, False, wanted),
        Gate("GA", True, False, wanted),
    ]
    assert "DRADeviceTaintRules" not in release(V1_34).gates
    assert "GangScheduling" not in release(V1_37).gates


def test_the_feature_of_a_removed_gate_stays_enabled_if_it_had_become_stable() -> None:
    gates = FeatureGates(V1_38)
    assert "DynamicResourceAllocation" not in release(V1_38).gates
    assert gates.enabled("DynamicResourceAllocation")
    assert not gates.enabled("WindowsHostNetwork")
    with pytest.raises(ValueError, match=r"^unrecognized feature gate: DynamicResourceAllocation$"):
        FeatureGates.parse("DynamicResourceAllocation=true", V1_38)


def test_removal_of_a_deprecated_version_is_no_longer_announced_in_1_38() -> None:
    place = ("resource.k8s.io/v1alpha3", "devicetaintrules")
    assert place not in release(V1_37).deprecated
    text = "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+"
    assert release(V1_38).deprecated[place] == text


@pytest.mark.parametrize("version", VERSIONS)
def test_gates_equal_those_of_the_released_sources(version: Version) -> None:
    """Compare with the files that `make gates` writes."""
    released = (Path(__file__).parents[2] / "data/gates" / f"{version}.txt").read_text().splitlines()
    known = []
    for name, gate in release(version).gates.items():
        words = [name, gate.stage, "on" if gate.default else "off", *(["locked"] if gate.locked else [])]
        known.append(" ".join([*words, *(["<", *sorted(gate.needs)] if gate.needs else [])]))
    assert known == released


@pytest.mark.parametrize("version", VERSIONS)
def test_gates_that_a_feature_gate_depends_on_exist_in_the_version(version: Version) -> None:
    gates = release(version).gates
    assert {needed for gate in gates.values() for needed in gate.needs} <= gates.keys()
    assert all(gates[needed].default for gate in gates.values() if gate.default for needed in gate.needs)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_change_is_listed_only_once_on_a_version_page(version: Version) -> None:
    about = Counter(
        (kind, *fact.removeprefix("-").split()[: 1 if kind in ("gate", "store") else 2])
        for kind, fact in page(version)
    )
    assert not [entry for entry, times in about.items() if times > 1]
    known = {"release", "gate", "serve", "store", "field", "deprecated", "select", "optional", "atomic"}
    assert {kind for kind, _ in page(version)} <= known
    assert release(version).patch.startswith(f"{version}.")


def test_resources_and_fields_are_added_and_removed_by_version() -> None:
    served = [release(version).serves("scheduling.k8s.io/v1alpha1", "workloads") for version in _UNTIL_1_37]
    assert served == [False, True, False, False]
    assert all(release(version).serves("resource.k8s.io/v1", "resourceslices") for version in _UNTIL_1_37)
    had = [release(version).has_field("core/v1", "PodSpec", "workloadRef") for version in _UNTIL_1_37]
    assert had == [False, True, False, False]
    had = [release(version).has_field("core/v1", "PodSpec", "schedulingGroup") for version in _UNTIL_1_37]
    assert had == [False, False, True, True]


def test_required_api_fields_are_those_of_the_version() -> None:
    spec = [release(version).list_required("resource/v1", "ResourceClaim", []) for version in _UNTIL_1_37]
    assert spec == [["spec"], ["spec"], ["spec"], []]
    data = [
        release(version).list_required("apps/v1", "ControllerRevision", ["data"]) for version in _UNTIL_1_37
    ]
    assert data == [["revision"], ["revision"], ["revision"], ["data"]]


def test_selectable_fields_are_added_by_version() -> None:
    slices = "resource.k8s.io/resourceslices"
    assert [release(version).selects(slices, "spec.pool.name") for version in _UNTIL_1_37] == [False] * 3 + [
        True
    ]
    assert release(V1_34).selects(slices, "spec.nodeName")


def test_the_storage_version_of_a_kind_can_be_read_by_the_previous_release() -> None:
    stored = [release(version).storage["resource.k8s.io/resourceclaims"] for version in _UNTIL_1_37]
    assert stored == ["v1beta2", "v1", "v1", "v1"]
    assert release(V1_35).storage["scheduling.k8s.io/workloads"] == "v1alpha1"
    assert release(V1_36).storage["scheduling.k8s.io/workloads"] == "v1alpha2"
    rules = [release(version).storage.get("resource.k8s.io/devicetaintrules") for version in VERSIONS]
    assert rules == [None, None, None, "v1beta2", "v1beta2"]
    policies = "admissionregistration.k8s.io/mutatingadmissionpolicies"
    assert [release(version).storage[policies] for version in VERSIONS[:4]] == [
        "v1alpha1",
        "v1beta1",
        "v1beta1",
        "v1",
    ]


def test_version_pages_name_only_fields_that_the_schema_data_has() -> None:
    kinds = json.loads(kinds_document())["kinds"]
    known = {(f"{kind['group']}/{version}", kind["plural"]) for kind in kinds for version in kind["versions"]}
    named = {(place, resource.partition("/")[0]) for place, resource in changes("serve")}
    assert named <= known
    for package, name in changes("field"):
        document = schema_document(full_name(package))
        type_name, field = name.split(".")
        assert document is not None
        assert field in json.loads(document)[type_name]["properties"]
