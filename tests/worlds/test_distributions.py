"""Dumps in the layouts of other tools and distributions."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from dra_cli.commandline import run
from dra_scheduler.plan.objects import Objects
from dra_shared.api.resources import DEPLOYMENTS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.jsontypes import JsonObject
from dra_worlds.reading import read

from tests.worlds.objects import SECRET, UNKNOWN, claim, cluster, pod


def _nodes(*kinds: tuple[str, JsonObject, list[JsonObject]]) -> Iterator[JsonObject]:
    """Return nodes with the labels and taints of distributions."""
    for name, labels, taints in kinds:
        node = cluster()[0]
        node["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        node["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
        node["spec"] = {"taints": taints, "providerID": f"some://{name}"}
        yield node


def _typed_list(*items: JsonObject) -> JsonObject:
    """Return a typed list as a server does: its items have no kind."""
    first = items[0]
    bare = [{key: part for key, part in item.items() if key not in ("apiVersion", "kind")} for item in items]
    return {"apiVersion": first["apiVersion"], "kind": f"{first['kind']}List", "items": bare, "metadata": {}}


def _write(path: Path, *objects: JsonObject, marked: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    start = "---\n" if marked else ""
    path.write_text("".join(start + yaml.safe_dump(obj) for obj in objects))


def _must_gather(folder: Path) -> Path:
    """Write the layout of ``oc adm inspect`` (``pkg/cli/admin/inspect`` of openshift/oc) in the image's folder."""
    node, piece, device_class, held, holder = cluster(2)
    root = (
        folder
        / "must-gather.local.546402913063"
        / "quay-io-openshift-release-dev-ocp-v4-0-art-dev-sha256-3f2a9c"
    )
    whole = root / "cluster-scoped-resources"
    _write(whole / "core" / "nodes" / "node-0.yaml", node)
    _write(whole / "resource.k8s.io" / "resourceslices" / "slice.yaml", piece)
    _write(whole / "resource.k8s.io" / "deviceclasses" / "gpu.yaml", device_class)
    version = {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": {"name": "version"},
    }
    _write(whole / "config.openshift.io" / "clusterversions" / "version.yaml", version)
    space = root / "namespaces" / "default"
    waiting = pod("waiting", "", "wants")
    _write(space / "core" / "pods.yaml", _typed_list(holder, waiting))
    for each in (holder, waiting):
        name = each["metadata"]["name"]
        _write(space / "pods" / name / f"{name}.yaml", each)
        logs = space / "pods" / name / "main" / "main" / "logs"
        logs.mkdir(parents=True)
        (logs / "current.log").write_text("{\nno object\n")
    _write(space / "core" / "secrets.yaml", _typed_list(SECRET))
    _write(space / "core" / "events.yaml", {"apiVersion": "v1", "kind": "EventList", "items": []})
    _write(space / "resource.k8s.io" / "resourceclaims.yaml", _typed_list(held, claim("wants")))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default"},
    }
    _write(space / "apps" / "deployments.yaml", _typed_list(deployment))
    _write(space / "apps.openshift.io" / "deploymentconfigs.yaml", _typed_list(UNKNOWN))
    for name in ("version", "timestamp", "must-gather.logs", "event-filter.html"):
        (root / name).write_text("{\n")
    return root.parent


def _check(objects: Objects) -> None:
    assert list(objects.of(NODES)) == ["node-0"]
    assert set(objects.of(PODS)) == {"default/holder", "default/waiting"}
    assert len(objects.of(RESOURCE_SLICES)) == 1
    assert list(objects.of(DEPLOYMENTS)) == ["default/d"]
    allocation = objects.of(RESOURCE_CLAIMS)["default/held"].status.allocation
    assert allocation is not None
    assert allocation.devices.results[0].device == "gpu-0"
    assert "hush" not in repr([list(each.values()) for _, each in objects])


@pytest.mark.parametrize("form", ["", "zip", "gztar", "xztar"])
def test_a_must_gather_is_read(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _must_gather(tmp_path / "x")
    if form:
        source = Path(shutil.make_archive(str(tmp_path / "case"), form, source.parent))
    problems: list[str] = []
    _check(read(str(source), problems))
    assert problems == []
    run("explain", ["pod/waiting", "--from", str(source)])
    assert "gpu.example.com/node-0/gpu-1" in capsys.readouterr().out


def test_the_folder_of_a_cluster_info_dump_is_read(tmp_path: Path) -> None:
    node, *_, holder = cluster()
    for name, value in (
        ("nodes", _typed_list(node)),
        ("default/pods", _typed_list(holder)),
        ("default/events", {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": None}),
    ):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value, indent=4))
    logs = tmp_path / "default" / "holder"
    logs.mkdir()
    (logs / "logs.txt").write_text("==== START logs for container main of pod default/holder ====\n{\n")
    problems: list[str] = []
    objects = read(str(tmp_path), problems)
    assert (list(objects.of(NODES)), list(objects.of(PODS)), problems) == (["node-0"], ["default/holder"], [])


def test_labels_and_taints_of_many_distributions_are_respected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pod is scheduled to the one node that its constraints allow."""
    none: list[JsonObject] = []
    gpu = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    cordoned = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    nodes = _nodes(
        (
            "k3s-server",
            {"node.kubernetes.io/instance-type": "k3s", "node-role.kubernetes.io/control-plane": "true"},
            cordoned,
        ),
        (
            "gke-gpu-pool-1f2e",
            {"cloud.google.com/gke-nodepool": "gpu", "cloud.google.com/gke-accelerator": "nvidia-h100"},
            gpu,
        ),
        (
            "ip-10-0-1-7.ec2.internal",
            {"eks.amazonaws.com/nodegroup": "ng", "topology.kubernetes.io/zone": "a"},
            none,
        ),
    )
    dump = tmp_path / "all.yaml"
    dump.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [*nodes, UNKNOWN]}))
    wanted = pod("p")
    wanted["spec"] |= {"resourceClaims": [], "containers": [{"name": "main", "image": "x"}]}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(wanted))
    assert run("plan", ["fit", str(tmp_path / "p.yaml"), "--from", str(dump), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["pods"][0]["node"] == "ip-10-0-1-7.ec2.internal"
