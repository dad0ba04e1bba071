"""``plan drain``, ``remove``, ``taint``, ``upgrade`` and ``change``, and their HTML."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dra_cli.commandline import run
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import node_json, slice_json
from tests.worlds.objects import claim, cluster, pod


def _owned_pod(name: str, node: str, kind: str = "ReplicaSet", **more: Any) -> JsonObject:
    made = pod(name, node, name)
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "r", "uid": "r", "controller": True}
    made["metadata"] |= {"ownerReferences": [owner], "labels": {"app": "x"}}
    return made | more


def _allocated_claim(name: str, device: str) -> JsonObject:
    made = claim(name, device)
    made["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    return made


def _with_uid(obj: JsonObject, version: str) -> JsonObject:
    return {"apiVersion": version, **obj, "metadata": {**obj["metadata"], "uid": obj["metadata"]["name"]}}


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """Return a node with two pods that are recreated and one that is not, and another node with room for one."""
    other = [_with_uid(node_json("other"), "v1"), _with_uid(slice_json("other", 1), "resource.k8s.io/v1")]
    node, piece, device_class = cluster(3)[:3]
    pods = [_owned_pod("a", "node-0"), _owned_pod("b", "node-0"), pod("lone", "node-0", "lone")]
    claims = [
        _allocated_claim("a", "gpu-0"),
        _allocated_claim("b", "gpu-1"),
        _allocated_claim("lone", "gpu-2"),
    ]
    return _write_list(tmp_path / "dump.json", [node, piece, device_class, *other, *claims, *pods])


def _write_list(path: Path, items: list[JsonObject]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, JsonObject]:
    code = run("plan", [*words, "-o", "json"])
    answer: JsonObject = json.loads(capsys.readouterr().out)
    return code, answer


def test_plan_change_compares_two_kubernetes_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, piece, device_class = cluster(1)[:3]
    piece["apiVersion"] = "resource.k8s.io/v1"
    piece["spec"]["devices"] = [{"name": "gpu-0", "allowMultipleAllocations": True}]
    waiting = [each for name in "pq" for each in (pod(name, "", name), claim(name))]
    dump = _write_list(tmp_path / "dump.json", [node, piece, device_class, *waiting])
    nothing = _write_list(tmp_path / "nothing.json", [])
    words = ["change", nothing, "--from", dump, "--kubernetes-version", "1.35", "--version-after", "1.37"]
    # A cluster of 1.35 that has such a slice has the gate on.
    assert _ask(capsys, *words)[1]["before"] == 2
    gates = ["--feature-gates", "DRAConsumableCapacity=false", "--gates-after", "DRAConsumableCapacity=true"]
    code, answer = _ask(capsys, *words, *gates)
    assert (code, answer["before"], answer["after"]) == (0, 1, 2)
    assert [each["after"]["devices"] for each in answer["changed"]] == [["gpu.example.com/node-0/gpu-0"]]
    with pytest.raises(UserError, match="nothing is changed"):
        run("plan", ["change", nothing, "--from", dump])


def test_plan_drain_reports_moved_and_stuck_pods(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _ask(capsys, "drain", "node-0", "--from", dump)
    assert (code, answer["moved"], answer["stuck"]) == (1, 1, 2)
    moved, full, lone = answer["moves"]
    assert (moved["pod"], moved["after"], moved["devicesAfter"]) == (
        "default/a",
        "other",
        ["gpu.example.com/other/gpu-0"],
    )
    assert full["stuck"].startswith("0/2 nodes are available: 1 cannot allocate all claims")
    assert "no controller" in lone["stuck"]


def test_pods_whose_disruption_budget_is_exhausted_are_reported_as_stuck(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = json.loads(Path(dump).read_text())["items"]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 0},
    }
    guarded = _write_list(tmp_path / "guarded.json", [*items, budget])
    _, answer = _ask(capsys, "drain", "node-0", "--from", guarded)
    assert [m["pod"] for m in answer["moves"] if "PodDisruptionBudget" in m.get("stuck", "")] == [
        "default/a",
        "default/b",
    ]
    budget["status"] = {"disruptionsAllowed": 1}
    guarded = _write_list(tmp_path / "guarded.json", [*items, budget])
    _, answer = _ask(capsys, "drain", "node-0", "--from", guarded)
    assert answer["moved"] == 1


def test_plan_remove_reports_pods_that_lose_their_node(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _ask(capsys, "remove", "other", "--from", dump)
    assert (code, answer["moved"], answer["stuck"], answer["moves"]) == (0, 0, 0, [])
    _, answer = _ask(capsys, "remove", "node-0", "--from", dump)
    assert [(m["pod"], m.get("after", "")) for m in answer["moves"]] == [
        ("default/a", "other"),
        ("default/b", ""),
        ("default/lone", ""),
    ]


def test_plan_taint_reports_evicted_pods(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = "device/gpu.example.com/node-0/gpu-0"
    code, answer = _ask(capsys, "taint", device, "sick:NoExecute", "--from", dump)
    assert (code, [(m["pod"], m["after"]) for m in answer["moves"]]) == (0, [("default/a", "other")])
    _, answer = _ask(capsys, "taint", device, "sick:NoSchedule", "--from", dump)
    assert answer["moves"] == []
    _, answer = _ask(capsys, "taint", "node/node-0", "x=y:NoExecute", "--from", dump)
    assert (answer["moved"], answer["stuck"]) == (1, 2)
    for words in (["node/none", "x:NoExecute"], ["node/node-0", "x"], ["device/a/b", "x:NoExecute"]):
        with pytest.raises(UserError):
            run("plan", ["taint", *words, "--from", dump])


def test_plan_upgrade_orders_nodes_by_the_number_of_stuck_pods(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, answer = _ask(capsys, "upgrade", "--from", dump)
    assert answer["order"] == ["other", "node-0"]
    assert (answer["moved"], answer["stuck"]) == (1, 2)


def test_plan_change_reports_pods_that_no_longer_fit(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stricter = cluster()[2]
    stricter["spec"]["selectors"][0]["cel"]["expression"] = 'device.attributes["gpu.example.com"].index == 0'
    file = _write_list(tmp_path / "class.json", [stricter])
    code, answer = _ask(capsys, "change", file, "--from", dump)
    assert (code, answer["pods"], answer["before"], answer["after"]) == (1, 3, 3, 2)
    assert {each["after"].get("node", "") for each in answer["changed"]} >= {""}
    same = _write_list(tmp_path / "same.json", [cluster()[2]])
    code, answer = _ask(capsys, "change", same, "--from", dump)
    assert (code, answer["changed"]) == (0, [])


def test_plan_change_compares_scheduler_configurations(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config = tmp_path / "config.yaml"
    config.write_text(
        f"{head}profiles:\n- plugins:\n    multiPoint:\n      disabled: [{{name: NodeAffinity}}]\n"
    )
    nothing = _write_list(tmp_path / "nothing.json", [])
    code, answer = _ask(capsys, "change", nothing, "--from", dump, "--config-after", str(config))
    assert (code, answer["before"], answer["after"]) == (0, 3, 3)
    config.write_text(f"{head}profiles: 7\n")
    with pytest.raises(UserError, match="config"):
        run("plan", ["drain", "node-0", "--from", dump, "--config", str(config)])


def test_the_answer_is_printed_as_text_and_html(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", ["drain", "node-0", "--from", dump])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "1 pod moves, 2 stuck",
        "  default/a from node-0 to other: gpu.example.com/other/gpu-0",
    ]
    run("plan", ["drain", "node-0", "--from", dump, "-o", "html"])
    html = capsys.readouterr().out
    new = 'class="d new" style="width:100.0%" title="gpu.example.com/other/gpu-0: default/a"'
    assert new in html
    assert (
        'class="d left" style="width:100.0%" title="gpu.example.com/node-0/gpu-0: free, before: default/a"'
        in html
    )
    assert "src=" not in html
    assert "href=" not in html


def test_nodes_to_drain_are_selected_by_labels(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = _ask(capsys, "drain", "node-0", "--from", dump)
    objects = json.loads(Path(dump).read_text())
    for item in objects["items"]:
        if item["kind"] == "Node" and item["metadata"]["name"] == "node-0":
            item["metadata"]["labels"] = {**item["metadata"].get("labels", {}), "pool": "old"}
    _write_list(Path(dump), objects["items"])
    assert _ask(capsys, "drain", "-l", "pool=old", "--from", dump) == named
    assert _ask(capsys, "remove", "--selector", "pool in (old)", "--from", dump)[1]["moves"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the nodes to drain, or select them with --selector"),
        (["node-0", "-l", "a=b"], "cannot specify both a node name and a --selector option"),
        (["-l", "pool=none"], "no node has the labels pool=none"),
        (["-l", "a in"], "--selector: "),
    ],
)
def test_missing_nodes_are_an_error(dump: str, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run("plan", ["drain", *words, "--from", dump])


def test_free_devices_can_be_printed_as_yaml(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("free", ["--from", dump, "-o", "json"])
    expected = json.loads(capsys.readouterr().out)
    run("free", ["--from", dump, "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == expected
