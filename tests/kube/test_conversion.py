"""`dralab convert`."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from dra_cli.main import main

from tests.support.reference import REPOSITORY

DATA = REPOSITORY / "tests" / "data" / "classic"


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["dralab", "convert", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    return code if isinstance(code, int) else 0


def test_objects_are_printed_to_stdout_and_comments_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, str(DATA / "training.yaml")) == 0
    out, err = capsys.readouterr()
    kinds = [one["kind"] for one in yaml.safe_load_all(out)]
    assert kinds == ["DeviceClass", "DeviceClass", "ResourceClaim", "Pod"]
    file = DATA / "training.yaml"
    line = 1 + file.read_text().splitlines().index("  count: 4")
    moved = "GpuClaimParameters four-slices: spec.count: moved: the claim's request: exactly.count"
    assert f"# {file}:{line}: {moved}\n" in err
    assert all(line.startswith("# ") for line in err.splitlines())


def test_several_objects_are_printed_as_a_list_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, str(DATA / "training.yaml"), "-o", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 4


def test_fields_without_successor_set_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, str(DATA / "versions.yaml")) == 3
    out, err = capsys.readouterr()
    assert "kind: ResourceClaim\n" in out
    assert err.endswith("dralab: 2 of the fields have no successor, see above\n")


_UNKNOWN = """
apiVersion: acc.acme.dev/v1alpha1
kind: AccClaimParameters
metadata: {name: two}
spec: {count: 2}
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: two}
spec:
  resourceClassName: acc
  parametersRef: {apiGroup: acc.acme.dev, kind: AccClaimParameters, name: two}
"""


def test_parameters_of_an_unknown_kind_set_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "unknown.yaml"
    file.write_text(_UNKNOWN)
    assert _run(monkeypatch, str(file)) == 3
    out, err = capsys.readouterr()
    assert "AccClaimParameters" not in out
    assert f"# {file}:2: AccClaimParameters two: no successor: parameters of an unknown kind" in err


def test_a_repeated_key_is_named_and_its_last_value_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\nmetadata: {name: x}\ndata: {c: d, c: e}\n"
    )
    for output in ("yaml", "json"):
        assert _run(monkeypatch, str(file), "-o", output) == 0
        out, err = capsys.readouterr()
        assert yaml.safe_load(out)["data"] == {"c": "e"}
        assert f"# {file}:5: the key 'data' is repeated" in err
        assert f"# {file}:5: the key 'c' is repeated" in err


def test_an_item_of_a_list_that_is_not_an_object_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("apiVersion: v1\nkind: List\nitems: [x]\n")
    assert _run(monkeypatch, str(file)) == 1
    assert "holds a list with an item that is not an object" in capsys.readouterr().err


def test_extended_resources_are_turned_into_claims_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(DATA / "device-plugin.yaml")
    assert _run(monkeypatch, file) == 0
    assert "ResourceClaimTemplate" not in capsys.readouterr().out
    assert _run(monkeypatch, file, "--extended-resources") == 0
    assert "ResourceClaimTemplate" in capsys.readouterr().out
    assert _run(monkeypatch, file, "--class", "nvidia.com/gpu=large") == 0
    assert "deviceClassName: large" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "-o", "table"], "unknown output 'table': choose yaml or json"),
        (["-", "--class", "gpu"], "--class gpu: want RESOURCE=CLASS"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, *arguments) == 2
    assert capsys.readouterr().err.startswith(f"dralab: {message}")
