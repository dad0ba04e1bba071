"""Test the validation of limit ranges and quotas against kube-apiserver 1.36.2."""

from typing import Any

import pytest
from dra_apiserver.kinds.core.limitrange import check_limit_range
from dra_apiserver.kinds.core.resourcequota import check_quota
from dra_shared.jsontypes import JsonObject


def limits(*items: JsonObject) -> list[str]:
    return [str(error) for error in check_limit_range({"spec": {"limits": list(items)}}, None)]


def quota(**spec: Any) -> list[str]:
    return [str(error) for error in check_quota({"spec": spec}, None)]


def test_contradictory_limits_of_a_range_are_rejected() -> None:
    pair = {"min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "3"}, "defaultRequest": {"cpu": "4"}}
    path = "spec.limits[0]"
    assert limits({"type": "Container", **pair}) == [
        f'{path}.min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        f'{path}.defaultRequest[cpu]: Invalid value: "4": default request value 4 is greater than max value 1',
        f'{path}.defaultRequest[cpu]: Invalid value: "4": '
        "default request value 4 is greater than default limit value 3",
        f'{path}.default[cpu]: Invalid value: "1": default value 3 is greater than max value 1',
    ]
    ratio = {"min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}
    assert limits({"type": "Pod", **ratio}) == [
        f'{path}.maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000'
    ]


def test_invalid_types_of_limits_are_rejected() -> None:
    assert limits({"type": "Node"}) == [
        'spec.limits[0].type: Invalid value: "Node": must be a standard limit type or fully qualified'
    ]
    assert limits({"type": "Pod", "default": {"cpu": "1"}}, {"type": "Pod"}) == [
        "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        'spec.limits[1].type: Duplicate value: "Pod"',
    ]
    assert limits({"type": "PersistentVolumeClaim"}) == [
        "spec.limits[0].limits: Required value: "
        "either minimum or maximum storage value is required, but neither was provided"
    ]


def test_limit_range_requests_for_devices_must_equal_their_limits() -> None:
    gpu = "example.com/gpu"
    assert limits({"type": "Container", "default": {gpu: "2"}, "defaultRequest": {gpu: "1"}}) == [
        f'spec.limits[0].defaultRequest[{gpu}]: Invalid value: "1": '
        f"default value 2 must equal to defaultRequest value 1 in {gpu}"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "count/resourceclaims.resource.k8s.io",
        "gpu.example.com.deviceclass.resource.k8s.io/devices",
        "requests.example.com/gpu",
        "pods",
    ],
)
def test_quotas_accept_only_known_resource_names(name: str) -> None:
    assert quota(hard={name: "1"}) == []


def test_invalid_quota_scopes_are_rejected() -> None:
    assert quota(hard={"services": "1"}, scopes=["BestEffort", "NotBestEffort"]) == [
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
    ]
    requirement = {"scopeName": "PriorityClass", "operator": "In"}
    assert quota(scopeSelector={"matchExpressions": [requirement]}) == [
        "spec.scopeSelector.matchExpressions.values: Required value: "
        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
    ]
