import gzip
import json
import re

import pytest
from dra_shared.features import FeatureGates, with_defaults
from dra_shared.version import V1_36, V1_37

from tests.support.cases import each_case
from tests.support.reference import reference_path


def test_defaults_are_those_of_kubernetes_1_36() -> None:
    with gzip.open(reference_path("vectors", "feature_gates.json.gz"), "rb") as file:
        gates = json.load(file)["gates"]
    ours = FeatureGates(V1_36)
    assert {name: ours.enabled(name) for name in gates} == gates


def test_parsed_feature_gates_override_the_defaults() -> None:
    gates = FeatureGates.parse(
        "DRADeviceTaintRules=false,DRAListTypeAttributes=T, ResourceHealthStatusMessage =0"
    )
    assert not gates.enabled("DRADeviceTaintRules")
    assert gates.enabled("DRAListTypeAttributes")
    assert not gates.enabled("ResourceHealthStatusMessage")
    assert gates.enabled("DRAPrioritizedList")
    assert not gates.enabled("NoSuchGate")


def test_all_alpha_sets_every_gate_of_its_stage() -> None:
    alpha = FeatureGates.parse("AllAlpha=true,DRAListTypeAttributes=false", V1_36)
    assert alpha.enabled("DRAResourcePoolStatus")
    assert not alpha.enabled("DRAListTypeAttributes")
    assert not alpha.enabled("DRADeviceTaintRules")
    assert FeatureGates.parse("AllBeta=true", V1_36).enabled("DRADeviceTaintRules")
    none = FeatureGates.parse("AllBeta=false,DRAPartitionableDevices=true", V1_36)
    assert not none.enabled("DRAExtendedResource")
    assert none.enabled("DRAPartitionableDevices")
    assert none.enabled("DRAPrioritizedList")


@each_case(
    ("text", "message"),
    [
        ("DRADeviceTaints", "missing bool value for DRADeviceTaints"),
        (
            "DRADeviceTaints=maybe",
            'invalid value of DRADeviceTaints=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            "DRADeviceTaints=yes",
            'invalid value of DRADeviceTaints=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
        ("draDeviceTaints=true", "unrecognized feature gate: draDeviceTaints"),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "DRAAdminAccess=false,DynamicResourceAllocation=false",
            "[cannot set feature gate DRAAdminAccess to false, feature is locked to true, "
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true]",
        ),
        (
            "CompositePodGroup=true",
            "CompositePodGroup is enabled, but depends on features that are disabled: "
            "[GenericWorkload TopologyAwareWorkloadScheduling]",
        ),
        (
            "DRADeviceTaintRules=true,DRADeviceTaints=false",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
    ],
)
def test_invalid_feature_gates_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FeatureGates.parse(text)


@pytest.mark.parametrize(
    ("text", "composed"),
    [
        ("", "GenericWorkload=true,GangScheduling=true,DRADeviceTaintRules=true"),
        ("DRADeviceTaints=false", "GenericWorkload=true,GangScheduling=true,DRADeviceTaints=false"),
        ("GenericWorkload=false", "DRADeviceTaintRules=true,GenericWorkload=false"),
        ("AllAlpha=false", "DRADeviceTaintRules=true,AllAlpha=false"),
        ("GangScheduling=true", "GenericWorkload=true,DRADeviceTaintRules=true,GangScheduling=true"),
    ],
)
def test_dralabs_default_gates_omit_impossible_combinations(text: str, composed: str) -> None:
    # Since 1.37 gangs have no gate, and rules of taints are on.
    own = dict.fromkeys(("GenericWorkload", "GangScheduling", "DRADeviceTaintRules"), True)
    assert with_defaults(own, text, V1_36) == composed
    FeatureGates.parse(composed, V1_36)


def test_defaults_of_dralab_omit_gates_that_depend_on_a_disabled_stage() -> None:
    # The first gate needs DRAPartitionableDevices, which is beta. The second one needs no gate that is off.
    own = dict.fromkeys(("DRADeviceCompatibilityGroups", "DRADerivedAttributes"), True)
    off = "AllBeta=false"
    assert with_defaults(own, off, V1_37) == f"DRADerivedAttributes=true,{off}"
    again = f"{off},DRAPartitionableDevices=true"
    composed = f"DRADeviceCompatibilityGroups=true,DRADerivedAttributes=true,{again}"
    assert with_defaults(own, again, V1_37) == composed
    FeatureGates.parse(composed, V1_37)
