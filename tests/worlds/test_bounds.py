"""Sources that would fill memory or disk, or never end."""

import gzip
import io
import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from dra_kube.manifests import load
from dra_kube.yamlfile import read_yaml
from dra_lab import snapshots
from dra_lab.restore.past import past
from dra_recordings import comparison
from dra_scheduler.plan.objects import Objects
from dra_shared.api.resources import NODES
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject
from dra_worlds import documents, files, unpacking
from dra_worlds.reading import read

_KIB = 1 << 10
_NODE: JsonObject = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "whole"}}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set limits that small files exceed."""
    monkeypatch.setattr(unpacking, "_ANY_RATIO", 64 * _KIB)
    monkeypatch.setattr(files, "_MOST", 4096 * _KIB)


def _read(path: Path) -> tuple[list[str], list[str]]:
    """Return the names of the nodes in a source, and its problems."""
    problems: list[str] = []
    objects: Objects = read(str(path), problems)
    return list(objects.of(NODES)), problems


def _bomb(kind: bytes = b" ", size: int = 1024 * _KIB) -> bytes:
    return gzip.compress(kind * size)


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(_bomb())
    nodes, problems = _read(path)
    assert not nodes
    assert problems == [
        f"{path}: unpacked it is more than 200 times as large, which no dump is; everything after it is missing"
    ]


def test_members_before_a_zip_bomb_are_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", json.dumps(_NODE))
        archive.writestr("b.json", b" " * 1024 * _KIB)
    nodes, problems = _read(path)
    assert nodes == ["whole"]
    assert "200 times as large" in problems[0]


def test_skipped_members_count_toward_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("pod.log")
        info.size = 1024 * _KIB
        archive.addfile(info, io.BytesIO(b" " * info.size))
    assert "200 times as large" in _read(path)[1][0]


def test_a_bomb_in_an_archive_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "outer.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("bomb.json.gz")
        bomb = _bomb(size=8192 * _KIB)
        info.size = len(bomb)
        archive.addfile(info, io.BytesIO(bomb))
    nodes, problems = _read(path)
    assert not nodes
    assert len(problems) == 1


def test_a_tar_member_with_an_endless_name_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "name.tar"
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 40
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    assert "a name that is too long" in _read(path)[1][0]


def test_unpacking_stops_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    monkeypatch.setattr(files, "_LARGE", 8 * _KIB)
    path = tmp_path / "dump.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(20):
            node = {**_NODE, "metadata": {"name": f"n{number}", "annotations": {"a": "x" * 4 * _KIB}}}
            archive.writestr(f"a-{number}.json", json.dumps(node))
        archive.writestr("b.json", json.dumps({**_NODE, "spec": {"a": "x" * 9 * _KIB}}))
    nodes, problems = _read(path)
    assert len(nodes) == 20
    assert "would fill" in problems[0]


def test_a_file_larger_than_the_limit_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_LARGE", 0)
    path = tmp_path / "large.json"
    path.write_bytes(b" " * 4097 * _KIB)
    assert _read(path)[1] == [f"{path}: it is larger than 4 MiB; everything after it is missing"]


def test_a_file_of_nul_characters_is_reported_as_not_text(tmp_path: Path) -> None:
    path = tmp_path / "zeros.json"
    path.write_bytes(bytes(_KIB))
    assert _read(path)[1] == [f"{path}: it is not text, and is ignored"]


def test_a_device_file_is_rejected() -> None:
    with pytest.raises(UserError, match="cannot read /dev/zero: it is a device, not a file"):
        read("/dev/zero", [])
    with pytest.raises(UserError, match="cannot read /dev/zero: it is a device, not a file"):
        load(["/dev/zero"])
    with pytest.raises(UserError, match="cannot read /dev/zero: it is a device, not a file"):
        read_yaml(Path("/dev/zero"))


@pytest.mark.parametrize("levels", [520, 800, 5000, 100_000])
def test_deeply_nested_objects_are_named(levels: int, tmp_path: Path) -> None:
    deep = json.dumps({**_NODE, "metadata": {"name": "deep"}, "spec": "SPEC"})
    deep = deep.replace('"SPEC"', '{"a":' * levels + "1" + "}" * levels)
    path = tmp_path / "deep.json"
    path.write_text(f'{{"apiVersion":"v1","kind":"List","items":[{json.dumps(_NODE)},{deep}]}}')
    nodes, problems = _read(path)
    assert nodes == ["whole"]
    assert len(problems) == 1
    assert "an object in it has more than 500 levels" in problems[0]


def test_brackets_in_strings_are_not_counted_as_levels() -> None:
    value = {"a": "{[" * 1000, "b": [{"c": n} for n in range(1000)]}
    assert not documents._is_too_deep(json.dumps(value).encode())


def test_the_size_of_snapshots_and_recorded_cases_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_MOST", 64 * _KIB)
    monkeypatch.setattr(comparison, "_MOST", 64 * _KIB)
    path = tmp_path / "bomb.gz"
    path.write_bytes(_bomb())
    with pytest.raises(UserError, match=r"cannot read the snapshot .*it is larger than 64 KiB"):
        snapshots.content(path)
    with pytest.raises(UserError, match=r"it is larger than 64 KiB"):
        comparison._data(path)


def test_the_size_of_a_bundle_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("dralab-bundle/begin.json")
        info.size = 1024 * _KIB
        archive.addfile(info, io.BytesIO(b" " * info.size))
    with pytest.raises(UserError, match="200 times as large"):
        past(str(path), tmp_path)
    assert not (tmp_path / "restored").exists()
