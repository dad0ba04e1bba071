"""Test defaults that are set if a feature gate is on."""

import copy

import pytest
from dra_apiserver.common.gates import set_gated_defaults
from dra_apiserver.verdict import Judge
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

_TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
_SET: JsonObject = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "s"},
    "spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE},
}
_DRIVER: JsonObject = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": "d"},
    "spec": {},
}
_GROUP: JsonObject = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {"schedulingPolicy": {"basic": {}}},
}


@pytest.mark.parametrize(
    ("obj", "gate", "path", "value"),
    [
        (_SET, "MaxUnavailableStatefulSet", "updateStrategy.rollingUpdate.maxUnavailable", 1),
        (_DRIVER, "VolumeLimitScaling", "preventPodSchedulingIfMissing", False),
        (_GROUP, "PodGroupPreemptionPolicy", "preemptionPolicy", "PreemptLowerPriority"),
    ],
)
def test_defaults_are_set_with_their_gate(
    obj: JsonObject, gate: str, path: str, value: str | bool | int
) -> None:
    for is_on in (True, False):
        judge = Judge(FeatureGates(V1_37, **{"GenericWorkload": True, gate: is_on}), "api/all=true")
        stored = judge.create(copy.deepcopy(obj)).stored
        assert stored is not None
        found = stored["spec"]
        for name in path.split("."):
            found = found.get(name)
        assert found == (value if is_on else None)


@pytest.mark.parametrize(
    ("version", "wanted"), [(V1_36, {"partition": 0}), (V1_37, {"partition": 0, "maxUnavailable": 1})]
)
def test_stateful_sets_replace_one_pod_at_a_time_since_1_37(version: Version, wanted: JsonObject) -> None:
    stored = Judge(FeatureGates(version)).create(copy.deepcopy(_SET)).stored
    assert stored is not None
    assert stored["spec"]["updateStrategy"]["rollingUpdate"] == wanted


def test_an_update_sets_no_gated_default_that_the_old_object_lacks() -> None:
    def complete(obj: JsonObject) -> None:
        obj.setdefault("a", 1)

    gates, features = {"VolumeLimitScaling": complete}, FeatureGates(V1_37)
    for old, wanted in (({}, {}), ({"a": 2}, {"a": 1})):
        obj: JsonObject = {}
        set_gated_defaults(gates, obj, old, features)
        assert obj == wanted
