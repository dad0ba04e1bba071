"""Test the registry of kinds."""

from dataclasses import replace

import pytest
from dra_apiserver.kindkit.kind import split_api_version
from dra_apiserver.kinds import catalog
from dra_apiserver.registry import RuntimeConfig, RuntimeConfigError, version_priority

from tests.support.cases import each_case


def test_default_serves_stable_versions_only() -> None:
    registry = catalog.registry()
    assert registry.versions("resource.k8s.io") == ["v1"]
    assert registry.resource("resource.k8s.io", "v1beta1", "resourceclaims") is None
    assert registry.get("resource.k8s.io", "resourcepoolstatusrequests") is None
    assert registry.known_kind("resource.k8s.io", "v1beta1", "ResourceClaim") is not None


def test_api_all_serves_all_versions_in_order() -> None:
    registry = catalog.registry(RuntimeConfig.everything())
    assert registry.versions("resource.k8s.io") == ["v1", "v1beta2", "v1beta1", "v1alpha3"]
    assert registry.groups()[0] == ""
    rules = registry.resource("resource.k8s.io", "v1beta2", "devicetaintrules")
    assert rules is not None
    assert rules.has_status
    assert rules.versions == ("v1", "v1beta2", "v1alpha3")


@each_case(
    ("text", "served"),
    [
        ("resource.k8s.io/v1beta2=true", True),
        ("resource.k8s.io/v1beta2", True),
        ("api/beta=true", True),
        ("api/all=true", True),
        ("api/all=true,api/beta=false", False),
        ("api/beta=true,resource.k8s.io/v1beta2=false", False),
        ("resource.k8s.io/v1beta2=false,resource.k8s.io/v1beta2/resourceclaims=true", True),
        ("", False),
    ],
)
def test_the_most_specific_entry_of_the_runtime_config_applies(text: str, served: bool) -> None:
    assert RuntimeConfig.parse(text).serves("resource.k8s.io", "v1beta2", "resourceclaims") is served


@pytest.mark.parametrize("text", ["api/gamma=true", "apps/v1=maybe", "a/b/c/d=true", "foo"])
def test_malformed_runtime_config_is_refused(text: str) -> None:
    with pytest.raises(RuntimeConfigError):
        RuntimeConfig.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo=true", "runtime-config invalid key foo"),
        ("resource.k8s.io/v1,nvidia.com/v1", "unknown api groups nvidia.com/v1"),
    ],
)
def test_a_runtime_config_that_names_an_unknown_api_is_rejected(text: str, message: str) -> None:
    with pytest.raises(RuntimeConfigError, match=f"^{message}$"):
        catalog.registry(text)


def test_events_of_both_api_groups_are_the_same_stored_objects() -> None:
    registry = catalog.registry()
    core, grouped = registry.get("", "events"), registry.get("events.k8s.io", "events")
    assert core is not None
    assert grouped is not None
    assert core.storage == grouped.storage == ("", "events")
    assert grouped.storage_api_version == "v1"


def test_kinds_are_added_and_removed() -> None:
    registry = catalog.registry()
    pods = registry.get("", "pods")
    assert pods is not None
    before = registry.generation
    registry.add(
        replace(pods, group="example.com", plural="widgets", kind="Widget", versions=("v1", "v1beta1"))
    )
    assert registry.kind("example.com", "v1beta1", "Widget") is registry.get("example.com", "widgets")
    assert registry.versions("example.com") == ["v1", "v1beta1"]
    registry.remove("example.com", "widgets")
    assert registry.resource("example.com", "v1", "widgets") is None
    assert registry.generation > before


def test_selectable_fields_have_values_as_text() -> None:
    registry = catalog.registry()
    pods, nodes, events = registry.get("", "pods"), registry.get("", "nodes"), registry.get("", "events")
    assert pods is not None
    assert nodes is not None
    assert events is not None
    node_name = pods.field_selection.fields["spec.nodeName"].value
    unschedulable = nodes.field_selection.fields["spec.unschedulable"].value
    source = events.field_selection.fields["source"].value
    assert node_name({"spec": {}}) == ""
    assert node_name({"spec": {"nodeName": "n"}}) == "n"
    assert unschedulable({}) == "false"
    assert unschedulable({"spec": {"unschedulable": True}}) == "true"
    assert source({"source": {}, "reportingComponent": "c"}) == "c"
    assert "spec.volumes" not in pods.field_selection.fields


def test_versions_sort_as_kubernetes_prefers_them() -> None:
    versions = ["v1alpha1", "foo", "v1beta2", "v2", "v1", "v10beta3", "v1beta1"]
    assert sorted(versions, key=version_priority) == [
        "v2",
        "v1",
        "v10beta3",
        "v1beta2",
        "v1beta1",
        "v1alpha1",
        "foo",
    ]


def test_an_api_version_is_split_into_group_and_version() -> None:
    assert split_api_version("v1") == ("", "v1")
    assert split_api_version("apps/v1") == ("apps", "v1")
    with pytest.raises(ValueError, match="unexpected GroupVersion"):
        split_api_version("a/b/c")
