"""Test the validation of a Job's scheduling field in Kubernetes 1.37, and other rules that its types declare."""

import copy

import pytest
from dra_recordings.validate import answer
from dra_shared.jsontypes import JsonObject

from tests.support.cases import each_case

_LABELS = {"job": "j"}
_PODS: JsonObject = {
    "metadata": {"labels": _LABELS},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
}
_GANG: JsonObject = {"gang": {"minCount": 2}}


def create_job(scheduling: JsonObject | None) -> JsonObject:
    more = {} if scheduling is None else {"scheduling": scheduling}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {
            "parallelism": 2,
            "manualSelector": True,
            "selector": {"matchLabels": _LABELS},
            "template": copy.deepcopy(_PODS),
            **more,
        },
    }


def create_cron_job(scheduling: JsonObject | None) -> JsonObject:
    job = create_job(scheduling)
    for name in ("manualSelector", "selector"):
        del job["spec"][name]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": job["metadata"],
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": job["spec"]}},
    }


def get_answer(obj: JsonObject, old: JsonObject | None = None, *, gate: bool = True) -> JsonObject:
    case: JsonObject = {
        "object": copy.deepcopy(obj),
        "kubernetesVersion": "1.37",
        "featureGates": {"WorkloadWithJob": gate, "GenericWorkload": True},
    }
    if old is not None:
        stored = get_answer(old)["object"]
        new = {**copy.deepcopy(obj), "metadata": {**stored["metadata"], "resourceVersion": "1"}}
        case |= {"object": new, "oldObject": stored, "operation": "update"}
    server: JsonObject = answer(case)["server"]
    return server


def errors(obj: JsonObject, old: JsonObject | None = None) -> list[str]:
    return [f"{one['field']}: {one['body']}" for one in get_answer(obj, old)["errors"]]


def test_the_scheduling_field_of_a_job_is_dropped_if_its_gate_is_disabled() -> None:
    job = create_job({"schedulingPolicy": _GANG})
    assert get_answer(job)["object"]["spec"]["scheduling"] == {"schedulingPolicy": _GANG}
    assert "scheduling" not in get_answer(job, gate=False)["object"]["spec"]


@each_case(
    ("scheduling", "wanted"),
    [
        ({}, []),
        ({"schedulingPolicy": _GANG, "disruptionMode": {"all": {}}}, []),
        ({"schedulingConstraints": {"topology": [{"key": "zone"}]}}, []),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]}, []),
        ({"schedulingPolicy": {}}, [
            'schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`']),
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, [
            "schedulingPolicy.gang.minCount: Invalid value: 3: must not be greater than parallelism (2)"]),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, [
            "schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1"]),
        ({"disruptionMode": {"all": {}}}, [
            'disruptionMode: Invalid value: "": the disruptionMode `all` is not supported with the Basic '
            "scheduling policy"]),
        ({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}, [
            "schedulingConstraints.topology: Too many: 2: must have at most 1 item"]),
        ({"resourceClaims": [{"name": "A", "resourceClaimName": "b"}]}, [
            'resourceClaims[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case '
            "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
            "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]),
        ({"resourceClaims": [{"name": str(i), "resourceClaimName": "b"} for i in range(5)]}, [
            "resourceClaims: Too many: 5: must have at most 4 items"]),
    ],
)  # fmt: skip
def test_scheduling_of_jobs_is_validated(scheduling: JsonObject, wanted: list[str]) -> None:
    assert errors(create_job(scheduling)) == [f"spec.scheduling.{text}" for text in wanted]
    path = "spec.jobTemplate.spec.scheduling"
    assert errors(create_cron_job(scheduling)) == [f"{path}.{text}" for text in wanted]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ({"schedulingPolicy": _GANG}, {"schedulingPolicy": {"gang": {"minCount": 1}}}, []),
        ({"schedulingPolicy": _GANG}, {"schedulingPolicy": {"basic": {}}}, [
            "spec.scheduling.schedulingPolicy: Invalid value: null: the basic/gang policy variant is immutable after "
            "creation; only schedulingPolicy.gang.minCount may be updated"]),
        (None, {}, ["spec.scheduling: Invalid value: null: field cannot be set once created"]),
        ({}, None, ["spec.scheduling: Invalid value: null: field cannot be cleared once set"]),
        ({}, {"disruptionMode": {"single": {}}}, [
            "spec.scheduling.disruptionMode: Invalid value: null: field is immutable"]),
    ],
)  # fmt: skip
def test_scheduling_of_a_job_is_immutable(
    old: JsonObject | None, new: JsonObject | None, wanted: list[str]
) -> None:
    assert errors(create_job(new), create_job(old)) == wanted


def test_cron_job_without_schedule_is_reported_once() -> None:
    cron_job = create_cron_job(None)
    del cron_job["spec"]["schedule"]
    assert errors(cron_job) == ["spec.schedule: Required value"]
