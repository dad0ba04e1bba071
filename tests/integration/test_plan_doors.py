"""The command line, HTTP, the console and Python give the same answer to a planner question, computed by hand."""

from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from tests.integration.plandoors import Doors, Question, doors, node_type, template
from tests.support.sampling import sample

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(doors(portal, tmp_path_factory.mktemp("doors"))) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def four_where_a_pod_waits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(
            doors(portal, tmp_path_factory.mktemp("doors"), waiting=True)
        ) as found,
    ):
        yield found


def _spec(template_name: str = "", **resources: JsonObject) -> JsonObject:
    container: JsonObject = {"name": "main", "image": "x", "resources": {**resources}}
    spec: JsonObject = {"containers": [container]}
    if template_name:
        container["resources"]["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template_name}]
    return spec


def _pod(template_name: str = "", **resources: JsonObject) -> JsonObject:
    """Return a pod as users write it: without scheduler name, namespace or other defaults."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": _spec(template_name, **resources),
    }


def _workload(kind: str, template_name: str = "one", group: str = "apps/v1", **spec: Any) -> JsonObject:
    labels = {"app": "w"}
    made = {"template": {"metadata": {"labels": labels}, "spec": _spec(template_name)}, **spec}
    if group == "apps/v1":
        made["selector"] = {"matchLabels": labels}
    else:
        made["template"]["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "w"}, "spec": made}


def _cron_job(parallelism: int) -> JsonObject:
    job = _workload("Job", group="batch/v1", parallelism=parallelism)["spec"]
    spec = {"schedule": "@daily", "jobTemplate": {"spec": job}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "w"}, "spec": spec}


def _fit(name: str, objects: list[JsonObject], answer: JsonObject, *, count: int | None = None) -> Question:
    """Ask for as many copies as fit, for ``count`` copies, or with 0 for the objects unchanged."""
    if count is None:
        words, body = "--max", JsonObject(max=True)
    else:
        words, body = (f"--count {count}", JsonObject(count=count)) if count else ("", JsonObject())
    return Question(
        name,
        f"fit FILE {words}",
        {**body, "more": True},
        lambda world, given, _: world.fit(given, count or None, most=count is None, more=True),
        answer,
        objects,
    )


_SPARK: JsonObject = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "serve"},
    "spec": {"executor": {"instances": 50, "template": {"spec": _spec("two")}}},
}
_LEADER_WORKER_SET: JsonObject = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "serve"},
    "spec": {"replicas": 50, "leaderWorkerTemplate": {"size": 4, "workerTemplate": {"spec": _spec("two")}}},
}
_LEFT_OUT = {"leftOut": ["SparkApplication default/serve"]}
_FLAT: JsonObject = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "flat"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu", "count": 2}]}}},
}
_COMPUTE_DOMAIN: JsonObject = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "ComputeDomain",
    "metadata": {"name": "dom"},
    "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "channel"}}},
}


def _with(template_name: str = "", **spec: Any) -> JsonObject:
    pod = _pod(template_name)
    pod["metadata"]["labels"] = {"app": "p"}
    pod["spec"] |= spec
    return pod


def _large_pod(priority_class: str) -> JsonObject:
    """Return a pod that needs all CPUs of n0 or n1."""
    pod = _pod(requests={"cpu": 8})
    pod["spec"] |= {"priorityClassName": priority_class} if priority_class else {}
    return pod


def _ports() -> JsonObject:
    pod = _pod()
    pod["spec"] |= {"hostNetwork": True}
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    return pod


def _elsewhere(obj: JsonObject) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "other"}}


_SELF = {"labelSelector": {"matchLabels": {"app": "p"}}, "topologyKey": "kubernetes.io/hostname"}
_APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_SELF]}}
_TOGETHER = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_SELF]}}
_SPREAD = [{**_SELF, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
_ON_N1 = {"kubernetes.io/hostname": "n1"}
_CLAIM: JsonObject = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "ResourceClaim",
    "metadata": {"name": "mine"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]}},
}
_SHARED = [{"name": "gpu", "resourceClaimName": "mine"}]

_PODS = [
    _fit("a node's name", [_with("one", nodeSelector=_ON_N1)], {"fits": 2}),
    _fit("a pod that is on a node", [_with("one", nodeName="n0")], {"fits": 5}),
    _fit("one pod a node", [_with(affinity=_APART)], {"fits": 3}),
    _fit("all on one node", [_with("one", affinity=_TOGETHER)], {"fits": 2}),
    _fit("an even spread", [_with("one", topologySpreadConstraints=_SPREAD)], {"fits": 5}),
    _fit("another scheduler", [_with(schedulerName="kueue")], {"fits": 0, "wanted": 1}, count=0),
    _fit("ports of the host", [_ports()], {"fits": 3}),
    _fit("a scheduling gate", [_with(schedulingGates=[{"name": "g"}])], {"fits": 0, "wanted": 1}, count=0),
    _fit("a claim that copies share", [_CLAIM, _with(resourceClaims=_SHARED)], {"fits": 2}, count=2),
    _fit("a template of another namespace", [_elsewhere(_pod("one"))], {"fits": 0}),
    _fit("another namespace", [_elsewhere(template("t", 2)), _elsewhere(_pod("t"))], {"fits": 2}),
    _fit("a claim template that is replaced", [template("one", 2), _pod("one")], {"fits": 2}),
    _fit("a ReplicaSet", [_workload("ReplicaSet", replicas=4)], {"fits": 4, "wanted": 4}, count=0),
    _fit("a list", [{"apiVersion": "v1", "kind": "List", "items": [_pod("two")]}], {"fits": 2}),
    _fit("no pods of a workload", [_workload("Deployment", replicas=0), _pod("two")], {"fits": 2}),
    _fit(
        "a CPU of an init container",
        [_with(initContainers=[_spec(requests={"cpu": 4})["containers"][0] | {"name": "i"}])],
        {"fits": 3},
    ),
]


def _within(namespace: str, obj: JsonObject) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


_LIMITS: JsonObject = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "l"},
    "spec": {"limits": [{"type": "Container", "default": {"cpu": "3"}}]},
}
_SILVER: JsonObject = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "silver"},
    "value": 10,
}
_SIX = _within("defaulted", _workload("Deployment", "", replicas=6))

_ADMITTED = [
    _fit("preemption", [_large_pod("urgent")], {"fits": 1, "wanted": 1}, count=0),
    _fit("preemption by a class of the file", [_SILVER, _large_pod("silver")], {"fits": 1}, count=0),
    _fit("no preemption", [_large_pod("")], {"fits": 0}, count=0),
    _fit("no such priority class", [_large_pod("none")], {"fits": 0}, count=0),
    _fit("a runtime class", [_with(runtimeClassName="heavy")], {"fits": 5}),
    _fit("no such runtime class", [_with(runtimeClassName="none")], {"fits": 0, "wanted": 1}, count=0),
    _fit("default requests of a namespace", [_within("defaulted", _pod())], {"fits": 5}),
    _fit("default requests of the file", [_LIMITS, _pod()], {"fits": 5}),
    _fit("a workload with default requests", [_SIX], {"fits": 5}, count=0),
    _fit("a quota", [_within("rationed", _pod())], {"fits": 2}),
    _fit("a quota of three", [_within("rationed", _pod())], {"fits": 2, "wanted": 3}, count=3),
]

_FITS = [
    _fit("one GPU", [_pod("one")], {"fits": 5, "copies": 5}),
    _fit("two GPUs", [_pod("two")], {"fits": 2}),
    _fit("three GPUs", [template("three", 3), _pod("three")], {"fits": 0}),
    _fit("a big GPU", [template("big", 1, "big"), _pod("big")], {"fits": 2}),
    _fit("two big GPUs", [template("big", 2, "big"), _pod("big")], {"fits": 1}),
    _fit("no such class", [template("none", 1, "none"), _pod("none")], {"fits": 0}),
    _fit("no such template", [_pod("none")], {"fits": 0}),
    _fit("five of five", [_pod("one")], {"fits": 5, "wanted": 5, "more": 0}, count=5),
    _fit("five of six", [_pod("one")], {"fits": 5, "wanted": 6, "copies": 5}, count=6),
    _fit("three and two more", [_pod("one")], {"fits": 3, "wanted": 3, "more": 2}, count=3),
    _fit("one as it is", [_pod("one")], {"fits": 1, "wanted": 1, "more": 4}, count=0),
    _fit("three CPUs", [_pod(requests={"cpu": "3"})], {"fits": 5}),
    _fit("three CPUs as a number", [_pod(requests={"cpu": 3})], {"fits": 5}),
    _fit("limits of three CPUs", [_pod(limits={"cpu": "3"})], {"fits": 5}),
    _fit("three CPUs and a GPU", [_pod("one", requests={"cpu": "3"})], {"fits": 4}),
    _fit("an extended resource", [_pod(limits={"example.com/gpu": 2})], {"fits": 2}),
    _fit("a template of v1beta1", [_FLAT, _pod("flat")], {"fits": 2}),
    _fit("a Deployment", [_workload("Deployment", replicas=3)], {"fits": 3, "wanted": 3}, count=0),
    _fit("a Deployment of one", [_workload("Deployment")], {"fits": 1, "wanted": 1}, count=0),
    _fit("a StatefulSet", [_workload("StatefulSet", replicas=6)], {"fits": 5, "wanted": 6}, count=0),
    _fit("a DaemonSet", [_workload("DaemonSet")], {"fits": 3, "wanted": 3}, count=0),
    _fit("a Job", [_workload("Job", group="batch/v1", parallelism=4)], {"fits": 4, "wanted": 4}, count=0),
    _fit("a CronJob", [_cron_job(2)], {"fits": 2, "wanted": 2}, count=0),
    _fit("two Deployments of two", [_workload("Deployment", replicas=2)], {"copies": 2, "fits": 4}, count=2),
    _fit("an unknown workload", [_SPARK, _pod("one")], {"fits": 5, **_LEFT_OUT}),
    _fit(
        "an unknown workload that is too much",
        [_SPARK, _pod("one")],
        {"fits": 5, **_LEFT_OUT},
        count=6,
    ),
    _fit("groups of leaders and workers", [_LEADER_WORKER_SET], {"fits": 2, "wanted": 200}, count=0),
    _fit("a compute domain without its class", [_COMPUTE_DOMAIN, _pod("channel")], {"fits": 0}),
]


def _moves(name: str, words: str, nodes: list[str], moved: int, stuck: int, **more: Any) -> Question:
    question = words.split()[0]
    return Question(
        name,
        words,
        {"nodes": nodes} if nodes else {},
        lambda world, objects, folder: getattr(world, question)(*nodes),
        {"moved": moved, "stuck": stuck, **more},
    )


def _taint(name: str, target: str, effect: str, moved: int, stuck: int) -> Question:
    kind, _, rest = target.partition("/")
    place: JsonObject = {"node": rest}
    if kind == "device":
        place = dict(zip(("driver", "pool", "device"), rest.split("/"), strict=True))
    return Question(
        name,
        f"taint {target} sick=very:{effect}",
        {"key": "sick", "value": "very", "effect": effect, **place},
        lambda world, objects, folder: world.taint(target, f"sick=very:{effect}"),
        {"moved": moved, "stuck": stuck},
    )


_DEVICE = "device/gpu.example.com"
_MOVES = [
    _moves("drain n0", "drain n0", ["n0"], 2, 0),
    _moves("drain n1", "drain n1", ["n1"], 1, 1),
    _moves("drain n2", "drain n2", ["n2"], 0, 0),
    _moves("drain n0 and n2", "drain n0 n2", ["n0", "n2"], 1, 1),
    _moves("drain twice the same", "drain n0 n0", ["n0", "n0"], 2, 0),
    _moves("remove n0", "remove n0", ["n0"], 2, 0),
    _moves("remove n1", "remove n1", ["n1"], 1, 1),
    _moves("remove n2", "remove n2", ["n2"], 0, 0),
    _moves("upgrade n2 and n0", "upgrade n0 n2", ["n0", "n2"], 2, 0, order=["n2", "n0"]),
    _moves("upgrade all", "upgrade", [], 4, 1, order=["n2", "n0", "n1"]),
    _taint("taint n0", "node/n0", "NoExecute", 2, 0),
    _taint("taint n1", "node/n1", "NoExecute", 1, 1),
    _taint("taint n0 for new pods", "node/n0", "NoSchedule", 0, 0),
    _taint("taint a device of web", f"{_DEVICE}/n0/gpu-0", "NoExecute", 1, 0),
    _taint("taint a device of train", f"{_DEVICE}/n0/gpu-1", "NoExecute", 1, 0),
    _taint("taint a free device", f"{_DEVICE}/n0/gpu-3", "NoExecute", 0, 0),
    _taint("taint a device for new claims", f"{_DEVICE}/n0/gpu-0", "NoSchedule", 0, 0),
    _taint("taint the device of lone", f"{_DEVICE}/n1/gpu-1", "NoExecute", 0, 1),
]


def _pack(name: str, objects: list[JsonObject], answer: JsonObject) -> Question:
    return Question(
        name,
        "pack --for FILE" if objects else "pack",
        {},
        lambda world, given, _: world.pack(given or None),
        answer,
        objects,
    )


def _nodes(name: str, count: int, cost: float) -> Question:
    return Question(
        name,
        f"nodes FILE --catalog TYPES --count {count}",
        {"types": [{"name": "four", "price": 3, "objects": node_type()}], "count": count},
        lambda world, given, folder: world.nodes(folder / "types.json", given, count),
        {"cost": cost, "optimal": True, "wanted": count, "unplaced": []},
        [_pod("one")],
    )


def _change(name: str, objects: list[JsonObject], answer: JsonObject) -> Question:
    return Question(name, "change FILE", {}, lambda world, given, _: world.change(given), answer, objects)


def _class(expression: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _group(count: int) -> list[JsonObject]:
    """Return a gang of that many pods, each with a GPU."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": count}}},
    }
    pods = [_pod("one") for _ in range(count)]
    for number, pod in enumerate(pods):
        pod["metadata"] = {"name": f"member-{number}"}
        pod["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    return [group, *pods]


_OTHERS = [
    _fit("a gang of two", _group(2), {"copies": 2, "fits": 4}),
    _fit("a gang of five", _group(5), {"fits": 5, "wanted": 5}, count=0),
    _fit("a gang of six", _group(6), {"fits": 0, "wanted": 6}, count=0),
    _pack("pack", [], {"stranded": {}, "waiting": False}),
    _pack("room that is there", [_pod("two")], {"room": {"found": True, "moves": 0}}),
    _pack("room for three", [template("three", 3), _pod("three")], {"room": {"found": True, "moves": 1}}),
    _pack("room for four", [template("four", 4), _pod("four")], {"room": {"found": True, "moves": 2}}),
    _pack("room besides an unknown workload", [_SPARK, _pod("two")], {"waiting": False, **_LEFT_OUT}),
    _nodes("nodes for five", 5, 0),
    _nodes("nodes for six", 6, 3),
    _nodes("nodes for nine", 9, 3),
    _nodes("nodes for ten", 10, 6),
    _change("a class without devices", [_class("false")], {"pods": 4, "before": 4, "after": 0}),
    _change(
        "the same class",
        [_class('device.driver == "gpu.example.com"')],
        {"before": 4, "after": 4, "changed": []},
    ),
    _change("a template of nine GPUs", [template("two", 9)], {"pods": 4, "before": 4, "after": 3}),
    _change("a Deployment", [_workload("Deployment", replicas=9)], {"before": 4, "after": 4, "changed": []}),
    _change("a change of an unknown kind", [_SPARK], {"before": 4, "after": 4, **_LEFT_OUT}),
]


_WAITING = [
    _fit("one GPU", [_pod("one")], {"fits": 5, "waiting": 1}),
    _moves("drain n2", "drain n2", ["n2"], 0, 0),
    _moves("drain n0", "drain n0", ["n0"], 2, 0),
    Question(
        "nodes",
        "nodes --catalog TYPES",
        {"types": [{"name": "four", "price": 3, "objects": node_type()}]},
        lambda world, given, folder: world.nodes(folder / "types.json"),
        {"cost": 3, "optimal": True, "wanted": 1},
    ),
    _pack("pack", [], {"waiting": True, "shapes": {"default/late": 1}}),
    _change("the same class", [_class('device.driver == "gpu.example.com"')], {"pods": 5, "changed": []}),
    _change("fewer GPUs", [{**_CLAIM, "metadata": {"name": "late"}}], {"pods": 5, "after": 5}),
]


@pytest.mark.parametrize("asked", sample(_WAITING, 4), ids=str)
def test_each_interface_of_the_planner_counts_pending_pods(
    four_where_a_pod_waits: Doors, asked: Question, capsys: pytest.CaptureFixture[str]
) -> None:
    test_each_interface_of_the_planner_gives_the_answer_computed_by_hand(
        four_where_a_pod_waits, asked, capsys
    )


_REFUSED = [
    (_moves("drain", "drain none", ["none"], 0, 0), 'there is no node "none"'),
    (_moves("remove", "remove n0 none", ["n0", "none"], 0, 0), 'there is no node "none"'),
    (_moves("upgrade", "upgrade none", ["none"], 0, 0), 'there is no node "none"'),
    (_taint("taint a node", "node/none", "NoExecute", 0, 0), 'there is no node "none"'),
    (
        _taint("taint a device", f"{_DEVICE}/n0/none", "NoExecute", 0, 0),
        "there is no device gpu.example.com/n0/none",
    ),
    (_fit("a template alone", [template("one")], {}), "no pods, and nothing that makes pods"),
    (
        _fit("an unknown workload alone", [_SPARK], {}),
        "no pods, and nothing that makes pods; of unknown kinds: SparkApplication default/serve",
    ),
    (_fit("a broken pod", [{**_pod(), "spec": {"containers": "none"}}], {}), "a Pod cannot be read: "),
]


@pytest.mark.parametrize(
    ("asked", "message"), _REFUSED, ids=lambda each: str(each) if isinstance(each, Question) else ""
)
def test_each_interface_of_the_planner_rejects_invalid_questions_with_the_same_message(
    four: Doors, asked: Question, message: str
) -> None:
    assert [message in each for each in four.refusals(asked)] == [True] * 4


@pytest.mark.parametrize("asked", sample([*_FITS, *_PODS, *_ADMITTED, *_MOVES, *_OTHERS], 20), ids=str)
def test_each_interface_of_the_planner_gives_the_answer_computed_by_hand(
    four: Doors, asked: Question, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = four.command_line(asked, capsys)
    assert _select_fields(answer, asked.answer) == asked.answer
    assert four.http(asked) == answer
    assert four.console(asked) == answer
    assert four.world(asked) == answer
    assert (code == 0) == _is_yes(answer)


def _select_fields(answer: JsonObject, wanted: JsonObject) -> JsonObject:
    found = {name: answer[name] for name in wanted}
    if found.get("room"):
        found["room"] = {"found": found["room"]["found"], "moves": len(found["room"]["moves"])}
    return found


def test_replaying_a_timeline_gives_the_waiting_times_computed_by_hand(
    four: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    # Only two pods of two GPUs fit at a time: two pods wait ten seconds.
    arrivals = [(0, 10, "a"), (0, 10, "b"), (0, 10, "c"), (5, 15, "d")]
    body = [
        {"at": at, "lasts": lasts, "object": {**_pod("two"), "metadata": {"name": name}}}
        for at, lasts, name in arrivals
    ]
    asked = Question(
        "replay",
        "replay TIMES --shapes FILE",
        {"arrivals": body, "objects": []},
        lambda world, given, folder: world.replay(folder / "times.csv", given),
        {},
        [_pod("two")],
    )
    code, answer = four.command_line(asked, capsys)
    (course,) = answer["courses"]
    assert (code, course["placed"], course["waits"]["longest"]) == (0, 4, 10)
    assert four.http(asked) == answer
    assert four.console(asked) == answer
    assert four.world(asked) == course


def _is_yes(answer: JsonObject) -> bool:
    """True if the command line exits with 0 for this answer."""
    stranded = answer.get("stranded") and answer["room"] is None
    if answer.get("leftOut") or answer.get("stuck") or stranded:
        return False
    if answer.get("unplaced"):
        # The question was for as many as fit, and some do.
        return answer["fits"] > 0 and not answer["wanted"]
    return bool(answer.get("after", 1) >= answer.get("before", 1))


def test_the_error_for_an_unknown_scheduler_name_lists_the_known_ones(
    four: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _fit("another", [_with(schedulerName="kueue")], {}, count=0)
    (place,) = four.command_line(other, capsys)[1]["pods"]
    served = "only for: default-scheduler"
    assert place["message"] == f'no profile of the scheduler is for schedulerName "kueue", {served}'


def test_the_exit_code_of_a_plan_is_3_if_workloads_were_left_out(
    four: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    known = _fit("known", [_SPARK, _pod("one")], {}, count=5)
    code, answer = four.command_line(known, capsys)
    assert (code, answer["fits"]) == (3, 5)
    assert any("SparkApplication default/serve" in line for line in answer["uncertain"])
    alone = _fit("alone", [_SPARK], {})
    with pytest.raises(UserError) as refused:
        four.command_line(alone, capsys)
    assert refused.value.code == 3
    too_many = _fit("too many", [_SPARK, _pod("one")], {}, count=6)
    assert four.command_line(too_many, capsys)[0] == 1
