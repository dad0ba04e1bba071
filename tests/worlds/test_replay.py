"""``plan replay``: a timeline of pods, as recorded and with changes."""

import json
from pathlib import Path

import pytest
from dra_cli.commandline import run
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import class_json, node_json, slice_json

_VERSIONS = {"DeviceClass": "resource.k8s.io/v1", "ResourceSlice": "resource.k8s.io/v1"}


@pytest.fixture
def world(tmp_path: Path) -> str:
    """Return a node with two devices."""
    items = [
        {"apiVersion": _VERSIONS.get(obj["kind"], "v1"), **obj}
        for obj in (class_json(), node_json("n0"), slice_json("n0", 2))
    ]
    path = tmp_path / "world.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _csv(path: Path, *rows: str) -> str:
    path.write_text("\n".join(("start,end,shape,name", *rows)))
    return str(path)


def _ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[JsonObject]]:
    code = run("plan", ["replay", *words, "-o", "json"])
    answer: JsonObject = json.loads(capsys.readouterr().out)
    assert answer["complete"]
    courses: list[JsonObject] = answer["courses"]
    return code, courses


def test_replay_reports_waiting_times_and_utilization(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both devices are in use for 100 s. The pod of 10 s waits until then, and the third pod waits for that one."""
    times = _csv(
        tmp_path / "t.csv",
        "1000,1100,2xgpu+cpu=1,a",
        "1010,1020,1xgpu,b",
        "1010,1030,2xgpu,c",
        "1200,1210,0xnone,d",
    )
    code, (course,) = _ask(capsys, times, "--from", world)
    assert (code, course["placed"], course["pods"]) == (0, 4, 4)
    # b has to wait from 10 to 100; c from 10 to 110, when b is gone.
    percentiles = {"median": 45.0, "p90": 100.0, "p95": 100.0, "p99": 100.0}
    assert course["waits"] == {"mean": 47.5, **percentiles, "longest": 100.0}
    assert course["span"] == 210
    assert course["utilisation"] == pytest.approx((2 * 100 + 10 + 2 * 20) / (2 * 210), abs=1e-6)
    code, (course,) = _ask(capsys, times, "--from", world, "--starved-after", "95")
    assert (code, [(s["pod"], s["waited"], s["message"]) for s in course["starved"]]) == (
        1,
        [("default/c", 100, "")],
    )


def test_changes_in_a_replay_accumulate(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = _csv(tmp_path / "t.csv", "0,50,2xgpu,a", "0,50,1xgpu,b", "5,,3xgpu,never")
    bigger = slice_json("n0", 3)
    changes = {
        "changes": [
            {"name": "a third device", "objects": [{"apiVersion": "resource.k8s.io/v1", **bigger}]},
            {"name": "no node", "remove": ["n0"]},
        ]
    }
    file = tmp_path / "changes.json"
    file.write_text(json.dumps(changes))
    code, (before, third, none) = _ask(capsys, times, "--from", world, "--changes", str(file))
    assert [course["name"] for course in (before, third, none)] == ["as it is", "a third device", "no node"]
    assert [course["placed"] for course in (before, third, none)] == [2, 3, 0]
    assert (before["waits"]["longest"], third["waits"]["median"]) == (50, 0)
    (starved,) = before["starved"]
    assert starved["pod"] == "default/never"
    assert "cannot allocate all claims" in starved["message"]
    assert (code, third["starved"], len(none["starved"])) == (1, [], 3)
    run("plan", ["replay", times, "--from", world])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "as it is: 2 of 3 pods placed, utilisation 75.0% in 100 s",
        "  waits: mean 25 s, median 25 s, 95th percentile 50 s, longest 50 s",
    ]


def test_a_change_names_the_workloads_that_it_cannot_count(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = _csv(tmp_path / "t.csv", "0,50,1xgpu,a")
    spec = {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "c"}]}}}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "t"}, "spec": spec}
    file = tmp_path / "changes.json"
    file.write_text(json.dumps({"changes": [{"name": "more", "objects": [job]}]}))
    assert run("plan", ["replay", times, "--from", world, "--changes", str(file), "-o", "json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["leftOut"], len(answer["courses"])) == (["TFJob default/t"], 2)


def test_versions_gates_and_configurations_are_tried_in_order(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = _csv(tmp_path / "t.csv", "0,,1xgpu,a", "0,,1xgpu,b", "0,,1xgpu,c")
    shared = slice_json("n0", 1)
    shared["spec"]["devices"][0]["allowMultipleAllocations"] = True
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    no_filter = {"plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}
    (tmp_path / "config.json").write_text(json.dumps(config | {"profiles": [no_filter]}))
    changes = [
        {"name": "shared", "objects": [{"apiVersion": "resource.k8s.io/v1", **shared}]},
        {"name": "older", "kubernetesVersion": "1.35"},
        {"name": "with its gate", "featureGates": "DRAConsumableCapacity=true"},
        {"name": "no DRA", "config": "config.json"},
    ]
    file = tmp_path / "changes.json"
    file.write_text(json.dumps({"changes": changes}))
    _, courses = _ask(capsys, times, "--from", world, "--changes", str(file))
    assert [course["placed"] for course in courses] == [2, 3, 1, 3, 3]
    _, courses = _ask(capsys, times, "--from", world, "--changes", str(file), "--kubernetes-version", "1.35")
    # The gate is off in 1.35 by default; a cluster of 1.35 that has such a slice has it on.
    assert [course["placed"] for course in courses] == [2, 3, 3, 3, 3]
    file.write_text(json.dumps({"changes": [{"name": "x", "kubernetesVersion": "0.1"}]}))
    with pytest.raises(UserError, match=r"0\.1"):
        run("plan", ["replay", times, "--from", world, "--changes", str(file)])


def test_preempted_pods_are_restarted(world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("start,end,shape,name,priority\n0,100,0xnone+cpu=3,low,0\n10,30,0xnone+cpu=3,high,100\n")
    _, (course,) = _ask(capsys, str(path), "--from", world)
    assert (course["preempted"], course["placed"], course["waits"]["longest"]) == (1, 2, 0)
    # The preempted pod starts again when the other pod has ended, and then runs for its whole 100 seconds.
    assert course["span"] == pytest.approx(130, abs=11)


def _pod(name: str, created: str, finished: str = "") -> JsonObject:
    ended = {"state": {"terminated": {"exitCode": 0, "finishedAt": finished}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created},
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": "n0",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}],
        },
        "status": {
            "phase": "Succeeded" if finished else "Running",
            "startTime": created,
            "containerStatuses": [{"name": "main", **ended}] if finished else [],
        },
    }


def test_timelines_are_read_from_dumps_and_watches(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = [
        _pod("a", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        _pod("b", "2026-01-01T00:00:20Z", "2026-01-01T00:00:30Z"),
    ]
    dump, watch = tmp_path / "pods.json", tmp_path / "watch.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    early = [{**pod, "status": {"phase": "Pending"}} for pod in pods]
    events = [{"type": "ADDED", "object": pod} for pod in early] + [
        {"type": "MODIFIED", "object": pod} for pod in pods
    ]
    watch.write_text("\n".join(map(json.dumps, events)))
    found = [_ask(capsys, str(path), "--from", world)[1] for path in (dump, watch)]
    assert found[0] == found[1]
    # The second waits from 20 to 60.
    assert (found[0][0]["waits"]["longest"], found[0][0]["span"]) == (40, 70)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,1,what,a"], "neither a pod of --shapes"),
        (["5,1,1xgpu,a"], "ends before it starts"),
        ([",1,1xgpu,a"], "needs a start"),
        ([], "no pods"),
    ],
)
def test_invalid_timelines_are_rejected(rows: list[str], message: str, world: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        run("plan", ["replay", _csv(tmp_path / "t.csv", *rows), "--from", world])


def test_replay_reports_use_and_cost_by_model_class_and_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For an hour, a pod of team a has four of eight H100s, and one of team b all T4s for half of it."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "pools: [{name: h, gpus: 8xH100-SXM5-80GB, price: 80, memory: 2Ti},"
        " {name: t, gpus: 4xT4, price: 4, cpu: 100}]\n"
    )
    times = tmp_path / "t.csv"
    rows = ["0,3600,4xgpu.nvidia.com+memory=1Ti,a,one", "0,1800,4xgpu.nvidia.com+cpu=90,b,two"]
    times.write_text("\n".join(("start,end,shape,namespace,name", *rows)))
    code, (course,) = _ask(capsys, str(times), "--from", str(fleet))
    assert code == 0
    uses = {use["name"]: use for use in course["models"]}
    assert uses["NVIDIA H100 80GB HBM3"] == _use("NVIDIA H100 80GB HBM3", 4.0, 0.5, 40.0)
    assert uses["Tesla T4"] == _use("Tesla T4", 2.0, 0.5, 2.0)
    assert course["classes"] == [_use("gpu.nvidia.com", 6.0, 0.5, 42.0)]
    assert course["namespaces"] == [_use("a", 4.0, 0.333333, 40.0), _use("b", 2.0, 0.166667, 2.0)]
    assert (course["cost"], course["idleCost"]) == (84.0, 42.0)
    assert [(each["at"], each["used"]["Tesla T4"]) for each in course["moments"]][-1] == (3600.0, 0.0)


def _use(name: str, hours: float, utilisation: float, cost: float) -> JsonObject:
    return {"name": name, "deviceHours": hours, "utilisation": utilisation, "cost": cost}


def test_columns_of_a_timeline_may_be_named_like_prometheus_metrics(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = tmp_path / "pods.csv"
    head = "namespace,pod,kube_pod_start_time,kube_pod_completion_time,gpus,class"
    rows = ("team,a,1767225600,1767225660,2,gpu", "team,b,1767225600,,1,gpu", "team,c,1767225600,,0,gpu")
    times.write_text("\n".join((head, *rows)))
    _, (course,) = _ask(capsys, str(times), "--from", world)
    assert (course["placed"], course["waits"]["longest"]) == (3, 60.0)
    assert [use["name"] for use in course["namespaces"]] == ["team"]


def test_events_of_kubectl_are_a_timeline(
    world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shape of a pod is that of its workload: its name without the endings that controllers add."""
    shapes = tmp_path / "shapes.json"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"containers": [{"name": "c"}]},
    }
    shapes.write_text(json.dumps(pod))
    events = [
        _event("train-x7x2q", "FailedScheduling", "10:00:00"),
        _event("train-x7x2q", "Scheduled", "10:00:30"),
        _event("train-x7x2q", "Killing", "10:02:00"),
        _event("train-abcde", "Scheduled", "10:01:00"),
        _event("other-abcde", "Scheduled", "10:01:00"),
    ]
    times = tmp_path / "events.json"
    times.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": events}))
    code = run("plan", ["replay", str(times), "--shapes", str(shapes), "--from", world, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    (course,) = answer["courses"]
    assert (code, course["pods"], course["span"]) == (0, 2, 90.0)
    assert any("other-abcde" in line for line in answer["uncertain"])


def _event(pod: str, reason: str, time: str) -> JsonObject:
    involved = {"kind": "Pod", "namespace": "default", "name": pod}
    meta = {"name": f"{pod}.{reason}", "namespace": "default"}
    moment = f"2026-01-01T{time}Z"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": meta,
        "involvedObject": involved,
        "reason": reason,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
    }
