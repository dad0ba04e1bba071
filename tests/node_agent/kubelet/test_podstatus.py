"""The phase and conditions of a pod, computed from its containers."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_node_agent.kubelet.observed import Observed
from dra_node_agent.kubelet.podstatus import pod_status
from dra_node_agent.kubelet.qos import qos_class
from dra_node_agent.kubelet.statuses import status_patch
from dra_node_agent.runtime.base import ContainerRecord, State
from dra_shared.api.codec import convert
from dra_shared.api.container import ContainerStateWaiting
from dra_shared.api.pod import Pod, PodIP, PodStatus
from dra_shared.api.resources import PODS
from dra_shared.client.rest import Client
from dra_shared.simulation import NOT_SIMULATED, SIMULATED

from tests.support.cases import each_case

_NOW = "2026-01-01T00:00:00Z"


def _pod(policy: str = "Always", init: list[dict[str, Any]] | None = None, **status: Any) -> Pod:
    containers = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]
    return convert(
        PODS,
        {
            "metadata": {"name": "pod", "namespace": "ns", "uid": "uid"},
            "spec": {"containers": containers, "initContainers": init or [], "restartPolicy": policy},
            "status": {"phase": "Pending", **status},
        },
    )


def _record(name: str, exit_code: int | None = None, attempt: int = 0) -> ContainerRecord:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return ContainerRecord(
        id=f"{name}{attempt}",
        namespace="ns",
        pod="pod",
        pod_uid="uid",
        name=name,
        attempt=attempt,
        image="x",
        image_id="x",
        state=State.RUNNING if exit_code is None else State.EXITED,
        started_at=moment,
        finished_at=None if exit_code is None else moment,
        exit_code=exit_code or 0,
    )


@each_case(
    ("policy", "records", "terminal", "phase"),
    [
        ("Always", [], False, "Pending"),
        ("Always", [_record("a")], False, "Pending"),
        ("Always", [_record("a"), _record("b")], False, "Running"),
        ("Always", [_record("a", 1), _record("b")], False, "Running"),
        ("Always", [_record("a", 0), _record("b", 0)], False, "Running"),
        ("OnFailure", [_record("a", 1), _record("b", 0)], False, "Running"),
        ("Never", [_record("a", 1), _record("b")], False, "Running"),
        ("Never", [_record("a", 0), _record("b", 0)], False, "Pending"),
        ("Never", [_record("a", 0), _record("b", 0)], True, "Succeeded"),
        ("Never", [_record("a", 1), _record("b", 0)], True, "Failed"),
        ("OnFailure", [_record("a", 0), _record("b", 0)], True, "Succeeded"),
    ],
)
def test_phase_follows_container_states_and_restart_policy(
    policy: str, records: list[ContainerRecord], terminal: bool, phase: str
) -> None:
    observed = Observed(records={record.name: [record] for record in records}, terminal=terminal)
    assert pod_status(_pod(policy, phase="Running" if terminal else "Pending"), observed, _NOW).phase == phase


@pytest.mark.parametrize(
    ("code", "phase", "reason"), [(0, "Succeeded", "PodCompleted"), (137, "Failed", "PodFailed")]
)
def test_a_stopped_pod_ends_despite_its_restart_policy(code: int, phase: str, reason: str) -> None:
    records = {"a": [_record("a", code)], "b": [_record("b", 0)]}
    pod = _pod("Always", phase="Running")
    # Its claims are still prepared: it has not ended yet.
    stopping = pod_status(pod, Observed(records=records, stopped=True), _NOW)
    assert stopping.phase == "Running"
    unready = {c.reason for c in stopping.conditions if c.type in ("Ready", "ContainersReady")}
    assert unready == {"ContainersNotReady"}
    ended = pod_status(pod, Observed(records=records, stopped=True, terminal=True), _NOW)
    assert ended.phase == phase


def test_the_reason_of_a_failed_pod_is_set_with_its_phase() -> None:
    failing: dict[str, Any] = {"failed_reason": "DeadlineExceeded", "failed_message": "too long"}
    running = {"a": [_record("a")], "b": [_record("b")]}
    pod = _pod("Always", phase="Running")
    stopping = pod_status(pod, Observed(records=running, **failing), _NOW)
    assert (stopping.phase, stopping.reason, stopping.message) == ("Running", "", "")
    assert next(c.reason for c in stopping.conditions if c.type == "Ready") == "PodFailed"
    ended = pod_status(pod, Observed(records=running, terminal=True, **failing), _NOW)
    assert (ended.phase, ended.reason, ended.message) == ("Failed", "DeadlineExceeded", "too long")


def test_a_terminal_phase_never_changes() -> None:
    status = pod_status(_pod("Never", phase="Succeeded"), Observed(), _NOW)
    assert status.phase == "Succeeded"


def test_the_exit_of_a_container_that_waits_for_its_restart_is_in_last_state() -> None:
    waiting = {"a": ContainerStateWaiting(reason="CrashLoopBackOff")}
    observed = Observed(records={"a": [_record("a", 1)], "b": [_record("b")]}, waiting=waiting)
    status = pod_status(_pod(), observed, _NOW)
    first = status.container_statuses[0]
    assert first.state.waiting is not None
    assert first.last_state.terminated is not None
    assert first.last_state.terminated.exit_code == 1
    assert status.phase == "Running"


def test_conditions_keep_the_time_of_their_last_change() -> None:
    old = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
        {"type": "example.com/own", "status": "True"},
    ]
    status = pod_status(_pod(conditions=old), Observed(), _NOW)
    times = {condition.type: condition.last_transition_time for condition in status.conditions}
    assert times["Ready"] == "2025-01-01T00:00:00Z"
    assert times["PodScheduled"] == "2025-01-01T00:00:00Z"
    assert times["Initialized"] == _NOW
    assert "example.com/own" in times


def test_a_container_that_was_lost_with_its_node_has_unknown_status() -> None:
    known = {"name": "a", "state": {"running": {"startedAt": _NOW}}, "restartCount": 3}
    pod = _pod(containerStatuses=[known], phase="Running")
    status = pod_status(pod, Observed(terminal=True), _NOW).container_statuses[0]
    assert status.state.terminated is not None
    assert (status.state.terminated.reason, status.restart_count) == ("ContainerStatusUnknown", 4)


def test_the_status_patch_has_only_changed_fields() -> None:
    old = _pod(conditions=[{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]).status
    new = pod_status(
        _pod(conditions=[{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]),
        Observed(records={"a": [_record("a")], "b": [_record("b")]}, has_sandbox=True),
        _NOW,
    )
    patch = status_patch("uid", old, new)
    assert patch is not None
    ready = next(entry for entry in patch["status"]["conditions"] if entry["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", None)
    assert patch["metadata"] == {"uid": "uid"}
    assert {"type": "Ready"} in patch["status"]["$setElementOrder/conditions"]
    assert status_patch("uid", new, new) is None
    assert status_patch("uid", PodStatus(message="old"), PodStatus()) == {
        "metadata": {"uid": "uid"},
        "status": {"message": None},
    }


async def test_a_new_pod_ip_replaces_the_old_one(tmp_path: Path) -> None:
    def at(address: str) -> PodStatus:
        return PodStatus(phase="Running", pod_ip=address, pod_ips=(PodIP(ip=address),))

    path = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    async with (
        ApiServer(Config(port=0, data=tmp_path, database=IN_MEMORY)) as server,
        Client(server.url) as client,
    ):
        made = (await client.raw("POST", path, content=orjson.dumps(pod))).json()
        uid = made["metadata"]["uid"]
        for old, new in ((PodStatus(), at("10.0.0.1")), (at("10.0.0.1"), at("10.0.0.2"))):
            patch = status_patch(uid, old, new)
            answer = await client.raw(
                "PATCH",
                f"{path}/a/status",
                content=orjson.dumps(patch),
                content_type="application/strategic-merge-patch+json",
            )
            assert answer.status_code == 200, answer.text
        assert answer.json()["status"]["podIPs"] == [{"ip": "10.0.0.2"}]


@each_case(
    ("resources", "expected"),
    [
        ([{}, {}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}, {}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}] * 2, "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}] * 2, "Burstable"),
    ],
)
def test_qos_class_follows_requests_and_limits(resources: list[dict[str, Any]], expected: str) -> None:
    containers = [{"name": str(number), "resources": entry} for number, entry in enumerate(resources)]
    assert qos_class(convert(PODS, {"spec": {"containers": containers}})) == expected


def test_a_sidecar_that_runs_keeps_a_pod_running() -> None:
    pod = _pod("Never", init=[{"name": "side", "image": "x", "restartPolicy": "Always"}], phase="Running")
    records = {"side": [_record("side")], "a": [_record("a", 0)], "b": [_record("b", 0)]}
    status = pod_status(pod, Observed(records=records), _NOW)
    reasons = {entry.reason for entry in status.conditions if entry.type in ("Ready", "ContainersReady")}
    assert (status.phase, reasons) == ("Running", {"ContainersNotReady"})


def test_containers_of_an_uninitialized_pod_are_not_reported_as_ended() -> None:
    pod = _pod("Never", init=[{"name": "i", "image": "x"}, {"name": "j", "image": "x"}])
    status = pod_status(pod, Observed(records={"i": [_record("i", 3)]}, stopped=True, terminal=True), _NOW)
    assert status.phase == "Failed"
    assert [entry.state.waiting is None for entry in status.init_container_statuses] == [True, False]
    assert [entry.state.waiting is None for entry in status.container_statuses] == [False, False]


def test_a_pod_that_never_started_is_not_ready_rather_than_failed() -> None:
    status = pod_status(_pod(), Observed(stopped=True, terminal=True), _NOW)
    assert status.phase == "Failed"
    assert [entry.state.terminated is not None for entry in status.container_statuses] == [True, True]
    reasons = {entry.reason for entry in status.conditions if entry.type in ("Ready", "ContainersReady")}
    assert reasons == {"ContainersNotReady"}


def test_a_container_of_a_deleted_pod_is_not_in_back_off() -> None:
    pod = _pod(phase="Running")
    deleted = msgspec.structs.replace(pod.metadata, deletion_timestamp=_NOW)
    observed = Observed(
        records={"a": [_record("a", 3)], "b": [_record("b")]},
        waiting={"a": ContainerStateWaiting(reason="CrashLoopBackOff")},
    )
    assert pod_status(pod, observed, _NOW).container_statuses[0].state.waiting is not None
    pod = msgspec.structs.replace(pod, metadata=deleted)
    ended = pod_status(pod, observed, _NOW).container_statuses[0].state.terminated
    assert ended is not None
    assert ended.exit_code == 3


def test_containers_are_sorted_by_name() -> None:
    pod = _pod()
    pod = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=pod.spec.containers[::-1])
    )
    assert [entry.name for entry in pod_status(pod, Observed(), _NOW).container_statuses] == ["a", "b"]


def test_a_rejected_pod_has_a_reason_but_no_kubelet_conditions_or_container_statuses() -> None:
    pod = _pod(conditions=[{"type": "PodScheduled", "status": "True"}, {"type": "Mine", "status": "True"}])
    observed = Observed(
        terminal=True, rejected=True, failed_reason="NodeAffinity", failed_message="Pod was rejected: no"
    )
    status = pod_status(pod, observed, _NOW)
    assert (status.phase, status.reason, status.message) == ("Failed", "NodeAffinity", "Pod was rejected: no")
    assert [entry.type for entry in status.conditions] == ["Mine"]
    assert status.container_statuses == ()
    patch = status_patch("uid", pod.status, msgspec.structs.replace(status, conditions=()))
    assert patch is not None
    assert patch["status"]["conditions"] == [{"$patch": "delete", "type": "PodScheduled"}]


def test_a_pod_condition_names_programs_that_are_not_simulated() -> None:
    records = {"a": [_record("a")], "b": [_record("b")]}
    records["b"][0].unsimulated = "python3 train.py"
    pod = _pod(phase="Running")
    status = pod_status(pod, Observed(records=records), _NOW)
    (condition,) = [one for one in status.conditions if one.type == SIMULATED]
    shown = (condition.status, condition.reason, condition.message)
    assert shown == ("False", NOT_SIMULATED, "b: python3 train.py")
    assert {one.type: one.status for one in status.conditions}["Ready"] == "True"
    marked = msgspec.structs.replace(pod, status=status)
    records["b"] = [_record("b", attempt=1)]
    later = pod_status(marked, Observed(records=records), _NOW)
    assert SIMULATED not in {one.type for one in later.conditions}


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["webhook"]},
        {"name": "cert-manager-webhook"},
        {"ports": [{"name": "webhook-server", "containerPort": 8443}]},
        {"ports": [{"containerPort": 9443}]},
    ],
)
def test_a_webhook_pod_whose_program_is_not_simulated_is_not_ready(container: dict[str, Any]) -> None:
    spec = {"containers": [{"name": "a", "image": "x", **container}]}
    pod = convert(
        PODS, {"metadata": {"name": "p", "uid": "uid"}, "spec": spec, "status": {"phase": "Running"}}
    )
    record = _record(spec["containers"][0]["name"])
    records = {record.name: [record]}
    assert pod_status(pod, Observed(records=records), _NOW).container_statuses[0].ready
    record.unsimulated = "webhook"
    status = pod_status(pod, Observed(records=records), _NOW)
    assert not status.container_statuses[0].ready
    assert {one.type: one.status for one in status.conditions}["Ready"] == "False"
