"""``plan pack``: stranded devices, remaining capacity, and the fewest moves that make room."""

import json
from pathlib import Path
from typing import Any

import pytest
from dra_cli.commandline import run
from dra_shared.jsontypes import JsonObject

from tests.scheduler.objects import claim_json, class_json, node_json, pod_json, slice_json
from tests.scheduler.plan.worlds import template_json

_VERSIONS = {
    "DeviceClass": "resource.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
}


def _dump(path: Path, *objects: JsonObject) -> str:
    items = [{"apiVersion": _VERSIONS.get(obj["kind"], "v1"), **obj} for obj in objects]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _pod_with_devices(name: str, node: str, *devices: int, **meta: Any) -> list[JsonObject]:
    """Return a pod of a ReplicaSet on the node, and its claim for these devices."""
    results = [
        {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": f"gpu-{i}"} for i in devices
    ]
    claim = claim_json(name, request={"count": len(devices)})
    claim["status"] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
    }
    pod = pod_json(name, claims={"gpu": name}, nodeName=node)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    pod["metadata"] |= {"ownerReferences": [owner], **meta}
    pod["status"] = {"phase": "Running"}
    return [claim, pod]


def _fleet(*sizes: int) -> list[JsonObject]:
    nodes = [obj for i, size in enumerate(sizes) for obj in (node_json(f"n{i}"), slice_json(f"n{i}", size))]
    return [class_json(), *nodes]


def _write_request(path: Path, count: int) -> str:
    pod = pod_json("new", claims={})
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "wide"}]
    return _dump(path, template_json("wide", count=count), pod)


def _ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, JsonObject]:
    code = run("plan", ["pack", *words, "-o", "json"])
    answer: JsonObject = json.loads(capsys.readouterr().out)
    return code, answer


def test_devices_that_no_pending_pod_can_use_are_stranded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of four and one of three devices are allocated, and pending pods request two."""
    waiting = [claim_json("w", request={"count": 2}), pod_json("w", claims={"gpu": "w"})]
    dump = _dump(
        tmp_path / "d",
        *_fleet(4, 2),
        *_pod_with_devices("a", "n0", 0),
        *_pod_with_devices("b", "n1", 0),
        *waiting,
    )
    code, answer = _ask(capsys, "--from", dump)
    # The pending pod is placed first.
    assert (code, answer["shapes"], answer["waiting"]) == (1, {"default/w": 1}, True)
    assert (answer["free"], answer["stranded"]) == ({"gpu": 2}, {"gpu": 2})
    assert [(n["node"], n["stranded"], n["takes"]) for n in answer["nodes"]] == [
        ("n0", {"gpu": 1}, {}),
        ("n1", {"gpu": 1}, {}),
    ]
    assert answer["nodes"][0]["largest"] == [{"class": "gpu", "shape": "gpu", "count": 1, "capacity": {}}]
    run("plan", ["pack", "--from", dump])
    assert capsys.readouterr().out.splitlines()[:4] == [
        "shapes of pods that wait: default/w (1 pod)",
        "free devices: 2 x gpu",
        "stranded, as none of the shapes can use them: 2 x gpu",
        "  n0: could still give 1 x gpu of class gpu",
    ]


def test_stranded_devices_are_judged_by_running_pods_if_none_is_pending(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = _dump(tmp_path / "d", *_fleet(4), *_pod_with_devices("a", "n0", 0))
    code, answer = _ask(capsys, "--from", dump)
    assert (code, answer["waiting"], answer["stranded"]) == (0, False, {})
    assert answer["nodes"][0]["takes"] == {"default/a": 3}


def test_remaining_shares_and_counters_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = slice_json("n0", 1, allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})
    claim = claim_json("w", request={"capacity": {"requests": {"memory": "4Gi"}}})
    waiting = [claim, pod_json("w", claims={"gpu": "w"})]
    dump = _dump(tmp_path / "d", class_json(), node_json("n0"), shared, *waiting)
    _, answer = _ask(capsys, "--from", dump)
    (node,) = answer["nodes"]
    assert node["shares"] == {"gpu.example.com/n0/gpu-0/memory": "2Gi"}
    assert node["takes"] == {"default/w": 1}
    assert node["largest"][0]["capacity"] == {"memory": "6Gi"}


def test_the_fewest_moves_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three devices are requested on one node. That takes one move from n0, or two from n1."""
    held = [
        _pod_with_devices("a", "n0", 0),
        _pod_with_devices("b", "n1", 0),
        _pod_with_devices("c", "n1", 1),
        _pod_with_devices("d", "n2", 0),
    ]
    dump = _dump(tmp_path / "d", *_fleet(3, 4, 2), *(obj for each in held for obj in each))
    code, answer = _ask(capsys, "--from", dump, "--for", _write_request(tmp_path / "w", 3))
    room = answer["room"]
    assert (code, room["found"], room["atLeast"], len(room["moves"])) == (0, True, 1, 1)
    assert room["placed"][0]["node"] == room["moves"][0]["before"]
    # Four free devices need both pods of n1 to move.
    code, answer = _ask(capsys, "--from", dump, "--for", _write_request(tmp_path / "w", 4))
    assert [(m["pod"], m["before"]) for m in answer["room"]["moves"]] == [
        ("default/b", "n1"),
        ("default/c", "n1"),
    ]
    assert answer["room"]["atLeast"] == 2
    # No node has five devices.
    code, answer = _ask(capsys, "--from", dump, "--for", _write_request(tmp_path / "w", 5))
    assert (code, answer["room"]["found"]) == (1, False)
    assert "cannot allocate all claims" in answer["room"]["message"]
    code, answer = _ask(capsys, "--from", dump, "--for", _write_request(tmp_path / "w", 2))
    assert (code, answer["room"]["found"], answer["room"]["moves"]) == (0, True, [])


def test_moves_that_require_further_moves_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pod with two devices on n0 can only move to n1 if the pod there moves to n2."""
    held = [_pod_with_devices("two", "n0", 0, 1), _pod_with_devices("one", "n1", 0)]
    dump = _dump(tmp_path / "d", *_fleet(3, 2, 1), *(obj for each in held for obj in each))
    _, answer = _ask(capsys, "--from", dump, "--for", _write_request(tmp_path / "w", 3))
    assert {m["pod"]: (m["before"], m["after"]) for m in answer["room"]["moves"]} == {
        "default/two": ("n0", "n1"),
        "default/one": ("n1", "n2"),
    }


def test_pods_with_an_exhausted_budget_are_not_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 0},
    }
    held = _pod_with_devices("a", "n0", 0, labels={"app": "x"})
    objects = [*_fleet(2, 1), *held]
    wanted = _write_request(tmp_path / "w", 2)
    _, answer = _ask(capsys, "--from", _dump(tmp_path / "d", *objects), "--for", wanted)
    assert answer["room"]["found"]
    _, answer = _ask(capsys, "--from", _dump(tmp_path / "d", *objects, budget), "--for", wanted)
    assert not answer["room"]["found"]
