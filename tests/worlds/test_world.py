"""The Python interface of the planner: ``from dralab import World``."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_shared.api.resources import PODS
from dra_shared.jsontypes import JsonObject
from dra_worlds.snapshot import Snapshot
from dra_worlds.world import WorldError
from dralab import World

from tests.worlds.objects import claim, cluster, pod


def _gpu_pod() -> list[JsonObject]:
    claims: Any = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    meta = {"name": "gpu"}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": meta,
        "spec": {"spec": claims},
    }
    spec = {
        "containers": [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
    return [template, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}]


def test_a_world_is_not_changed_by_questions_or_variants() -> None:
    world = World.describe(1, "2xH100-SXM5-80GB")
    assert world.fit(_gpu_pod(), most=True).fits == 2
    more = world.with_nodes(2, gpus="4xH100-SXM5-80GB")
    assert more.fit(_gpu_pod(), most=True).fits == 10
    assert world.fit(_gpu_pod(), count=3).fits == 2
    assert more.without_nodes("node-0", "more-0").fit(_gpu_pod(), most=True).fits == 4
    assert (len(world), world.problems) == (5, [])


def test_described_nodes_of_a_rack_have_channels_of_compute_domains() -> None:
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "d"},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "gpu"}}},
    }
    question: list[JsonObject] = [domain, _gpu_pod()[1]]
    assert World.describe(2, "4xGB200").fit(question, most=True).fits == 2
    assert World.describe(2, "4xH100-SXM5-80GB").fit(question).fits == 0


def test_equal_questions_have_equal_answers() -> None:
    world = World.describe(5, "2xH100-SXM5-80GB")
    first = world.fit(_gpu_pod(), count=6)
    world.with_nodes(1, gpus="1xH100-SXM5-80GB").fit(_gpu_pod(), count=2)
    again = world.fit(_gpu_pod(), count=6)
    assert [(p.pod, p.node) for p in again.pods] == [(p.pod, p.node) for p in first.pods]


def test_pending_pods_of_a_dump_are_explained_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    items = [*cluster(2), claim("one"), claim("two"), pod("a", "", "one"), pod("b", "", "two")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    world = World.load(path)
    text = str(world.explain("a"))
    assert "node node-0: fits" in text
    small = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "s"},
        "spec": {"containers": [{"name": "m"}]},
    }
    assert [world.fit(small).waiting for _ in range(2)] == [1, 1]
    assert str(world.explain("default/a")) == text


def test_pods_of_manifests_without_uids_are_distinguished() -> None:
    """Hand-written pods have no UID, and the scheduler identifies pods by UID."""
    small = {"containers": [{"name": "m", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}
    large = {"containers": [{"name": "m", "image": "x", "resources": {"requests": {"cpu": "5000"}}}]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        for name, spec in (("small", small), ("large", large))
    ]
    world = World.describe(1, "1xH100-SXM5-80GB").with_objects(pods)
    assert [world.explain(name).report.nodes[0].fits for name in ("small", "large")] == [True, False]


def test_an_explanation_has_the_condition_of_the_clusters_scheduler(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    waiting = pod("a", "", "one")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    waiting["status"] = {"phase": "Pending", "conditions": [condition]}
    items = [*cluster(2), claim("one"), waiting]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    world = World.load(path)
    report = world.explain("a").report
    assert (report.state, report.message) == ("pending: unschedulable", "0/2 nodes")
    answer, text = Snapshot(world.objects).explain("pod", "default", "a", 20)
    assert (answer, text) == (json.loads(msgspec.json.encode(report)), str(world.explain("a")))


def test_the_explanation_of_a_group_shows_the_reported_conditions_of_its_other_pods() -> None:
    members = []
    for name in ("a", "b"):
        member = pod(name, "")
        member["spec"] |= {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": []}
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": name}
        member["status"] = {"phase": "Pending", "conditions": [condition]}
        members.append(member)
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    report = World().with_objects([*cluster(1), group, *members]).explain("a").report
    assert report.group is not None
    assert [(each.state, each.message) for each in report.group.members] == [("unschedulable", "b")]


def test_answers_are_shown_as_html_tables() -> None:
    world = World.describe(1, "1xH100-SXM5-80GB")
    assert "<td>nodes</td><td>1</td>" in world._repr_html_()
    html = world.fit(_gpu_pod(), count=2)._repr_html_()
    assert html.startswith("<table><caption>1 of 2 pods fit</caption>")
    assert "<td>node-0</td><td>gpu.nvidia.com/node-0/gpu-0</td>" in html


def test_questions_that_cannot_be_answered_are_errors(tmp_path: Path) -> None:
    world = World.describe(1, "1xH100-SXM5-80GB")
    with pytest.raises(WorldError, match="no pods"):
        world.fit(_gpu_pod()[:1])
    with pytest.raises(WorldError, match='there is no pod "default/x"'):
        world.explain("x")
    with pytest.raises(WorldError, match="no such file"):
        World.load(tmp_path / "none")
    with pytest.raises(WorldError, match="NONE"):
        World.describe(1, "8xNONE")


def _write_dump(path: Path, *pods: str, devices: int = 2) -> Path:
    """Write a node whose first device is allocated, and pending pods that request one."""
    items = [*cluster(devices)]
    for name in pods:
        items += [claim(name), pod(name, "", name)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_world_has_a_method_for_every_planner_question_of_the_command_line(tmp_path: Path) -> None:
    dump = _write_dump(tmp_path / "dump.json", "a", "b")
    world = World.load(dump)
    assert [(m.pod, bool(m.stuck)) for m in world.drain("node-0").moves] == [
        ("default/holder", True),
        ("default/a", True),
    ]
    assert world.remove("node-0").stuck == 2
    assert world.upgrade().order == ("node-0",)
    with pytest.raises(WorldError, match="no node"):
        world.drain("none")
    comparison = world.change(world.without_nodes("node-0"))
    assert (comparison.before, comparison.after) == (1, 0)
    catalog = tmp_path / "types.json"
    catalog.write_text(json.dumps({"types": [{"name": "same", "price": 3, "from": "dump.json"}]}))
    purchase = world.nodes(catalog)
    assert (purchase.cost, purchase.optimal) == (3, True)
    packing = world.pack()
    assert (packing.stranded, packing.waiting) == ({}, True)
    times = tmp_path / "t.csv"
    times.write_text("start,end,shape\n0,10,1xgpu\n5,10,1xgpu\n")
    course = _without_waiting(world).replay(times)
    assert (course.placed, course.waits.longest) == (2, 5)
    for answer in (world.drain("node-0"), comparison, purchase, packing):
        assert answer._repr_html_().startswith("<table>")


def test_a_world_names_the_workloads_that_it_cannot_count() -> None:
    application = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "r"},
        "spec": {"driver": {"template": {"spec": {"containers": [{"name": "c"}]}}}},
    }
    world = World.describe(1, "2xH100-SXM5-80GB")
    expected = (
        "of unknown kinds: SparkApplication default/r; pods that their controllers make are not counted",
    )
    assert tuple(world.with_objects(application).problems) == expected
    fit = world.fit([application, *_gpu_pod()])
    assert (fit.fits, fit.good, fit.left_out, fit.uncertain) == (
        1,
        False,
        ("SparkApplication default/r",),
        expected,
    )


def test_world_answers_questions_about_taints(tmp_path: Path) -> None:
    world = World.load(_write_dump(tmp_path / "dump.json"))
    assert world.taint("node/node-0", "k=v:NoExecute").stuck == 1
    assert world.taint("device/gpu.example.com/node-0/gpu-0", "k:NoSchedule").moves == ()
    for target, taint in (("node/none", "k:NoExecute"), ("node/node-0", "k:Never"), ("pod/p", "k:NoExecute")):
        with pytest.raises(WorldError):
            world.taint(target, taint)


def _without_waiting(world: World) -> World:
    return World(world.objects.without(PODS, ["default/a", "default/b"]))


def test_free_devices_are_counted_by_class() -> None:
    found = World.describe(2, "8xH100-SXM5-80GB").free()
    (gpus,) = (usage for usage in found.classes if usage.device_class == "gpu.nvidia.com")
    assert (gpus.devices, gpus.free, gpus.used) == (16, 16, 0)
