"""Compare discovery documents with recorded ones of 1.36.2."""

import gzip
import json
from typing import Any

import pytest
from dra_apiserver.discovery import Discovery, version_info
from dra_apiserver.kinds import catalog
from dra_shared.version import V1_36, VERSIONS, Version

from tests.support.reference import reference_path

DISCOVERY = Discovery(catalog.registry("api/all=true", kubernetes=V1_36))


def load_recorded(name: str) -> Any:
    return json.loads(
        gzip.decompress(reference_path("reference", "discovery", f"{name}.json.gz").read_bytes())
    )


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1", "v1alpha3"])
def test_resources_of_a_group_equal_the_recorded_ones(version: str) -> None:
    assert DISCOVERY.resources("resource.k8s.io", version) == load_recorded(
        f"apis__resource.k8s.io__{version}"
    )


def test_core_resources_equal_the_recorded_ones() -> None:
    def by_name(document: Any) -> Any:
        return {resource["name"]: resource for resource in document["resources"]}

    expected, made = load_recorded("api__v1"), DISCOVERY.resources("", "v1")
    assert by_name(made) == by_name(expected)


def test_api_groups_in_discovery_equal_the_recorded_ones() -> None:
    assert DISCOVERY.groups() == load_recorded("apis")
    assert DISCOVERY.group("resource.k8s.io") == load_recorded("apis__resource.k8s.io")
    assert DISCOVERY.group("nosuch.example.com") is None


def test_versions_of_the_core_group_in_discovery_equal_the_recorded_ones() -> None:
    expected = load_recorded("api")
    assert DISCOVERY.api_versions(expected["serverAddressByClientCIDRs"][0]["serverAddress"]) == expected


def test_aggregated_discovery_documents_equal_the_recorded_ones() -> None:
    assert DISCOVERY.build_aggregated(core=False) == load_recorded("aggregated_v2")
    core = DISCOVERY.build_aggregated(core=True)
    assert core["items"][0]["metadata"] == {}
    assert "pods" in [resource["resource"] for resource in core["items"][0]["versions"][0]["resources"]]


def test_a_kind_removed_from_the_registry_is_missing_in_discovery() -> None:
    registry = catalog.registry()
    discovery = Discovery(registry)
    before = discovery.resources("", "v1")
    registry.remove("", "pods")
    after = discovery.resources("", "v1")
    assert before is not None
    assert after is not None
    assert len(after["resources"]) < len(before["resources"])


@pytest.mark.parametrize("version", VERSIONS)
def test_version_info_reports_the_version_of_kubernetes_that_is_followed(version: Version) -> None:
    info = version_info(version)
    assert (info["major"], info["minor"]) == ("1", str(version.minor))
    assert info["gitVersion"].startswith(f"v{version}.")
