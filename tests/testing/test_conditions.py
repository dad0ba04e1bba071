"""States from which an object cannot reach the expected one."""

from typing import Any

import pytest
from dra_kube.discovery import ServedResource
from dra_testing.conditions import Condition, has_started, obstacle
from dralab.testing import Cluster, WaitTimeout

from tests.support.cases import each_case


def _resource(plural: str) -> ServedResource:
    return ServedResource("", "v1", plural, plural, plural.title(), True, ())


def _obj(phase: str = "", *conditions: str, owner: str = "") -> dict[str, Any]:
    owners = [{"kind": owner, "name": "x"}] if owner else []
    return {
        "metadata": {"name": "x", "ownerReferences": owners},
        "status": {"phase": phase, "conditions": [{"type": one, "status": "True"} for one in conditions]},
    }


@each_case(
    ("plural", "wanted", "obj", "found"),
    [
        ("pods", "Succeeded", _obj("Failed"), "Failed"),
        ("pods", "Failed", _obj("Succeeded"), "Succeeded"),
        ("pods", "Running", _obj("Succeeded"), "Succeeded"),
        ("pods", "Ready", _obj("Succeeded"), "Succeeded"),
        ("pods", "", _obj("Failed"), "Failed"),
        ("pods", has_started, _obj("Failed"), "Failed"),
        ("pods", "Succeeded", _obj("Running"), ""),
        ("pods", "gone", _obj("Failed"), ""),
        ("pods", "example.com/Reviewed", _obj("Failed"), ""),
        ("pods", lambda pod: False, _obj("Failed"), ""),
        # Its controller creates another pod of this name.
        ("pods", "Running", _obj("Failed", owner="StatefulSet"), ""),
        ("pods", "Running", _obj("Failed", owner="Job"), "Failed"),
        ("jobs", "Complete", _obj("", "Failed"), "Failed"),
        ("jobs", "Failed", _obj("", "Complete"), "Complete"),
        ("jobs", "Complete", _obj("", "SuccessCriteriaMet"), ""),
        ("jobs", "Complete", _obj("", "Suspended"), ""),
        ("certificatesigningrequests", "Approved", _obj("", "Denied"), "Denied"),
        ("namespaces", "Active", _obj("Terminating"), "Terminating"),
        ("deployments", "Available", _obj("", "ReplicaFailure"), ""),
    ],
)
def test_a_state_that_can_no_longer_become_the_expected_one_is_recognized(
    plural: str, wanted: Condition, obj: dict[str, Any], found: str
) -> None:
    assert obstacle(wanted, _resource(plural), obj) == found


@pytest.mark.system
@pytest.mark.dra_cluster
def test_waiting_for_a_failed_pod_to_succeed_ends_at_once(dra_cluster: Cluster) -> None:
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", "exit 3"]}
    dra_cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "fails"},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
    )
    # The failure comes at once: the time limit of a test is shorter than this timeout.
    with pytest.raises(WaitTimeout, match="pod/fails is Failed and can no longer be Succeeded"):
        dra_cluster.pod("fails").wait_for("Succeeded", timeout=3600)


@pytest.mark.system
@pytest.mark.dra_cluster
def test_apply_is_sent_again_while_the_server_is_busy(dra_cluster: Cluster) -> None:
    dra_cluster.disturb("error", code=429, seconds=0.5, verbs=["patch"])
    dra_cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert dra_cluster.get("configmap/c")["metadata"]["name"] == "c"
