"""``plan nodes``: the nodes to buy so that all pending pods fit."""

import json
from pathlib import Path

import pytest
from dra_cli.commandline import run
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from tests.worlds.objects import claim, cluster, pod

_POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers: [{name: main, image: x, resources: {requests: {cpu: CPU}, claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: TEMPLATE}]
"""
_TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: NAME}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.nvidia.com, count: COUNT}}]}}}
"""


def _pods(path: Path, **pods: int) -> str:
    texts = [
        _TEMPLATE.replace("NAME", f"of-{n}").replace("COUNT", str(n)) for n in sorted(set(pods.values()))
    ]
    texts += [
        _POD.replace("NAME", name).replace("TEMPLATE", f"of-{n}").replace("CPU", "1")
        for name, n in pods.items()
    ]
    path.write_text("---".join(texts))
    return str(path)


def _catalog(path: Path, *types: JsonObject) -> str:
    path.write_text(json.dumps({"types": types}))
    return str(path)


def _ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, JsonObject]:
    code = run("plan", ["nodes", *words, "-o", "json"])
    answer: JsonObject = json.loads(capsys.readouterr().out)
    return code, answer


def _count_by_type(answer: JsonObject) -> dict[str, int]:
    return {each["type"]: each["count"] for each in answer["nodes"]}


def _daemons(name: str, cpu: str, **spec: object) -> JsonObject:
    labels = {"app": name}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    meta = {"name": name, "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec}


def test_new_nodes_in_a_plan_run_the_pods_of_daemon_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = _pods(tmp_path / "pods.yaml", a=1, b=1, c=1)
    two = {"name": "two", "price": 2, "gpus": "2xT4", "cpu": 3}
    wide = {"name": "wide", "price": 9, "gpus": "4xT4", "cpu": 8, "taints": ["for=ai:NoSchedule"]}
    types = _catalog(tmp_path / "types.json", two, wide)
    elsewhere = _daemons("elsewhere", "3", nodeSelector={"disk": "slow"})
    world = tmp_path / "world.json"
    for daemons, bought in (
        ([], {"two": 2}),
        # The pods of the DaemonSets leave two CPUs of a node free, then one.
        ([_daemons("agent", "1"), elsewhere], {"two": 2}),
        ([_daemons("agent", "1500m"), elsewhere], {"two": 3}),
        # On a node with a taint, only daemons that tolerate it run, and none of the pods.
        ([_daemons("agent", "3")], {}),
    ):
        items = [*cluster()[:3], *daemons]
        items[0]["spec"] = {"unschedulable": True}
        world.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        _, answer = _ask(capsys, pods, "--catalog", types, "--from", str(world))
        assert _count_by_type(answer) == bought
        assert len(answer["pods"]) == (3 if bought else 0)
        assert not any("agent" in pod["pod"] for pod in answer["pods"])


def test_the_cheapest_mix_of_node_types_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = _pods(tmp_path / "pods.yaml", a=3, b=3, c=1, d=1, e=1)
    types = _catalog(
        tmp_path / "types.json",
        {"name": "eight", "price": 10, "gpus": "8xH100-SXM5-80GB:whole"},
        {"name": "one", "price": 1.5, "gpus": "1xT4", "cpu": 1},
        {"name": "bare", "price": 0.1, "drivers": ["none"]},
    )
    code, answer = _ask(capsys, pods, "--catalog", types, "--nodes", "0")
    assert (code, answer["cost"], answer["bound"], answer["optimal"]) == (0, 11.5, 11.5, True)
    assert _count_by_type(answer) == {"eight": 1, "one": 1}
    assert (answer["wanted"], len(answer["pods"]), answer["unplaced"]) == (5, 5, [])
    assert answer["uncertain"] == []
    devices = [device for place in answer["pods"] for device in place["devices"]]
    assert len(set(devices)) == len(devices) == 9
    # If none of the large nodes may be bought, the pods with three devices do not fit.
    types = _catalog(tmp_path / "types.json", {"name": "one", "price": 1, "gpus": "1xT4"})
    code, answer = _ask(capsys, pods, "--catalog", types, "--nodes", "0")
    assert (code, answer["cost"], answer["optimal"]) == (1, 3, False)
    assert [each["pod"] for each in answer["unplaced"]] == ["default/a", "default/b"]
    assert "cannot allocate all claims" in answer["unplaced"][0]["message"]


def test_existing_nodes_are_used_before_new_ones_are_bought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node with three devices has one left and four pods are pending, so one more node like it is enough."""
    objects = [*cluster(3), claim("other", "gpu-1"), pod("other", "node-0", "other")]
    for name in ("w1", "w2", "w3", "w4"):
        objects += [claim(name), pod(name, "", name)]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    types = _catalog(
        tmp_path / "types.json",
        {"name": "same", "price": 4, "from": "dump.json", "node": "node-0"},
        {"name": "limited", "price": 1, "limit": 0, "from": "dump.json"},
    )
    code, answer = _ask(capsys, "--catalog", types, "--from", str(dump))
    assert (code, answer["cost"], _count_by_type(answer)) == (0, 4, {"same": 1})
    assert {each["node"] for each in answer["pods"]} == {"node-0", "same-1"}
    run("plan", ["nodes", "--catalog", types, "--from", str(dump)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "1 node for 4, for 4 pods that wait",
        "  1 x same at 4",
        "no other nodes of the catalog cost less",
    ]


def test_existing_nodes_are_packed_before_new_ones_are_bought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scheduler alone spreads the small pods, so that no node has room left. Packed well, none has to be bought."""
    small, large = {f"a{i:02}": 2 for i in range(14)}, {f"b{i}": 4 for i in range(7)}
    pods = _pods(tmp_path / "pods.yaml", **small, **large)
    types = _catalog(tmp_path / "types.json", {"name": "four", "price": 10, "gpus": "4xT4"})
    words = [pods, "--catalog", types, "--nodes", "14", "--gpus", "4xT4"]
    code, answer = _ask(capsys, *words)
    assert (code, answer["cost"], answer["optimal"], answer["nominated"]) == (0, 0, True, True)
    assert len({each["node"] for each in answer["pods"]}) == 14
    # One more cannot be placed without a new node, and that is proven.
    pods = _pods(tmp_path / "pods.yaml", **small, **large, last=1)
    code, answer = _ask(capsys, *words)
    assert (code, answer["cost"], answer["bound"], answer["optimal"]) == (0, 10, 10, True)


def test_topology_constraints_between_pods_are_respected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three pods that avoid each other need three nodes, regardless of their capacity."""
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "containers": [{"name": "main", "image": "x"}],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "minDomains": 3,
                    "labelSelector": {"matchLabels": {"app": "x"}},
                }
            ],
        },
    }
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    file = tmp_path / "d.json"
    file.write_text(json.dumps(manifest))
    types = _catalog(tmp_path / "types.json", {"name": "bare", "price": 2, "drivers": ["none"]})
    code, answer = _ask(capsys, str(file), "--catalog", types, "--nodes", "0")
    assert (code, _count_by_type(answer), answer["bound"], answer["optimal"]) == (0, {"bare": 3}, 2.0, False)
    assert {each["node"] for each in answer["pods"]} == {"bare-1", "bare-2", "bare-3"}


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([{"name": "a", "price": 0}], "price: must be a number above 0"),
        ([{"name": "a", "price": 1, "limit": -1}], "limit: must be a number of nodes"),
        ([{"name": "a", "price": 1}, {"name": "a", "price": 2}], "two types are named"),
        ([{"name": "a", "price": 1, "drivers": ["x"]}], "unknown driver profile 'x'"),
        ([], "a list of types"),
        ([{"name": "a", "price": 1, "from": "none.json"}], "no such file"),
    ],
)
def test_invalid_node_type_catalogs_are_rejected(
    types: list[JsonObject], message: str, tmp_path: Path
) -> None:
    file = _catalog(tmp_path / "types.json", *types)
    with pytest.raises(UserError, match=message):
        run("plan", ["nodes", "--catalog", file, "--nodes", "0"])
