"""Objects from files, folders and archives."""

import bz2
import gzip
import io
import json
import lzma
import secrets
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from dra_scheduler.plan.gaps import gaps
from dra_scheduler.plan.objects import Objects
from dra_shared.api.codec import convert
from dra_shared.api.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_worlds.reading import read

from tests.worlds.objects import SECRET, UNKNOWN, claim, cluster, pod


def _list(*objects: JsonObject) -> JsonObject:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def _check(objects: Objects) -> None:
    assert {resource.plural: len(each) for resource, each in objects} == {
        "nodes": 1, "deviceclasses": 1, "resourceslices": 1, "resourceclaims": 1, "pods": 1,
    }  # fmt: skip
    piece = objects.of(RESOURCE_SLICES)["slice"]
    assert [device.attributes["index"].int_ for device in piece.spec.devices] == [0, 1]
    request = objects.of(RESOURCE_CLAIMS)["default/held"].spec.devices.requests[0]
    assert request.exactly is not None
    assert request.exactly.count == 1
    assert "gpu" in objects.of(DEVICE_CLASSES)


def _read(path: Path) -> Objects:
    problems: list[str] = []
    found = read(str(path), problems)
    assert not problems
    return found


def test_a_json_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps(_list(*cluster(), SECRET, UNKNOWN), indent=4))
    _check(_read(path))


@pytest.mark.parametrize("indent", [2, 4])
def test_large_files_are_read_item_by_item(
    indent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_worlds.files._LARGE", 0)
    monkeypatch.setattr("dra_worlds.documents._RELEASED", 100)
    path = tmp_path / "all.json"
    text = json.dumps(_list(*cluster(), SECRET, UNKNOWN), indent=indent)
    path.write_text(text)
    _check(_read(path))
    path.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [pod("p")]}, indent=indent))
    assert list(_read(path).of(PODS)) == ["default/p"]
    problems: list[str] = []
    path.write_text(text[: text.rindex('"holder"')])
    assert len(read(str(path), problems)) == 4
    assert problems == [f"{path}: it ends within an object; that object is missing"]


def test_yaml_documents_with_managed_fields_are_read(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([*cluster(), SECRET, UNKNOWN]))
    _check(_read(path))
    path.write_text(yaml.safe_dump(_list(*cluster(), SECRET, UNKNOWN)))
    _check(_read(path))


def test_typed_lists_whose_items_lack_a_kind_are_read(tmp_path: Path) -> None:
    for number, obj in enumerate(cluster()):
        kind, version = obj.pop("kind"), obj.pop("apiVersion")
        items = {"apiVersion": version, "kind": f"{kind}List", "items": [obj]}
        (tmp_path / f"{number}.json").write_text(json.dumps(items))
    (tmp_path / "logs.txt").write_text("{ no object")
    _check(_read(tmp_path))


def test_objects_between_logs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    parts = [json.dumps(obj, indent=4) for obj in cluster()]
    path.write_text(
        "\n".join([*parts[:2], "==== START logs for x ====", "{oops", "==== END ====", *parts[2:]])
    )
    _check(_read(path))


def test_tar_and_zip_archives_are_read(tmp_path: Path) -> None:
    text = json.dumps(_list(*cluster())).encode()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("must-gather/all.json", text)
        archive.writestr("must-gather/x.log", b"{")
    _check(_read(tmp_path / "a.zip"))
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("dump/all.json.gz")
        packed = gzip.compress(text)
        info.size = len(packed)
        tar.addfile(info, io.BytesIO(packed))
    _check(_read(tmp_path / "a.tar.gz"))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(text))
    _check(_read(tmp_path / "b.json.gz"))


def test_damaged_files_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(_list(*cluster())))
    (tmp_path / "half.json").write_text(json.dumps(_list(*cluster()))[:100])
    (tmp_path / "wrong.json").write_text(json.dumps({**pod("p"), "spec": {"containers": 7}}))
    problems: list[str] = []
    _check(read(str(tmp_path), problems))
    assert ["half.json" in problems[0], "wrong.json" in problems[1]] == [True, True]
    assert len(problems) == 2


def _problems(path: Path, found: dict[str, int]) -> list[str]:
    problems: list[str] = []
    assert {resource.plural: len(each) for resource, each in read(str(path), problems)} == found
    return problems


def test_large_compact_files_are_memory_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dra_worlds.files._LARGE", 0)
    monkeypatch.setattr("dra_worlds.documents._RELEASED", 100)
    text = json.dumps(_list(*cluster(), SECRET, UNKNOWN))
    path = tmp_path / "all.json"
    path.write_text(text)
    _check(_read(path))
    path = tmp_path / "dump.txt"
    path.write_text("Cluster:\n" + json.dumps(_list(*cluster()), indent=4))
    _check(_read(path))
    # The content of an archive is in a temporary file meanwhile.
    for name, opened in (("a.json.gz", gzip.open), ("a.json.bz2", bz2.open), ("a.json.xz", lzma.open)):
        with opened(tmp_path / name, "wt") as file:
            file.write(text)
        _check(_read(tmp_path / name))


def test_archives_in_archives_are_read(tmp_path: Path) -> None:
    text = json.dumps(_list(*cluster())).encode()
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as tar:
        info = tarfile.TarInfo("must-gather/all.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    with zipfile.ZipFile(tmp_path / "case.zip", "w") as archive:
        archive.writestr("attachments/must-gather.tar.gz", inner.getvalue())
        archive.writestr("attachments/broken.json.gz", gzip.compress(text)[:40])
    problems: list[str] = []
    _check(read(str(tmp_path / "case.zip"), problems))
    assert len(problems) == 1
    assert "broken.json.gz" in problems[0]


def test_the_readable_part_of_a_truncated_archive_is_read(tmp_path: Path) -> None:
    path = tmp_path / "half.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for number, obj in enumerate([*cluster(), pod("more", "node-0", "held")]):
            # Random bytes, so that half of the packed file is half of the content.
            text = json.dumps(obj | {"noise": secrets.token_hex(20_000)}).encode()
            info = tarfile.TarInfo(f"dump/{number}.json")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    path.write_bytes(path.read_bytes()[:-10_000])
    problems: list[str] = []
    _check(read(str(path), problems))
    assert problems
    assert all(str(path) in problem for problem in problems)


def test_the_readable_part_of_a_truncated_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    whole = json.dumps(_list(*cluster()))
    path.write_text(whole[: whole.rindex('"holder"')])
    found = {"nodes": 1, "deviceclasses": 1, "resourceslices": 1, "resourceclaims": 1}
    assert _problems(path, found) == [f"{path}: it ends within an object; that object is missing"]
    path.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [pod("p"), pod("q")]})[:-40])
    assert len(_problems(path, {"pods": 1})) == 1


def test_concatenated_json_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_text("\n".join(json.dumps(obj) for obj in cluster()))
    _check(_read(path))


def test_yaml_lists_are_read_item_by_item(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    good = yaml.safe_dump(_list(*cluster(), SECRET, UNKNOWN))
    assert good.startswith("apiVersion: v1\nitems:\n- ")
    # Two lists, the second indented, as others than kubectl write them.
    path.write_text(
        f"---\n{good}--- # more\nkind: PodList\napiVersion: v1\nitems:\n  - metadata: {{name: q}}\n"
    )
    assert len(_read(path).of(PODS)) == 2
    broken = good.replace("- apiVersion: v1\n", '- "apiVersion: v1\n', 1)
    path.write_text(broken)
    # The broken node is implied by its slice.
    found = {"deviceclasses": 1, "resourceslices": 1, "resourceclaims": 1, "pods": 1, "nodes": 1}
    assert len(_problems(path, found)) == 2
    path.write_text(good[: good.index("    namespace: default\n    uid: uid-holder")])
    found = {"nodes": 1, "deviceclasses": 1, "resourceslices": 1, "resourceclaims": 1}
    assert _problems(path, found) == [f"{path}: it ends within an object; that object is missing"]


def test_objects_after_an_unmatched_brace_in_a_log_are_read(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    parts = [json.dumps(obj, indent=4) for obj in cluster()]
    path.write_text("\n".join(["==== START logs ====", "{", "no end", *parts]))
    problems: list[str] = []
    _check(read(str(path), problems))
    assert len(problems) == 1


def test_files_in_encodings_of_powershell_are_read(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps(_list(*cluster())), encoding="utf-16")
    _check(_read(path))
    path.write_text(yaml.safe_dump_all(cluster()), encoding="utf-8-sig")
    _check(_read(path))


def test_equal_parts_of_objects_are_shared_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(
        json.dumps(_list(*cluster(), pod("a", "node-0", "x"), pod("b", "node-0", "x"), claim("x")))
    )
    objects = _read(path)
    first, second = (objects.of(PODS)[f"default/{name}"] for name in "ab")
    assert first.spec.containers is second.spec.containers
    assert first.metadata.name != second.metadata.name
    plain = {obj["metadata"]["name"]: obj for obj in (pod("a", "node-0", "x"), pod("b", "node-0", "x"))}
    assert [convert(PODS, plain[each.metadata.name]) for each in (first, second)] == [first, second]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        read(str(tmp_path / "none"), [])


def test_kinds_missing_from_a_dump_are_named(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(json.dumps(_list(pod("p", "node-9", "c"), pod("q", "", "nothing"), claim("c", "gpu-7"))))
    objects = _read(path)
    assert not objects.of(NODES)
    assert len(objects.of(PODS)) == 2
    assert gaps(objects) == [
        "there are no nodes: nothing fits anywhere",
        "there are no ResourceSlices: which devices there are is unknown, and claims get none",
        "there are no DeviceClasses: requests for devices of a class cannot be judged",
        "allocated from a pool that is unknown: default/c (gpu.example.com/node-0); what it has left is uncertain",
        "pods whose claim is missing: default/q (nothing); what they use is unknown",
        "pods on a node that is missing: default/p (node-9); they are ignored",
    ]


_NODES: list[JsonObject] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "spec": {}}
    for number in range(3)
]


@pytest.mark.parametrize("indent", [None, 2, 4])
@pytest.mark.parametrize("bare", [False, True])
def test_complete_items_of_truncated_json_are_read(indent: int | None, bare: bool, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    text = json.dumps(_NODES if bare else _list(*_NODES), indent=indent)
    path.write_text(text[: text.index('"n2"')])
    assert _problems(path, {"nodes": 2}) == [f"{path}: it ends within an object; that object is missing"]


def test_a_list_after_a_truncated_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    text = json.dumps(_list(*_NODES), indent=4)
    path.write_text(text[: text.index('"n2"')] + "\n" + json.dumps(_list(pod("p")), indent=4))
    assert len(_problems(path, {"nodes": 2, "pods": 1})) == 1


def test_items_of_a_volume_are_not_objects(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    volume = {"configMap": {"items": [{"key": "a", "path": "b"}], "name": "last"}}
    text = json.dumps({**pod("p"), "spec": {"volumes": [volume]}}, indent=4)
    path.write_text(text[: text.index('"last"')])
    assert _problems(path, {}) == [f"{path}: it ends within an object; that object is missing"]


def test_the_last_item_of_a_truncated_yaml_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    text = yaml.safe_dump(_list(*_NODES))
    path.write_text(text[: text.index("kind: List")])
    assert _problems(path, {"nodes": 3}) == [
        f"{path}: the list has no end; its last object may be incomplete"
    ]
    path.write_text(text[: text.index("    name: n2") + len("    name: n2\n")])
    assert _problems(path, {"nodes": 2}) == [f"{path}: it ends within an object; that object is missing"]


@pytest.mark.parametrize(
    "prompt",
    [
        "$ ",
        "user@host:~/work$ ",
        "[root@bastion ~]# ",
        "me@mac ~ % ",
        "PS C:\\Users\\me> ",
        "> ",
        "% ",
        "❯ ",
    ],
)
def test_shell_prompts_between_pasted_objects_are_skipped(prompt: str, tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    parts = [yaml.safe_dump(_list(*_NODES)), yaml.safe_dump(pod("p"))]
    path.write_text("".join(f"{prompt}kubectl get something -o yaml\n{part}" for part in parts))
    assert _problems(path, {"nodes": 3, "pods": 1}) == [
        f"{path}: lines that are not YAML are skipped: {f'{prompt}kubectl get something -o yaml'!r} and 1 more"
    ]
    path.write_text(f"{prompt}kubectl get nodes -o json\n{json.dumps(_list(*_NODES))}\n")
    assert len(_problems(path, {"nodes": 3})) == 1


def test_other_text_between_manifests_is_not_mistaken_for_a_shell_prompt(tmp_path: Path) -> None:
    path = tmp_path / "helm.yaml"
    path.write_text(
        "NAME: x\nLAST DEPLOYED: Tue Nov  5 10:00:00 2026\nTEST SUITE: None\nMANIFEST:\n---\n"
        f"# Source: x/templates/node.yaml\n{yaml.safe_dump(_NODES[0])}---\nnull\n---\n{{}}\n---\nword\n"
    )
    assert _problems(path, {"nodes": 1}) == []


@pytest.mark.parametrize(
    "prompt", ["$", "$ ", "user@host:~$", "me@mac ~ %", "[root@bastion ~]# ", "PS C:\\> "]
)
def test_a_prompt_after_a_pasted_object_is_skipped(prompt: str, tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    path.write_text(f"{yaml.safe_dump(_list(*_NODES))}{prompt}\n")
    assert len(_problems(path, {"nodes": 3})) == 1
    path.write_text(f"{yaml.safe_dump(_NODES[0])}{prompt}")
    assert len(_problems(path, {"nodes": 1})) == 1


def test_yaml_comments_are_not_mistaken_for_shell_prompts(tmp_path: Path) -> None:
    path = tmp_path / "commented.yaml"
    path.write_text(
        "# kubectl apply -f this\nkind: Node\n# kubectl x\nmetadata: {name: a} # b: c\napiVersion: v1\n"
    )
    assert _problems(path, {"nodes": 1}) == []


def test_an_object_without_api_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("kind: Pod\nmetadata: {name: p}\n")
    assert _problems(path, {}) == [f"{path}: a Pod without apiVersion is ignored"]


def test_nodes_are_derived_from_slices_if_a_dump_has_no_nodes(tmp_path: Path) -> None:
    path = tmp_path / "slices.json"
    slices = [obj for obj in cluster() if obj["kind"] == "ResourceSlice"]
    path.write_text(json.dumps(_list(*slices)))
    problems: list[str] = []
    objects = read(str(path), problems)
    (node,) = objects.of(NODES).values()
    assert node.metadata.name == slices[0]["spec"]["nodeName"]
    assert node.status.allocatable["pods"] == "110"
    assert problems == [
        "there are no nodes: 1 node is implied by the ResourceSlices, with room for any CPU and memory, "
        "and without labels and taints"
    ]


@pytest.mark.parametrize(
    ("index", "path", "value", "text"),
    [
        (
            0,
            ("status", "allocatable", "cpu"),
            "many",
            "Node node-0 cannot be read: status.allocatable[cpu]: 'many'",
        ),
        (0, ("status", "allocatable", "cpu"), 4, "Node node-0 cannot be read: Expected `str`, got `int`"),
        (
            4,
            ("spec", "containers", 0, "resources", "requests"),
            {"cpu": "1 core"},
            "Pod default/holder cannot be read: spec.containers[0].resources.requests[cpu]: '1 core'",
        ),
        (
            4,
            ("spec", "topologySpreadConstraints"),
            [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}],
            "Pod default/holder cannot be read: spec.topologySpreadConstraints[0].labelSelector: "
            '"Like" is not a valid label selector operator',
        ),
    ],
)
def test_objects_with_unreadable_quantities_are_named(
    tmp_path: Path, index: int, path: tuple[Any, ...], value: Any, text: str
) -> None:
    items = cluster()
    at: Any = items[index]
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(_list(*items)))
    problems: list[str] = []
    assert len(read(str(file), problems)) == len(items) - 1
    (problem,) = problems
    assert text in problem


def test_unreadable_capacities_of_devices_are_named(tmp_path: Path) -> None:
    piece = cluster()[1]
    device = {"name": "gpu-0", "capacity": {"memory": {"value": "9 GB"}}}
    piece |= {"apiVersion": "resource.k8s.io/v1", "spec": {**piece["spec"], "devices": [device]}}
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(_list(piece)))
    problems: list[str] = []
    assert len(read(str(file), problems)) == 0
    assert "ResourceSlice slice cannot be read: spec.devices[0].capacity[memory].value: '9 GB'" in problems[0]
