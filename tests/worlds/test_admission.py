"""Pods of a question are admitted as by the API server of the cluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dra_cli.commandline import run
from dra_shared.jsontypes import JsonObject
from dralab import World

Ask = Callable[[list[JsonObject], list[JsonObject]], JsonObject]


def _obj(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> JsonObject:
    space = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **space}, **more}


def _with_uid(obj: JsonObject) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "uid": f"uid-{obj['metadata']['name']}"}}


def _node(name: str = "node-0", cpu: str = "128", labels: JsonObject | None = None) -> JsonObject:
    amounts = {"cpu": cpu, "memory": "1Ti", "pods": "110"}
    node = _obj("v1", "Node", name, status={"allocatable": amounts, "capacity": amounts})
    node["metadata"]["labels"] = labels or {}
    return _with_uid(node)


def _pod(name: str, cpu: str = "", **spec: Any) -> JsonObject:
    container: JsonObject = {"name": "main", "image": "x"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return _obj("v1", "Pod", name, "default", spec={"containers": [container], **spec})


def _running_pod(name: str, cpu: str, **spec: Any) -> JsonObject:
    made = _pod(name, cpu, nodeName="node-0", schedulerName="default-scheduler", **{"priority": 0, **spec})
    return _with_uid(made | {"status": {"phase": "Running"}})


def _class(name: str, value: int, **more: Any) -> JsonObject:
    return _obj("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **more)


_GOLD = _class("gold", 1000)


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return a function that asks the command line and World whether pods fit, and compares the answers."""

    def ask_both(world: list[JsonObject], wanted: list[JsonObject]) -> JsonObject:
        dump, file = tmp_path / "dump.json", tmp_path / "wanted.json"
        dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": world}))
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}))
        run("plan", ["fit", str(file), "--from", str(dump), "-o", "json"])
        answer: JsonObject = json.loads(capsys.readouterr().out)
        same = World.load(dump).fit(wanted)
        assert (same.fits, list(same.uncertain)) == (answer["fits"], answer["uncertain"])
        assert [pod.message for pod in same.pods] == [pod["message"] for pod in answer["pods"]]
        return answer

    return ask_both


@pytest.mark.parametrize("kind", ["Pod", "Job"])
def test_priority_classes_of_the_cluster_are_applied(ask: Ask, kind: str) -> None:
    lows = [_running_pod("low-0", "60"), _running_pod("low-1", "60")]
    pod = _pod("vip", "50", priorityClassName="gold")
    job = _obj("batch/v1", "Job", "vip", "default", spec={"template": {"spec": pod["spec"]}})
    answer = ask([_node(), _with_uid(_GOLD), *lows], [pod if kind == "Pod" else job])
    assert (answer["fits"], len(answer["preempted"]), answer["uncertain"]) == (1, 1, [])


def test_the_default_priority_class_of_the_cluster_is_applied(ask: Ask) -> None:
    classes = [_with_uid(_class("usual", 10, globalDefault=True)), _with_uid(_GOLD)]
    assert ask([_node(), *classes, _running_pod("low", "100")], [_pod("p", "50")])["fits"] == 1


def test_a_pod_of_a_non_preempting_class_preempts_nothing(ask: Ask) -> None:
    never = _with_uid(_class("calm", 1000, preemptionPolicy="Never"))
    answer = ask([_node(), never, _running_pod("low", "100")], [_pod("p", "50", priorityClassName="calm")])
    assert (answer["fits"], answer["preempted"]) == (0, {})


def test_an_unknown_priority_class_is_rejected(ask: Ask) -> None:
    answer = ask([_node(), _with_uid(_GOLD)], [_pod("p", "1", priorityClassName="silver")])
    message = 'pods "p" is forbidden: no PriorityClass with name silver was found'
    assert [pod["message"] for pod in answer["pods"]] == [message]
    assert answer["unplaced"]["message"] == message
    assert answer["uncertain"] == []


def test_a_missing_priority_class_is_assumed_if_the_dump_has_no_priority_classes(ask: Ask) -> None:
    other = _running_pod("other", "1", priority=500, priorityClassName="gold")
    answer = ask([_node(), other, _running_pod("low", "100")], [_pod("p", "50", priorityClassName="gold")])
    assert answer["fits"] == 1
    assert answer["uncertain"] == [
        "there are no PriorityClasses, but objects refer to them: default/other (gold); "
        "new pods get the priority that pods of the same class have",
        "PriorityClass gold is missing, to which Pod default/p refers; its value counts as 500",
    ]
    answer = ask([_node()], [_pod("p", "1", priorityClassName="system-node-critical")])
    assert (answer["fits"], answer["uncertain"]) == (1, [])


def test_priority_classes_of_the_manifests_replace_those_of_the_cluster(ask: Ask) -> None:
    low = _running_pod("low", "100", priority=2000)
    wanted = [_class("gold", 3000), _pod("p", "50", priorityClassName="gold")]
    assert ask([_node(), _with_uid(_GOLD), low], wanted)["fits"] == 1


def _limits(*items: JsonObject) -> JsonObject:
    return _with_uid(_obj("v1", "LimitRange", "limits", "default", spec={"limits": list(items)}))


def test_default_requests_of_a_limit_range_are_applied(ask: Ask) -> None:
    limits = _limits({"type": "Container", "defaultRequest": {"cpu": "10"}, "default": {"cpu": "10"}})
    answer = ask([_node(cpu="25"), limits], [_pod("a"), _pod("b"), _pod("c")])
    assert answer["fits"] == 2
    assert "Insufficient cpu" in answer["pods"][2]["message"]


def test_pods_beyond_a_limit_range_are_rejected(ask: Ask) -> None:
    limits = _limits({"type": "Container", "max": {"cpu": "4"}})
    wanted = _pod("p")
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "8"}}
    (pod,) = ask([_node(), limits], [wanted])["pods"]
    assert pod["message"] == ('pods "p" is forbidden: maximum cpu usage per Container is 4, but limit is 8')


def _runtime_class(**more: Any) -> JsonObject:
    return _with_uid(_obj("node.k8s.io/v1", "RuntimeClass", "kata", handler="kata", **more))


def test_overhead_and_nodes_of_a_runtime_class_are_applied(ask: Ask) -> None:
    kata = _runtime_class(
        overhead={"podFixed": {"cpu": "5"}}, scheduling={"nodeSelector": {"runtime": "kata"}}
    )
    nodes = [_node("node-0", "100"), _node("node-1", "12", {"runtime": "kata"})]
    pods = [_pod(name, "1", runtimeClassName="kata") for name in "abc"]
    answer = ask([*nodes, kata], pods)
    assert [pod["node"] for pod in answer["pods"]] == ["node-1", "node-1", ""]


def test_an_unknown_runtime_class_is_rejected_or_named(ask: Ask) -> None:
    wanted = [_pod("p", "1", runtimeClassName="gvisor")]
    answer = ask([_node(), _runtime_class()], wanted)
    assert answer["pods"][0]["message"] == (
        'pods "p" is forbidden: pod rejected: RuntimeClass "gvisor" not found'
    )
    answer = ask([_node()], wanted)
    assert (answer["fits"], len(answer["uncertain"])) == (1, 1)
    assert "RuntimeClass gvisor is missing, to which Pod default/p refers" in answer["uncertain"][0]


def test_an_unknown_service_account_is_rejected(ask: Ask) -> None:
    account = _with_uid(_obj("v1", "ServiceAccount", "default", "default"))
    (pod,) = ask([_node(), account], [_pod("p", "1", serviceAccountName="robot")])["pods"]
    assert pod["message"] == (
        'pods "p" is forbidden: error looking up service account default/robot: '
        'serviceaccount "robot" not found'
    )
    assert ask([_node()], [_pod("p", "1", serviceAccountName="robot")])["fits"] == 1


def test_missing_namespaces_are_named_and_terminating_ones_reject_pods(ask: Ask) -> None:
    wanted, prod = _pod("p", "1"), _with_uid(_obj("v1", "Namespace", "prod"))
    wanted["metadata"]["namespace"] = "team"
    answer = ask([_node(), prod], [wanted])
    assert (answer["fits"], answer["uncertain"]) == (
        1,
        ["namespaces that do not exist: team; pods count as if they did"],
    )
    space = _obj("v1", "Namespace", "team")
    assert ask([_node(), prod], [space, wanted])["uncertain"] == []
    gone = _with_uid(space)
    gone["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert ask([_node(), gone], [wanted])["pods"][0]["message"] == (
        'pods "p" is forbidden: unable to create new content in namespace team because it is being terminated'
    )


def test_a_quota_is_checked_after_the_limit_range(ask: Ask) -> None:
    limits = _limits({"type": "Container", "defaultRequest": {"cpu": "2"}})
    quota = _with_uid(_obj("v1", "ResourceQuota", "q", "default", spec={"hard": {"requests.cpu": "3"}}))
    answer = ask([_node(), limits, quota], [_pod("a"), _pod("b")])
    assert answer["fits"] == 1
    assert answer["pods"][1]["message"] == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=2, '
        "limited: requests.cpu=3"
    )


def test_pods_of_manifests_in_the_world_have_the_priority_of_their_class(ask: Ask) -> None:
    """A world may consist of manifests, whose pods no server has given a priority."""
    low = _pod("low", "100", nodeName="node-0", priorityClassName="bronze")
    classes = [_class("bronze", 5), _class("gold", 10), _class("tin", 1)]
    assert ask([_node(), *classes, low], [_pod("p", "50", priorityClassName="gold")])["fits"] == 1
    assert ask([_node(), *classes, low], [_pod("p", "50", priorityClassName="tin")])["fits"] == 0


def test_pods_with_the_priority_of_another_cluster_are_admitted_again(ask: Ask) -> None:
    """A pod of another cluster has a priority that the class does not have in this one."""
    pod = _with_uid(_pod("p", "50", priorityClassName="gold", priority=7, nodeName="elsewhere"))
    assert ask([_node(), _with_uid(_GOLD), _running_pod("low", "100")], [pod])["fits"] == 1


def test_the_error_message_names_the_rejected_copy_of_a_pod() -> None:
    world = World().with_objects([_GOLD])
    answer = world.fit(_pod("p", "1", priorityClassName="silver"), 2)
    assert [pod.message.partition(" is")[0] for pod in answer.pods] == ['pods "p-1"', 'pods "p-2"']


def test_limits_of_the_given_namespace_are_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = _limits({"type": "Container", "defaultRequest": {"cpu": "200"}})
    limits["metadata"]["namespace"] = "team"
    dump, file = tmp_path / "dump.json", tmp_path / "wanted.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [_node(), limits]}))
    file.write_text(json.dumps(_pod("p")))
    assert run("plan", ["fit", str(file), "--from", str(dump)]) == 0
    assert run("plan", ["fit", str(file), "--from", str(dump), "-n", "team"]) == 1
    capsys.readouterr()


def test_rejected_pods_are_explained_in_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, file = tmp_path / "dump.json", tmp_path / "wanted.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [_node(), _with_uid(_GOLD)]}))
    file.write_text(json.dumps(_pod("p", "1", priorityClassName="silver")))
    assert run("plan", ["fit", str(file), "--max", "--from", str(dump)]) == 1
    assert "no PriorityClass with name silver was found" in capsys.readouterr().out


def test_a_claim_that_a_quota_rejects_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = _with_uid(_pod("waits", schedulerName="default-scheduler", priority=0))
    waits["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    template = _with_uid(_obj("resource.k8s.io/v1", "ResourceClaimTemplate", "gpu", "default", spec=spec))
    hard = {"count/resourceclaims.resource.k8s.io": "0"}
    quota = _with_uid(_obj("v1", "ResourceQuota", "q", "default", spec={"hard": hard}))
    dump = tmp_path / "dump.json"
    dump.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [_node(), template, quota, waits]})
    )
    run("explain", ["pod/waits", "--from", str(dump)])
    text = capsys.readouterr().out
    assert "is forbidden: exceeded quota: q, requested: count/resourceclaims.resource.k8s.io=1" in text
    assert "exceeded quota: q" in str(World.load(dump).explain("waits"))
