"""Test eviction requests and evictions, the alpha group lifecycle.k8s.io of Kubernetes 1.37."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dra_apiserver.discovery import Discovery
from dra_apiserver.kinds import catalog
from dra_apiserver.kinds.lifecycle import columns
from dra_apiserver.kinds.lifecycle.evictionstatus import check_eviction_status
from dra_recordings.validate import answer
from dra_shared.clock import rfc3339
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36, V1_37, Version

from tests.support.cases import each_case

_NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
_UID = "bd23f542-ac79-4b44-a628-9735e18b8037"
_POD: JsonObject = {"pod": {"name": "p", "uid": _UID}}


def create_object(kind: str, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "e", "namespace": "default"},
        "spec": {"target": copy.deepcopy(_POD), **spec},
    }


def create_request(**spec: Any) -> JsonObject:
    return create_object("EvictionRequest", **{"requester": "acme.io/drain", "intent": "Eviction", **spec})


def errors(obj: JsonObject, old: JsonObject | None = None) -> list[str]:
    case: JsonObject = {"object": copy.deepcopy(obj), "kubernetesVersion": "1.37", "featureGates": {}}
    case["featureGates"]["EvictionRequestAPI"] = True
    if old is not None:
        case["object"]["metadata"]["resourceVersion"] = "1"
        case |= {"oldObject": copy.deepcopy(old), "operation": "update"}
    return [f"{one['field']}: {one['body']}" for one in answer(case)["server"]["errors"]]


def ago(**time: float) -> str:
    return rfc3339(_NOW - timedelta(**time))


def check_status(new: JsonObject, old: JsonObject | None = None) -> list[str]:
    return [str(error) for error in check_eviction_status(new, old or {}, rfc3339(_NOW))]


def create_status(first: str, second: str, **report: Any) -> JsonObject:
    return {
        "targetResponders": [
            {"name": "a.io/x", "priority": 2000, "state": first},
            {"name": "imperative-eviction.k8s.io/evictor", "priority": 100, "state": second},
        ],
        "responders": [{"name": "a.io/x", **report}, {"name": "imperative-eviction.k8s.io/evictor"}],
    }


def list_resources(kubernetes: Version, gate: str = "EvictionRequestAPI=true") -> list[str]:
    registry = catalog.registry("api/all=true", FeatureGates.parse(gate, kubernetes))
    groups = Discovery(registry).build_aggregated(core=False)["items"]
    return [
        resource["resource"]
        for group in groups
        if group["metadata"]["name"] == "lifecycle.k8s.io"
        for version in group["versions"]
        for resource in version["resources"]
    ]


def test_the_group_is_served_with_its_gate_since_1_37() -> None:
    assert list_resources(V1_37) == ["evictionrequests", "evictions"]
    assert list_resources(V1_37, "EvictionRequestAPI=false") == []
    assert list_resources(V1_36, "") == []


@each_case(
    ("spec", "wanted"),
    [
        ({}, []),
        ({"target": {}}, ['spec.target: Invalid value: "": must specify one of: `pod`']),
        ({"target": {"pod": {"name": "p", "uid": "1"}}}, [
            'spec.target.pod.uid: Invalid value: "1": must be a lowercase UUID in 8-4-4-4-12 format']),
        ({"requester": "drain"}, [
            "spec.requester: Invalid value: \"drain\": must include a prefix (e.g. 'example.com/key')"]),
        ({"requester": "x.k8s.io/drain"}, [
            'spec.requester: Invalid value: "x.k8s.io/drain": domain names *.k8s.io, *.kubernetes.io are reserved']),
        ({"intent": "Later"}, [
            'spec.intent: Unsupported value: "Later": supported values: "Eviction", "Withdrawn"']),
    ],
)  # fmt: skip
def test_eviction_requests_are_validated(spec: JsonObject, wanted: list[str]) -> None:
    assert errors(create_request(**spec)) == wanted


def test_only_the_intent_of_an_eviction_request_may_change() -> None:
    old = create_request()
    assert errors(create_request(intent="Withdrawn"), old) == []
    assert errors(create_request(requester="acme.io/other"), old) == [
        "spec.requester: Invalid value: null: field is immutable"
    ]


def test_a_target_of_an_eviction_is_immutable() -> None:
    old = create_object("Eviction")
    assert errors(create_object("Eviction", target={"pod": {"name": "q", "uid": _UID}}), old) == [
        "spec.target: Invalid value: null: field is immutable"
    ]


def test_responders_become_active_one_after_the_other() -> None:
    started = create_status("Active", "Inactive", startTime=ago(seconds=1))
    assert check_status(started) == []
    assert check_status(create_status("Inactive", "Inactive")) == [
        'status.targetResponders[0].state: Invalid value: "Inactive": must be one of: Active, because this '
        "responder is next in line"
    ]
    assert check_status(create_status("Active", "Inactive")) == [
        "status.responders[0].startTime: Required value: is required for an active responder"
    ]
    completed = create_status("Completed", "Active", startTime=ago(minutes=5), completionTime=ago(seconds=0))
    completed["responders"][1]["startTime"] = ago(seconds=0)
    running = create_status("Active", "Inactive", startTime=ago(minutes=5))
    assert check_status(completed, running) == [
        'status.responders[0]: Invalid value: {"Name":"a.io/x","StartTime":"2026-11-28T11:55:00Z",'
        '"HeartbeatTime":null,"ExpectedCompletionTime":null,"CompletionTime":"2026-11-28T12:00:00Z",'
        '"Message":null}: field is immutable'
    ]
    running["responders"][0]["completionTime"] = ago(seconds=0)
    assert check_status(completed, running) == []


def test_a_responder_that_reports_nothing_is_interrupted_after_its_deadline() -> None:
    for minutes, wanted in ((5, 1), (21, 0)):
        report = {"startTime": ago(minutes=minutes)}
        running = create_status("Active", "Inactive", **report)
        interrupted = create_status("Interrupted", "Active", **report)
        interrupted["responders"][1]["startTime"] = ago(seconds=0)
        found = check_status(interrupted, running)
        assert len(found) == wanted
        assert all("must stay Active because the responder is in progress" in text for text in found)


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        ({"heartbeatTime": ago(seconds=2)}, []),
        ({"heartbeatTime": ago(minutes=2)}, [
            'heartbeatTime: Invalid value: "2026-11-28T11:58:00Z": must be set to the present time']),
        ({"heartbeatTime": ago(hours=2)}, [
            'heartbeatTime: Invalid value: "2026-11-28T10:00:00Z": must occur after '
            "status.responders[0].startTime"]),
        ({"expectedCompletionTime": ago(minutes=1)}, [
            'expectedCompletionTime: Invalid value: "2026-11-28T11:59:00Z": cannot be set to the past time']),
        ({"completionTime": ago(minutes=2)}, [
            'completionTime: Invalid value: "2026-11-28T11:58:00Z": must be set to the present time']),
    ],
)  # fmt: skip
def test_times_in_a_responders_report_must_be_close_to_the_current_time(
    report: JsonObject, wanted: list[str]
) -> None:
    start = {"startTime": ago(minutes=5)}
    old = create_status("Active", "Inactive", **start)
    new = create_status("Active", "Inactive", **start, **report)
    assert check_status(new, old) == [f"status.responders[0].{text}" for text in wanted]


def test_the_final_condition_of_an_eviction_cannot_be_removed() -> None:
    evicted = {"type": "TargetEvicted", "status": "True", "reason": "PodDeleted"}
    old = {"conditions": [evicted]}
    assert len(check_status({"conditions": []}, old)) == 1
    assert check_status(old, old) == []


def test_columns_show_the_active_responder() -> None:
    obj = create_object("Eviction")
    obj["metadata"]["creationTimestamp"] = ago(minutes=3)
    obj["status"] = create_status(
        "Active", "Inactive", startTime=ago(minutes=2), heartbeatTime=ago(seconds=9)
    )
    obj["status"]["requesters"] = [
        {"name": "b/b", "intent": "Eviction"},
        {"name": "a/a", "intent": "Eviction"},
    ]
    assert columns.eviction(obj, _NOW) == [
        "e", "p", "Pod", "Pending", "a.io/x (1/2)", "Started (2m ago)", "<unknown>", "a/a + 1 more...", "3m",
        "9s ago", "<unset>",
    ]  # fmt: skip
    request = create_request()
    request["metadata"]["creationTimestamp"] = ago(minutes=3)
    request["status"] = {"conditions": [{"type": "Failed", "status": "True", "reason": "NoFurtherResponder"}]}
    assert columns.eviction_request(request, _NOW) == [
        "e", "p", "Pod", "Failed (NoFurtherResponder)", "acme.io/drain", "Eviction", "3m",
    ]  # fmt: skip
