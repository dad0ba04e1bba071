import gzip
import json

import pytest
from dra_shared.features import FeatureGates

from tests.support.reference import reference_path


def test_defaults_are_those_of_kubernetes_1_36() -> None:
    with gzip.open(reference_path("vectors", "feature_gates.json.gz"), "rb") as file:
        gates = json.load(file)["gates"]
    ours = FeatureGates()
    assert {name: ours.enabled(name) for name in gates} == gates


def test_parse_overrides_defaults() -> None:
    gates = FeatureGates.parse("DRADeviceTaints=false, DRADeviceTaintRules=true")
    assert not gates.enabled("DRADeviceTaints")
    assert gates.enabled("DRADeviceTaintRules")
    assert gates.enabled("DRAPrioritizedList")
    assert not gates.enabled("NoSuchGate")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DRADeviceTaints", "missing bool value for DRADeviceTaints"),
        ("DRADeviceTaints=maybe", "invalid value of DRADeviceTaints=maybe"),
        ("DynamicResourceAllocation=false", "feature is locked to true"),
    ],
)
def test_parse_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeatureGates.parse(text)
