"""Faults of nodes of a whole cluster: their promises while they last, and the recovery afterwards."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from dra_shared.errors import UserError
from dralab.testing import Broken, Cluster

pytestmark = pytest.mark.system

_POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: it, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: it, resourceClaimTemplateName: one}]
  containers:
  - {name: c, image: any, command: [sleep, "99999"], resources: {claims: [{name: it}]}}
"""
#: Longer than any of these tests: each fault ends because the test ends it.
_LONG = 3600.0


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with Cluster(gpus="2xA100-SXM4-40GB:whole", fake_clock=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    yield shared_cluster
    shared_cluster.calm()
    for pod in shared_cluster.list("pods"):
        shared_cluster.delete(f"pod/{pod['metadata']['name']}")
    # Without a grace period the API server forgets a pod before its node unprepares the claim.
    shared_cluster.until(lambda: not _claim_files(shared_cluster), what="no CDI file of a claim")


def _start(cluster: Cluster, name: str) -> None:
    cluster.apply(_POD.replace("NAME", name))


def _events(cluster: Cluster, pod: str) -> str:
    return " ".join(e["message"] for e in cluster.events() if e["involvedObject"]["name"] == pod)


def _claim_files(cluster: Cluster) -> list[str]:
    return [path.name for path in (cluster.data / "nodes/node-0/cdi").glob("*.yaml")]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("driver-gone", "no such file or directory"),
        ("driver-wrong", "NodePrepareResources"),
        ("driver-reset", "error reading from server: EOF"),
        ("disk-full", "No space left on device"),
    ],
)
def test_a_pod_waits_during_a_node_fault_and_starts_afterwards(
    cluster: Cluster, fault: str, message: str
) -> None:
    name = f"{fault}-pod"
    cluster.disturb(fault, seconds=_LONG)
    _start(cluster, name)
    cluster.until(lambda: message in _events(cluster, name), what=f"an event with {message!r}")
    assert cluster.get(f"pod/{name}")["status"]["phase"] == "Pending"
    cluster.calm()
    cluster.pod(name).wait_for("Running")
    assert len(_claim_files(cluster)) == 1


def test_hanging_driver_calls_continue_after_the_fault(cluster: Cluster) -> None:
    cluster.disturb("driver-hang", seconds=_LONG)
    _start(cluster, "hangs")
    cluster.wait_for("pod/hangs", "PodScheduled")
    assert cluster.get("pod/hangs")["status"]["phase"] == "Pending"
    cluster.calm()
    cluster.pod("hangs").wait_for("Running")


def test_a_claim_prepared_with_one_driver_api_version_is_unprepared_with_another(cluster: Cluster) -> None:
    def calls(version: str) -> float:
        metrics = httpx.get(f"{cluster.asynchronous._services.urls['node-agent']}/metrics").text
        found = re.findall(
            rf"dra_grpc_operations_duration_seconds_count\{{[^}}]*dra\.{version}\.[^}}]*\}} (\S+)", metrics
        )
        return sum(map(float, found))

    before = calls("v1beta1")
    cluster.disturb("driver-old", seconds=_LONG)
    _start(cluster, "old-prepared")
    cluster.pod("old-prepared").wait_for("Running")
    assert calls("v1beta1") > before
    cluster.calm()
    cluster.delete("pod/old-prepared")
    cluster.until(lambda: not _claim_files(cluster), what="no CDI file of a claim")
    assert calls("v1beta1") == before + 1


def test_a_fault_reports_its_promise_and_the_parts_that_were_kept(cluster: Cluster) -> None:
    _start(cluster, "calm")
    cluster.pod("calm").wait_for("Running")
    crashed = cluster.disturb("driver-crash", seconds=1)
    assert crashed.what == "a DRA driver ends, and is started again"
    assert crashed.promise.startswith("running pods keep running")
    assert crashed.check() == [
        "its devices are published again",
        "containers kept running",
        "claims kept their devices",
        "nothing was done twice",
    ]


def test_a_broken_promise_of_a_fault_is_reported_as_an_error(cluster: Cluster) -> None:
    _start(cluster, "doomed")
    cluster.pod("doomed").wait_for("Running")
    cut = cluster.disturb("watch-cut", seconds=_LONG, delay=_LONG)
    cluster.delete("pod/doomed")
    cluster.calm()
    with pytest.raises(Broken, match="pod default/doomed is gone"):
        cut.check()
    assert cut.verdict().broken == ["pod default/doomed is gone"]


def test_the_report_of_a_fault_says_if_it_affected_no_call(cluster: Cluster) -> None:
    slow = cluster.disturb("driver-slow", seconds=1)
    assert slow.check() == []
    assert slow.verdict().untried == ["no call was made to a driver meanwhile"]
    met = cluster.disturb("driver-slow", seconds=_LONG, delay=0.1)
    _start(cluster, "met")
    cluster.pod("met").wait_for("Running")
    cluster.calm()
    assert "nothing was done twice" in met.check()


def test_faults_of_processes_are_rejected_for_clusters_in_one_process(cluster: Cluster) -> None:
    with pytest.raises(UserError, match="kill affects a process: ask for a cluster with processes=True"):
        cluster.disturb("kill", seconds=1, service="scheduler")


def test_a_restarted_driver_keeps_its_prepared_claims(cluster: Cluster) -> None:
    _start(cluster, "before")
    cluster.pod("before").wait_for("Running")
    cluster.disturb("driver-crash", seconds=_LONG)
    assert not list((cluster.data / "nodes/node-0/kubelet/plugins_registry").glob("*.sock"))
    assert cluster.get("pod/before")["status"]["phase"] == "Running"
    cluster.calm()
    _start(cluster, "after")
    cluster.pod("after").wait_for("Running")
    assert len(_claim_files(cluster)) == 2


@pytest.mark.parametrize("fault", ["kubelet-stop", "checkpoint-corrupt"])
def test_a_restarted_kubelet_adopts_its_pods(cluster: Cluster, fault: str) -> None:
    _start(cluster, "old")
    cluster.pod("old").wait_for("Running")
    files = _claim_files(cluster)
    cluster.disturb(fault, seconds=_LONG)
    _start(cluster, "new")
    cluster.wait_for("pod/new", "PodScheduled")
    with pytest.raises(UserError, match="its kubelet does not run"):
        cluster.disturb("driver-slow", seconds=1)
    cluster.calm()
    cluster.pod("new").wait_for("Running")
    old = cluster.get("pod/old")["status"]
    assert (old["phase"], old["containerStatuses"][0]["restartCount"]) == ("Running", 0)
    assert set(files) < set(_claim_files(cluster))
    cluster.delete("pod/old", "pod/new")
    cluster.until(lambda: not _claim_files(cluster), what="no CDI file of a claim")


def test_claims_are_unprepared_after_the_lost_checkpoint_is_restored(cluster: Cluster) -> None:
    _start(cluster, "old")
    cluster.pod("old").wait_for("Running")
    cluster.disturb("checkpoint-lost", seconds=_LONG)
    _start(cluster, "new")
    cluster.pod("new").wait_for("Running")
    cluster.delete("pod/old")
    assert len(_claim_files(cluster)) == 2
    cluster.calm()
    cluster.until(lambda: len(_claim_files(cluster)) == 1, what="one CDI file of a claim")
    cluster.delete("pod/new")
    cluster.until(lambda: not _claim_files(cluster), what="no CDI file of a claim")


def test_a_checkpoint_is_unchanged_if_losing_it_fails_on_a_full_disk(cluster: Cluster) -> None:
    _start(cluster, "old")
    cluster.pod("old").wait_for("Running")
    cluster.disturb("disk-full", seconds=_LONG)
    with pytest.raises(UserError, match=r"does not start without its checkpoint: .*No space left"):
        cluster.disturb("checkpoint-lost", seconds=1)
    cluster.calm()
    _start(cluster, "new")
    cluster.pod("new").wait_for("Running")
    cluster.delete("pod/old", "pod/new")
    cluster.until(lambda: not _claim_files(cluster), what="no CDI file of a claim")


@pytest.mark.parametrize("second", ["checkpoint-lost", "checkpoint-corrupt"])
def test_a_checkpoint_is_lost_or_damaged_once_at_a_time(cluster: Cluster, second: str) -> None:
    cluster.disturb("checkpoint-lost", seconds=_LONG)
    with pytest.raises(UserError, match="its checkpoint is lost or damaged already"):
        cluster.disturb(second, seconds=1)
    cluster.calm()
    cluster.disturb(second, seconds=0.1)
    cluster.calm()


def test_a_lost_gpu_is_tainted_until_it_is_restored(cluster: Cluster) -> None:
    def taints() -> list[str]:
        devices = [d for s in cluster.list("resourceslices") for d in s["spec"]["devices"]]
        return [taint["key"] for device in devices for taint in device.get("taints", ())]

    for _ in range(2):
        cluster.disturb("gpu-lost", seconds=_LONG, gpu=1)
        cluster.until(lambda: "gpu.nvidia.com/gpu-lost" in taints())
        cluster.calm()
        cluster.until(lambda: not taints())
    cluster.disturb("xid", seconds=_LONG, xid=48)
    cluster.until(lambda: taints() == ["gpu.nvidia.com/xid"])
    cluster.calm()
    cluster.until(lambda: not taints())


def test_a_deleted_node_is_registered_again_with_its_slices(cluster: Cluster) -> None:
    before = cluster.get("node/node-0")["metadata"]["uid"]
    cluster.disturb("node-gone", seconds=_LONG)
    cluster.wait_for("node/node-0", "gone")
    cluster.calm()
    cluster.wait_for("node/node-0", "Ready")
    after = cluster.get("node/node-0")["metadata"]["uid"]
    assert after != before

    def owners() -> set[str]:
        slices = cluster.list("resourceslices")
        return {owner["uid"] for one in slices for owner in one["metadata"]["ownerReferences"]}

    cluster.until(lambda: owners() == {after}, what="slices of the new node alone")
    _start(cluster, "back")
    cluster.pod("back").wait_for("Running")


_REBOOTED = (
    _POD
    + """
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: it, resourceClaimTemplateName: one}]
  containers:
  - {name: c, image: any, command: [sleep, "99999"], resources: {claims: [{name: it}]}}
"""
)


def _state(cluster: Cluster, name: str) -> dict[str, Any]:
    status: dict[str, Any] = cluster.get(f"pod/{name}")["status"]["containerStatuses"][0]
    return status


def test_a_rebooted_node_prepares_claims_again_and_restarts_containers(cluster: Cluster) -> None:
    cluster.apply(_REBOOTED.replace("NAME", "always"))
    cluster.pod("always").wait_for("Running")
    cluster.pod("once").wait_for("Running")
    files, boot_id = _claim_files(cluster), cluster.get("node/node-0")["status"]["nodeInfo"]["bootID"]
    assert len(files) == 2
    reboot = cluster.disturb("reboot", seconds=_LONG)
    assert _claim_files(cluster) == []
    cluster.calm()
    cluster.until(lambda: _state(cluster, "always")["restartCount"] == 1, what="a restart")
    cluster.pod("always").wait_for("Running")
    last = _state(cluster, "always")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (255, "Unknown"), "as containerd reports it"
    assert set(_claim_files(cluster)) < set(files), "the claim has the same devices, prepared again"
    cluster.pod("once").wait_for("Failed")
    assert cluster.get("node/node-0")["status"]["nodeInfo"]["bootID"] != boot_id
    assert "Pod sandbox changed, it will be killed and re-created." in _events(cluster, "always")
    events = [event for event in cluster.events() if event["reason"] == "Rebooted"]
    assert [event["type"] for event in events] == ["Warning"]
    assert "its containers run again" in reboot.check()


def test_a_node_with_a_fast_clock_reports_its_own_time_and_stays_ready(cluster: Cluster) -> None:
    cluster.disturb("clock-ahead", seconds=_LONG, ahead=86400)
    _start(cluster, "ahead")
    cluster.pod("ahead").wait_for("Running")
    pod = cluster.get("pod/ahead")
    assert pod["status"]["startTime"][:10] > pod["metadata"]["creationTimestamp"][:10]
    cluster.wait_for("node/node-0", "Ready")
    cluster.calm()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fault": "driver-slow", "node": "node-7"}, 'nodes "node-7" not found'),
        ({"fault": "xid", "gpu": 2}, "node 'node-0' has only the GPUs 0 to 1"),
        ({"fault": "mig-changed"}, "GPU 0 of node node-0 is not in MIG mode"),
        ({"fault": "driver-slow", "delay": 0}, "delay: must be above 0"),
        ({"fault": "clock-ahead", "ahead": -5}, "ahead: must be above 0 and at most 31536000"),
        ({"fault": "clock-ahead", "ahead": 1e300}, "ahead: must be above 0 and at most 31536000"),
        ({"fault": "xid", "xid": 99999}, "xid: must be from 1 to 1024"),
        ({"fault": "clock-ahead", "node": "node-7"}, 'nodes "node-7" not found'),
        (
            {"fault": "driver-slow", "driver": "nope"},
            "node 'node-0' has no driver 'nope': choose gpu.nvidia.com",
        ),
        (
            {"fault": "driver-crash", "driver": "nope"},
            "node 'node-0' has no driver 'nope': choose gpu.nvidia.co",
        ),
        (
            {"fault": "xid", "driver": "gpu.nvidia.com"},
            "unknown field `driver`: xid takes seconds, gpu, node",
        ),
    ],
)
def test_faults_that_cannot_be_injected_are_rejected(
    cluster: Cluster, arguments: dict[str, object], message: str
) -> None:
    given = dict(arguments)
    with pytest.raises(UserError, match=message):
        cluster.disturb(str(given.pop("fault")), seconds=1, **given)
