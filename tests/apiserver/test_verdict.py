"""Test verdicts: how an API server of a given version and configuration would change or reject an object."""

from typing import Any

import pytest
from dra_apiserver.verdict import Judge
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_34, V1_35, V1_36, V1_37, Version


def _claim(**request: Any) -> JsonObject:
    exactly = {"deviceClassName": "gpu", **request}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a"},
        "spec": spec,
    }


def _judge(version: Version, **gates: bool) -> Judge:
    return Judge(FeatureGates(version, **gates))


def test_a_new_object_is_completed_and_not_changed() -> None:
    claim = _claim()
    verdict = _judge(V1_36).create(claim)
    assert verdict.refused == verdict.dropped == ()
    assert verdict.stored is not None
    assert verdict.stored["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert claim == _claim()


def test_a_field_behind_a_gate_that_is_off_is_dropped() -> None:
    claim = _claim(capacity={"requests": {"memory": "1Gi"}})
    path = "spec.devices.requests[0].exactly.capacity"
    assert _judge(V1_36).create(claim).dropped == ()
    assert _judge(V1_35).create(claim).dropped == (path,)
    assert _judge(V1_35, DRAConsumableCapacity=True).create(claim).dropped == ()


def test_a_field_that_the_version_does_not_have_is_dropped() -> None:
    assert _judge(V1_36).create(_claim(purpose="x")).dropped == ("spec.devices.requests[0].exactly.purpose",)


def test_the_verdict_lists_every_validation_error() -> None:
    verdict = _judge(V1_36).create(_claim(count=-1, allocationMode="Some"))
    assert [text.partition(":")[0] for text in verdict.refused] == [
        "spec.devices.requests[0].exactly.allocationMode"
    ]
    assert verdict.stored is None


def test_a_body_that_is_not_an_object_is_rejected() -> None:
    assert "cannot unmarshal" in _judge(V1_36).create(_claim(count="many")).refused[0]


def test_stored_objects_keep_fields_in_use_when_their_gate_is_off() -> None:
    claim = _claim(capacity={"requests": {"memory": "1Gi"}})
    claim["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert _judge(V1_35).keep(claim).dropped == ()


def test_admin_access_depends_on_the_label_of_the_given_namespace() -> None:
    claim = _claim(adminAccess=True)
    bare = Judge(FeatureGates(V1_36), namespaces={"default": {"metadata": {"name": "default"}}})
    assert _judge(V1_36).create(claim).refused == ()
    assert "admin access" in bare.create(claim).refused[0]


@pytest.mark.parametrize(
    ("api_version", "version", "runtime_config", "known", "served"),
    [
        ("resource.k8s.io/v1", V1_34, "", True, True),
        ("resource.k8s.io/v1beta1", V1_34, "", True, False),
        ("resource.k8s.io/v1beta1", V1_34, "resource.k8s.io/v1beta1=true", True, True),
        ("resource.k8s.io/v1alpha1", V1_34, "", False, False),
    ],
)
def test_the_served_path_of_a_kind_depends_on_version_and_configuration(
    api_version: str, version: Version, runtime_config: str, known: bool, served: bool
) -> None:
    place = Judge(FeatureGates(version), runtime_config).place(api_version, "ResourceClaim")
    assert (place.known, place.served) == (known, served)
    assert place.elsewhere[0] == "resource.k8s.io/v1"


def test_missing_referenced_objects_are_no_error() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "serviceAccountName": "own",
            "priorityClassName": "high",
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    assert _judge(V1_37).create(pod).refused == ()


def test_the_verdict_on_a_gated_kind_names_its_feature_gate() -> None:
    place = _judge(V1_36).place("scheduling.k8s.io/v1alpha2", "PodGroup")
    assert (place.known, place.served, place.gate) == (True, False, "GenericWorkload")


def test_only_some_versions_can_read_a_stored_version() -> None:
    rule = ("resource.k8s.io/v1", "DeviceTaintRule")
    stored = _judge(V1_37).storage_version(*rule)
    assert _judge(V1_37).can_read(stored, "DeviceTaintRule")
    assert not _judge(V1_36).can_read("resource.k8s.io/v1", "DeviceTaintRule")
    assert _judge(V1_36).storage_version("example.com/v1", "Foo") == ""
