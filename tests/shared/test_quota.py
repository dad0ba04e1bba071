"""Test the usage that quotas count, and how amounts are written."""

from typing import Any

import pytest
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from dra_shared.jsontypes import JsonObject
from dra_shared.quota import NamespaceUsage, Usage, equal, pod_usage

from tests.support.cases import each_case

_EXPLICIT, _IMPLICIT = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
_NAMES = (f"requests.{_EXPLICIT}", f"requests.{_IMPLICIT}")
_CLASSES = [
    convert(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": _EXPLICIT}}),
    convert(DEVICE_CLASSES, {"metadata": {"name": "nic"}, "spec": {}}),
]


def _pod(*containers: JsonObject, init: JsonObject | None = None, claim: str = "", **spec: Any) -> JsonObject:
    def create_container(requests: JsonObject) -> JsonObject:
        return {"name": "c", "resources": {"requests": requests}}

    spec["containers"] = [create_container(requests) for requests in containers]
    if init is not None:
        spec["initContainers"] = [create_container(init)]
    status = (
        {"extendedResourceClaimStatus": {"resourceClaimName": claim, "requestMappings": []}} if claim else {}
    )
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "uid"}, "spec": spec, "status": status}


def _claim(number: int, name: str = "foo", created: str = "2026-01-01T00:00:01Z", **owner: str) -> JsonObject:
    requests = [{"name": f"r{index}", "exactly": {"deviceClassName": "gpu"}} for index in range(number)]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid", "controller": True, **owner}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "creationTimestamp": created,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [reference],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _namespace(pods: list[JsonObject], claims: list[JsonObject], enabled: bool = True) -> NamespaceUsage:
    return NamespaceUsage(
        lambda: [convert(PODS, pod) for pod in pods],
        lambda: [convert(RESOURCE_CLAIMS, claim) for claim in claims],
        lambda: _CLASSES if enabled else None,
    )


def _numbers(usage: Usage) -> tuple[str, str]:
    explicit, implicit = (str(usage.get(name, 0)) for name in _NAMES)
    return explicit, implicit


# The first six are upstream's TestResourceClaimEvaluatorUsage, whose pods come from Go functions.
@each_case(
    ("pod", "claim", "others", "expected"),
    [
        pytest.param(_pod({_IMPLICIT: "1"}, claim="foo"), _claim(1), [], ("1", "0"), id="implicit"),
        pytest.param(_pod({}, init={_EXPLICIT: "1"}, claim="foo"), _claim(1), [], ("0", "1"), id="explicit"),
        pytest.param(
            _pod({_EXPLICIT: "1", _IMPLICIT: "1"}, claim="foo"), _claim(2), [], ("1", "1"), id="hybrid"
        ),
        pytest.param(
            _pod({_IMPLICIT: "1"}, init={_EXPLICIT: "1"}), _claim(2), [], ("1", "1"), id="no status"
        ),
        pytest.param(
            _pod({_IMPLICIT: "1"}, init={_EXPLICIT: "1"}),
            _claim(2),
            [_claim(2, "other", "2026-01-01T00:00:00Z")],
            ("2", "2"),
            id="an earlier claim of the pod",
        ),
        pytest.param(
            _pod({_EXPLICIT: "1"}), _claim(1), [_claim(1, "bar")], ("1", "1"), id="a claim of the same second"
        ),
        pytest.param(
            _pod({_EXPLICIT: "1"}), _claim(1), [_claim(1, "later")], ("0", "1"), id="a later claim of the pod"
        ),
        pytest.param(
            _pod({_EXPLICIT: "1"}, claim="bar"), _claim(1), [], ("1", "1"), id="another claim named"
        ),
        pytest.param(_pod({_EXPLICIT: "1"}), _claim(1, uid="old"), [], ("1", "1"), id="a pod of that name"),
        pytest.param(
            _pod({_EXPLICIT: "1"}), _claim(1, apiVersion="v2"), [], ("1", "1"), id="another version"
        ),
    ],
)
def test_a_claim_counts_only_resources_that_its_pod_does_not_count(
    pod: JsonObject, claim: JsonObject, others: list[JsonObject], expected: tuple[str, str]
) -> None:
    usage = _namespace([pod], others).of_claim(convert(RESOURCE_CLAIMS, claim))
    assert _numbers(usage) == expected


def test_pods_and_claims_count_together() -> None:
    quota = convert(
        RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": dict.fromkeys(_NAMES, "9")}}
    )
    plain = {**_claim(3, "plain"), "metadata": {"name": "plain", "namespace": "ns"}}
    pods, claims = [_pod({_EXPLICIT: "2"})], [_claim(2), plain]
    assert _numbers(_namespace(pods, claims).sum_usage(quota, _NAMES)) == ("5", "5")
    assert _numbers(_namespace(pods, claims, enabled=False).sum_usage(quota, _NAMES)) == ("2", "0")


def test_resource_claims_match_no_quota_scope() -> None:
    spec = {"hard": dict.fromkeys(_NAMES, "9"), "scopes": ["NotTerminating"]}
    quota = convert(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
    used = _namespace([_pod({_EXPLICIT: "2"})], [_claim(3)]).sum_usage(quota, _NAMES)
    assert _numbers(used) == ("2", "0")


def test_pod_level_resources_replace_those_of_containers() -> None:
    pod = _pod(
        {"cpu": "1", "memory": "1Gi"}, resources={"requests": {"cpu": "3"}, "limits": {"memory": "2Gi"}}
    )
    usage = pod_usage(convert(PODS, pod))
    assert {name: str(usage[name]) for name in ("requests.cpu", "requests.memory", "limits.memory")} == {
        "requests.cpu": "3",
        "requests.memory": "1Gi",
        "limits.memory": "2Gi",
    }


def test_pod_overhead_is_added_only_to_limits_that_are_set() -> None:
    usage = pod_usage(convert(PODS, _pod({"cpu": "1"}, overhead={"cpu": "500m", "memory": "1Mi"})))
    assert str(usage["requests.cpu"]) == "1500m"
    assert str(usage["requests.memory"]) == "1Mi"
    assert not [name for name in usage if name.startswith("limits.")]


def test_amounts_are_equal_by_value() -> None:
    assert equal({"requests.memory": "2000", "pods": "1"}, {"pods": "1", "requests.memory": "2k"})
    assert equal({"requests.memory": "1073741824"}, {"requests.memory": "1Gi"})
    assert not equal({"requests.memory": "1G"}, {"requests.memory": "1Gi"})
    assert not equal({"pods": "0"}, {})
