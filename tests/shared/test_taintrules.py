import pytest
from dra_shared.features import FeatureGates
from dra_shared.taintrules import can_select_by_class, have_status, taint_rules
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version, release

_GATES = ("DRADeviceTaints", "DRADeviceTaintRules")


def _on(version: Version, *gates: str) -> FeatureGates:
    return FeatureGates(version, **dict.fromkeys(gates, True))


@pytest.mark.parametrize(
    ("version", "served"),
    [(V1_34, "v1alpha3"), (V1_35, "v1alpha3"), (V1_36, "v1beta2"), (V1_37, "v1")],
    ids=str,
)
def test_taint_rules_are_read_in_the_newest_served_api_version(version: Version, served: str) -> None:
    rules = taint_rules(_on(version, *_GATES))
    assert rules is not None
    assert rules.version == served
    assert release(version).serves(f"resource.k8s.io/{served}", "devicetaintrules")
    assert have_status(rules, version) is (version > V1_34)


def test_taint_rules_have_a_separate_feature_gate_since_1_35() -> None:
    counts = [
        taint_rules(_on(version, "DRADeviceTaints")) is not None for version in (V1_34, V1_35, V1_36, V1_37)
    ]
    assert counts == [True, False, False, True]
    assert taint_rules(FeatureGates(V1_37, DRADeviceTaints=False)) is None


def test_only_taint_rules_of_1_34_select_by_class() -> None:
    assert [can_select_by_class(version) for version in (V1_34, V1_35, V1_36, V1_37)] == [
        True,
        False,
        False,
        False,
    ]
