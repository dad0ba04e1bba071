import re

import pytest
from dra_shared.features import FeatureGates
from dra_shared.serviceversions import Versions
from dra_shared.version import DEFAULT, V1_34, V1_35, V1_36, VERSIONS, Version


def test_all_services_have_the_clusters_version() -> None:
    versions = Versions.parse("1.35")
    assert {versions.of(name) for name in ("apiserver", "scheduler", "controller", "node-agent-b")} == {V1_35}
    assert Versions.parse("").of("apiserver") == DEFAULT


def test_a_service_may_have_an_older_kubernetes_version_than_the_api_server() -> None:
    versions = Versions.parse("1.36, scheduler=1.35,node-agent=1.34")
    names = ("apiserver", "controller", "scheduler", "node-agent", "node-agent-other")
    assert [versions.of(name) for name in names] == [V1_36, V1_36, V1_35, V1_34, V1_34]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.33", "unknown Kubernetes version '1.33': choose 1.34, "),
        (
            "1.36,apiserver=1.35",
            "--kubernetes-version apiserver=1.35: choose scheduler, controller, node-agent",
        ),
        (
            "1.36,scheduler=1.34",
            "scheduler of Kubernetes 1.34 does not work with an API server of 1.36: it may be at most one minor "
            "version older, and not newer",
        ),
        (
            "1.35,node-agent=1.36",
            "node-agent of Kubernetes 1.36 does not work with an API server of 1.35: it may be at most 3 minor "
            "versions older, and not newer",
        ),
    ],
)
def test_versions_that_are_too_far_apart_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Versions.parse(text)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_dra_features_of_the_version_are_enabled(version: Version) -> None:
    gates = FeatureGates.parse(Versions(version).gates("apiserver", ""), version)
    assert gates.version == version
    assert gates.enabled("DRADeviceTaints")
    assert gates.enabled("DRAConsumableCapacity")
    assert gates.enabled("DRAListTypeAttributes") is (version >= V1_36)
    assert gates.enabled("GenericWorkload") is (version >= V1_36)


def test_pod_groups_are_disabled_in_services_that_cannot_read_their_version() -> None:
    versions = Versions.parse("1.37,scheduler=1.36")
    assert "GenericWorkload" not in versions.gates("scheduler", "")
    assert "GenericWorkload=true" in versions.gates("controller", "")
    assert "GenericWorkload=true" in Versions.parse("1.36").gates("scheduler", "")


def test_gates_that_an_older_service_lacks_are_not_passed_to_it() -> None:
    versions = Versions.parse("1.36,node-agent=1.34")
    wanted = "DRAListTypeAttributes=false,DRADeviceTaints=false"
    assert "DRAListTypeAttributes" not in versions.gates("node-agent", wanted)
    assert not FeatureGates.parse(versions.gates("node-agent", wanted), V1_34).enabled("DRADeviceTaints")
    assert "DRAListTypeAttributes=false" in versions.gates("apiserver", wanted)
    with pytest.raises(ValueError, match=r"^unrecognized feature gate: DRADerivedAttributes$"):
        versions.gates("node-agent", "DRADerivedAttributes=true")
