from pathlib import Path

import pytest
from dra_kube.manifests import load
from dra_shared.errors import UserError

from tests.support.yamltexts import bomb


def test_documents_lists_and_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\napiVersion: v1\nkind: Pod\nmetadata: {name: one}\n---\n---\n")
    (tmp_path / "b.json").write_text(
        '{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"two"}}]}'
    )
    (tmp_path / "notes.txt").write_text("not a manifest")
    assert [obj["metadata"]["name"] for obj in load([str(tmp_path)])] == ["one", "two"]


def test_subfolders_are_read_only_recursively(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
    (tmp_path / "below" / "deeper").mkdir(parents=True)
    (tmp_path / "below" / "deeper" / "a.yaml").write_text(text % "a")
    with pytest.raises(UserError, match="--recursive reads its subfolders"):
        load([str(tmp_path)])
    (tmp_path / "z.yaml").write_text(text % "z")
    (tmp_path / "below" / "notes.txt").write_text("no manifest")
    assert [one["metadata"]["name"] for one in load([str(tmp_path)])] == ["z"]
    assert [one["metadata"]["name"] for one in load([str(tmp_path)], recursive=True)] == ["a", "z"]


def test_times_and_versions_are_read_as_text(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\ndata:\n  when: 2026-01-02\n  operator: =\n")
    assert load([str(file)])[0]["data"] == {"when": "2026-01-02", "operator": "="}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not valid YAML"),
        ("[" * 25_000, "is not valid YAML: exceeded max depth of 10000"),
        (bomb(9, 10).decode(), "is not valid YAML: document contains excessive aliasing"),
        ("kind: A\napiVersion: b\n---\n" + bomb(9, 10).decode(), "contains excessive aliasing"),
        ("just text", "without apiVersion and kind"),
        ("metadata: {name: x}", "without apiVersion and kind"),
        ("", "no objects in"),
    ],
)
def test_invalid_manifests_are_rejected_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        load([str(file)])
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UserError, match=r"cannot read nowhere\.yaml: No such file"):
        load(["nowhere.yaml"])
