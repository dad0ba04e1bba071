"""Test the conversion of PodGroups and Workloads of Kubernetes 1.35 and 1.36 to those of 1.37."""

from typing import Any

import pytest
from dra_apiserver.verdict import Judge
from dra_shared.classic import convert
from dra_shared.classic.notes import find_lost
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

_BETA = "scheduling.k8s.io/v1beta1"
_POLICY = {"gang": {"minCount": 2}}


def _judge() -> Judge:
    gates = FeatureGates(V1_37, GenericWorkload=True, WorkloadAwarePreemption=True)
    return Judge(gates, "scheduling.k8s.io/v1beta1=true")


def _object(version: str, kind: str, **spec: Any) -> JsonObject:
    meta = {"name": "jobs", "namespace": "work", "uid": "u"}
    return {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize(("mode", "today"), [("Pod", {"single": {}}), ("PodGroup", {"all": {}})])
def test_a_pod_group_refers_to_its_workload_and_has_its_mode_as_an_object(
    mode: str, today: JsonObject
) -> None:
    reference = {"workload": {"workloadName": "train", "podGroupTemplateName": "workers"}}
    old = _object(
        "v1alpha2",
        "PodGroup",
        podGroupTemplateRef=reference,
        schedulingPolicy=_POLICY,
        disruptionMode=mode,
        priorityClassName="high",
    )
    [made] = convert([{**old, "status": {"conditions": []}}]).objects
    assert made == {
        "apiVersion": _BETA,
        "kind": "PodGroup",
        "metadata": {"name": "jobs", "namespace": "work"},
        "spec": {
            "workloadRef": {"workloadName": "train", "templateName": "workers"},
            "schedulingPolicy": _POLICY,
            "disruptionMode": today,
            "priorityClassName": "high",
        },
    }
    assert _judge().create(made).refused == ()


def test_a_workload_keeps_its_controller_and_templates() -> None:
    template = {"name": "workers", "schedulingPolicy": _POLICY}
    controller = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    old = _object(
        "v1alpha2",
        "Workload",
        controllerRef=controller,
        podGroupTemplates=[{**template, "disruptionMode": "PodGroup"}],
    )
    [made] = convert([old]).objects
    assert made["spec"] == {
        "controllerRef": controller,
        "podGroupTemplates": [{**template, "disruptionMode": {"all": {}}}],
    }
    assert _judge().create(made).refused == ()


def test_an_unknown_disruption_mode_has_no_successor() -> None:
    conversion = convert([_object("v1alpha2", "PodGroup", schedulingPolicy=_POLICY, disruptionMode="Some")])
    [note] = find_lost(conversion.notes)
    assert note.path == "spec.disruptionMode"


_POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "work"},
    "spec": {"containers": [], "workloadRef": {"name": "jobs", "podGroup": "workers"}},
}


def test_pods_of_a_workload_of_1_35_share_a_pod_group() -> None:
    workload = _object("v1alpha1", "Workload", podGroups=[{"name": "workers", "policy": _POLICY}])
    other = {**_POD, "metadata": {"name": "b", "namespace": "work"}}
    conversion = convert([workload, _POD, other])
    assert [(one["kind"], one["metadata"]["name"]) for one in conversion.objects] == [
        ("Workload", "jobs"),
        ("PodGroup", "jobs-workers"),
        ("Pod", "a"),
        ("Pod", "b"),
    ]
    made, group, pod, _ = conversion.objects
    assert made["spec"] == {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": _POLICY}]}
    assert group["spec"] == {
        "workloadRef": {"workloadName": "jobs", "templateName": "workers"},
        "schedulingPolicy": _POLICY,
    }
    assert pod["spec"] == {"containers": [], "schedulingGroup": {"podGroupName": "jobs-workers"}}
    assert all(_judge().create(one).refused == () for one in (made, group))
    assert not find_lost(conversion.notes)


def test_replicas_of_a_group_have_a_pod_group_each() -> None:
    workload = _object("v1alpha1", "Workload", podGroups=[{"name": "workers", "policy": _POLICY}])
    pods = [
        {**_POD, "spec": {"workloadRef": {**_POD["spec"]["workloadRef"], "podGroupReplicaKey": key}}}
        for key in ("0", "1")
    ]
    groups = [
        one["metadata"]["name"] for one in convert([workload, *pods]).objects if one["kind"] == "PodGroup"
    ]
    assert groups == ["jobs-workers-0", "jobs-workers-1"]


def test_a_pod_whose_workload_is_missing_loses_its_group() -> None:
    conversion = convert([_POD])
    [note] = find_lost(conversion.notes)
    assert note.path == "spec.workloadRef"
    assert [one["kind"] for one in conversion.objects] == ["Pod"]
