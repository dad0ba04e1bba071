"""Worlds from files, folders and archives."""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from dra_cli.errors import CommandError
from dra_cli.plan.gaps import gaps
from dra_cli.plan.reading import read
from dra_scheduler.plan.objects import Objects
from dra_shared.api.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

from tests.cli.plan.objects import SECRET, UNKNOWN, Json, claim, cluster, pod


def _list(*objects: Json) -> Json:
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


def test_a_list_as_json(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps(_list(*cluster(), SECRET, UNKNOWN), indent=4))
    _check(_read(path))


@pytest.mark.parametrize("indent", [2, 4])
def test_large_files_are_read_item_by_item(
    indent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dra_cli.plan.files._LARGE", 0)
    monkeypatch.setattr("dra_cli.plan.documents._RELEASED", 0)
    path = tmp_path / "all.json"
    text = json.dumps(_list(*cluster(), SECRET, UNKNOWN), indent=indent)
    path.write_text(text)
    _check(_read(path))
    path.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [pod("p")]}, indent=indent))
    assert list(_read(path).of(PODS)) == ["default/p"]
    problems: list[str] = []
    path.write_text(text[: text.rindex('"holder"')])
    assert len(read(str(path), problems)) == 4
    assert problems == [f"{path}: it ends within an object; that one is missing"]


def test_documents_as_yaml_with_managed_fields(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([*cluster(), SECRET, UNKNOWN]))
    _check(_read(path))
    path.write_text(yaml.safe_dump(_list(*cluster(), SECRET, UNKNOWN)))
    _check(_read(path))


def test_lists_of_one_kind_whose_items_do_not_say_it(tmp_path: Path) -> None:
    for number, obj in enumerate(cluster()):
        kind, version = obj.pop("kind"), obj.pop("apiVersion")
        items = {"apiVersion": version, "kind": f"{kind}List", "items": [obj]}
        (tmp_path / f"{number}.json").write_text(json.dumps(items))
    (tmp_path / "logs.txt").write_text("{ no object")
    _check(_read(tmp_path))


def test_objects_between_logs(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    parts = [json.dumps(obj, indent=4) for obj in cluster()]
    path.write_text(
        "\n".join([*parts[:2], "==== START logs for x ====", "{oops", "==== END ====", *parts[2:]])
    )
    _check(_read(path))


def test_archives(tmp_path: Path) -> None:
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


def test_what_is_broken_is_named_and_the_rest_is_used(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(_list(*cluster())))
    (tmp_path / "half.json").write_text(json.dumps(_list(*cluster()))[:100])
    (tmp_path / "wrong.json").write_text(json.dumps({**pod("p"), "spec": {"containers": 7}}))
    problems: list[str] = []
    _check(read(str(tmp_path), problems))
    assert ["half.json" in problems[0], "wrong.json" in problems[1]] == [True, True]
    assert len(problems) == 2


def test_what_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="there is no such file"):
        read(str(tmp_path / "none"), [])


def test_gaps_are_named(tmp_path: Path) -> None:
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
        "pods on a node that is missing: default/p (node-9); they count nowhere",
    ]
