"""Test the resources of a whole pod, and what they default to in each version."""

import copy
from typing import Any

import pytest
from dra_apiserver.verdict import Judge
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_36, V1_37, Version

_REQUESTS = {"cpu": "1", "memory": "1Gi"}
_LIMITS = {"cpu": "2", "hugepages-2Mi": "4Mi"}
_CONTAINERS: list[JsonObject] = [
    {"name": "a", "image": "i", "resources": {"requests": _REQUESTS, "limits": _LIMITS}},
    {"name": "b", "image": "i", "resources": {"requests": {"cpu": "1"}}},
]


def create_pod(resources: JsonObject | None, containers: list[JsonObject], **spec: Any) -> JsonObject:
    own = {} if resources is None else {"resources": copy.deepcopy(resources)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": copy.deepcopy(containers), **own, **spec},
    }


def create(pod: JsonObject, version: Version, **gates: bool) -> JsonObject:
    verdict = Judge(FeatureGates(version, **gates)).create(pod)
    assert verdict.stored is not None, verdict.refused
    return verdict.stored


@pytest.mark.parametrize("version", [V1_34, V1_36, V1_37])
def test_pod_level_requests_default_to_the_sum_of_its_containers_requests(version: Version) -> None:
    stored = create(create_pod({"limits": {"cpu": "4", "memory": "4Gi"}}, _CONTAINERS), version)
    assert stored["spec"]["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
        "limits": {"cpu": "4", "memory": "4Gi", "hugepages-2Mi": "4Mi"},
    }


@pytest.mark.parametrize("version", [V1_34, V1_37])
def test_default_pod_level_requests_include_sidecars_and_init_containers(version: Version) -> None:
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}
    once = {"name": "o", "image": "i", "resources": {"requests": {"cpu": "7"}}}
    pod = create_pod({"limits": {"cpu": "12"}}, _CONTAINERS, initContainers=[sidecar, once])
    assert create(pod, version)["spec"]["resources"]["requests"]["cpu"] == "10"


@pytest.mark.parametrize(
    ("version", "gates", "limits"),
    [
        (V1_36, {}, None),
        (V1_37, {}, {"cpu": "3"}),
        (V1_37, {"PodLevelResourcesFixDefaulting": False}, None),
    ],
)
def test_pod_level_limits_default_to_the_sum_of_its_containers_limits_since_1_37(
    version: Version, gates: dict[str, bool], limits: JsonObject | None
) -> None:
    container = {"name": "a", "image": "i", "resources": {"limits": {"cpu": "2"}}}
    pod = create_pod({"requests": {"cpu": "3"}}, [container])
    assert create(pod, version, **gates)["spec"]["resources"].get("limits") == limits


def test_pod_level_resources_stay_absent_if_the_pod_has_none() -> None:
    assert "resources" not in create(create_pod(None, _CONTAINERS), V1_37)["spec"]


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({"limits": {"cpu": "4", "memory": "4Gi"}, "requests": {"cpu": "4", "memory": "4Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "4", "memory": "4Gi"}}, "Burstable"),
        (None, "Burstable"),
    ],
)
def test_pod_level_resources_determine_the_qos_class(resources: JsonObject | None, quality: str) -> None:
    for version in (V1_34, V1_37):
        assert create(create_pod(resources, _CONTAINERS), version)["status"]["qosClass"] == quality
