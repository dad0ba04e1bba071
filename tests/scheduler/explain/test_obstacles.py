"""Reasons of plugins other than DynamicResources, and the changes that would help."""

from typing import Any

from dra_scheduler.config import SchedulerConfig
from dra_scheduler.explain.report import PodReport
from dra_scheduler.wiring import new_scheduler
from dra_shared.clock import FakeClock
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import node, pod
from tests.support.cases import each_case
from tests.support.fakeapi import FakeApi

_EVERYONE: JsonObject = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}


def _report(pod_fields: JsonObject, node_fields: JsonObject | None = None, *others: JsonObject) -> PodReport:
    """Explain a pod on a node with other pods."""
    scheduler = new_scheduler(SchedulerConfig(health_port=None), client=FakeApi().client(), clock=FakeClock())
    scheduler.cache.set_node(node("node-1", **(node_fields or {})))
    for other in others:
        scheduler.cache.set_pod(pod(other.pop("name"), nodeName="node-1", **other))
    waiting = pod("p", **pod_fields)
    scheduler.explainer._find_pod = {"default/p": waiting}.get
    if waiting.spec.scheduler_name == scheduler.config.scheduler_name:
        scheduler.queue.add(waiting)
    report = scheduler.explainer.pod("default", "p")
    assert report is not None
    return report


def _affinity(**requirement: Any) -> JsonObject:
    term = {"matchExpressions": [requirement]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _port(number: int) -> JsonObject:
    return {"container": {"ports": [{"containerPort": 1, "hostPort": number, "protocol": "TCP"}]}}


_TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@each_case(
    ("pod_fields", "node_fields", "others", "saw", "remedy"),
    [
        (
            {"requests": {"cpu": "3500m", "memory": "1Gi"}},
            {},
            [{"name": "o", "requests": {"cpu": "1"}}],
            "cpu: the pod asks for 3500m, 3 of 4 are left",
            "if the pod asked for no more cpu than 3",
        ),
        (
            {"requests": {"memory": "8Gi"}},
            {},
            [{"name": "o", "requests": {"memory": "8Gi"}}],
            "memory: the pod asks for 8Gi, 0 of 8Gi are left",
            "if pods on node node-1 gave memory back",
        ),
        (
            {"nodeSelector": {"disk": "ssd"}},
            {},
            [],
            "nodeSelector disk=ssd: the node has no label disk",
            "if node node-1 had the label disk=ssd",
        ),
        (
            {"nodeSelector": {"disk": "ssd"}},
            {"labels": {"disk": "hdd"}},
            [],
            "nodeSelector disk=ssd: the node has disk=hdd",
            "if node node-1 had the label disk=ssd",
        ),
        (
            _affinity(key="zone", operator="In", values=["a", "b"]),
            {"labels": {"zone": "c"}},
            [],
            "node affinity zone In [a, b]: the node has zone=c",
            "if the pod had no required node affinity",
        ),
        (
            {},
            {"taints": [_TAINT]},
            [],
            "taint team=a:NoSchedule",
            "if the pod tolerated taint team=a:NoSchedule",
        ),
        (
            {},
            {"unschedulable": True},
            [],
            "the node is cordoned",
            "if it were uncordoned: kubectl uncordon node-1",
        ),
        (
            _port(80),
            {},
            [{"name": "o", **_port(80)}],
            "host port 80/TCP is pod default/o's",
            "if pod default/o left host port 80/TCP",
        ),
        (
            {},
            {},
            [
                {
                    "name": "o",
                    "affinity": {
                        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_EVERYONE]}
                    },
                }
            ],
            "because of pod default/o on node node-1",
            "if pod default/o were gone",
        ),
        (
            {},
            {},
            [{"name": f"o{i}"} for i in range(10)],
            "10 of 10 pods are there",
            "if a pod left node node-1",
        ),
    ],
)
def test_each_rejection_is_explained_with_the_change_that_helps(
    pod_fields: JsonObject, node_fields: JsonObject, others: list[JsonObject], saw: str, remedy: str
) -> None:
    report = _report(pod_fields, node_fields, *others)
    assert [text for each in report.nodes[0].saw.values() for text in each] == [saw]
    assert report.change is not None
    assert (report.change.node, report.change.text) == ("node-1", remedy)


def test_a_resource_that_the_node_lacks_is_named() -> None:
    report = _report({"requests": {"example.com/thing": "2"}})
    [saw] = report.nodes[0].saw["NodeResourcesFit"]
    assert saw == "example.com/thing: the pod asks for 2, none is left: the node has no such resource"
    assert report.change is not None
    assert report.change.text == "if it were not for NodeResourcesFit: Insufficient example.com/thing"


def test_changes_for_several_obstacles_are_combined() -> None:
    report = _report({"requests": {"cpu": "5"}, "nodeSelector": {"disk": "ssd"}})
    assert report.change is not None
    assert report.change.text == (
        "if node node-1 had the label disk=ssd, and if the pod asked for no more cpu than 4"
    )


def test_a_pod_of_another_scheduler_names_that_scheduler() -> None:
    report = _report({"schedulerName": "theirs"})
    assert report.state == "pending: left to scheduler theirs"
    assert report.change is not None
    assert report.change.text == "until a scheduler places it whose name is theirs, not default-scheduler"


def test_a_template_without_a_generated_claim_is_named() -> None:
    report = _report({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]})
    assert report.state == "pending: gated"
    assert report.change is not None
    assert report.change.text == "until claim gpu is made from ResourceClaimTemplate default/t"
