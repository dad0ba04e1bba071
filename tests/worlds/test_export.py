"""``dralab export``."""

import json
from pathlib import Path

import pytest
from dra_cli.commandline import run
from dra_shared.errors import UserError
from dra_shared.jsontypes import JsonObject

from tests.worlds.objects import SECRET, UNKNOWN, claim, cluster, pod


@pytest.fixture
def dump(tmp_path: Path) -> str:
    waiting = pod("waiting", "", "wants")
    waiting["metadata"] |= {"labels": {"team": "apollo"}, "annotations": {"note": "apollo 13"}}
    waiting["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-0"}
    waiting["spec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": "hush"}],
        "image": "corp/apollo",
    }
    path = tmp_path / "dump.json"
    items = [*cluster(2), claim("wants"), waiting, SECRET, UNKNOWN]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def _export(capsys: pytest.CaptureFixture[str], *words: str) -> JsonObject:
    run("export", list(words))
    exported: JsonObject = json.loads(capsys.readouterr().out)
    return exported


def test_an_exported_dump_can_be_exported_again(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = _export(capsys, "--from", dump)
    assert [item["kind"] for item in exported["items"]] == [
        "Node", "ResourceSlice", "DeviceClass", "ResourceClaim", "Pod", "ResourceClaim", "Pod",
    ]  # fmt: skip
    assert "managedFields" not in json.dumps(exported)
    file = tmp_path / "again.json"
    run("export", ["--from", dump, "-o", str(file)])
    assert _export(capsys, "--from", str(file)) == exported


def test_a_missing_output_folder_is_named_as_given(dump: str, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "x.json"
    with pytest.raises(UserError, match=f"cannot write {file}: No such file or directory"):
        run("export", ["--from", dump, "-o", str(file)])


def test_anonymized_names_keep_the_answers(
    dump: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = _export(capsys, "--from", dump, "--anonymize")
    text = json.dumps(exported)
    for name in ("waiting", "holder", "held", "wants", "apollo", "team", "hush", "PASSWORD", "uid-"):
        assert name not in text
    file = tmp_path / "other.json"
    file.write_text(text)
    run("free", ["--from", str(file), "-o", "json"])
    renamed = json.loads(capsys.readouterr().out)
    run("free", ["--from", dump, "-o", "json"])
    original = json.loads(capsys.readouterr().out)
    assert [(c["free"], c["used"]) for c in renamed["classes"]] == [
        (c["free"], c["used"]) for c in original["classes"]
    ]
    run("explain", ["pod/pod-2", "--from", str(file)])
    assert "fits" in capsys.readouterr().out


def test_nodes_described_by_options_are_exported(capsys: pytest.CaptureFixture[str]) -> None:
    exported = _export(capsys, "--nodes", "1", "--gpus", "1xH100-SXM5-80GB")
    kinds = [item["kind"] for item in exported["items"]]
    assert kinds[0] == "Node"
    assert "ResourceSlice" in kinds
