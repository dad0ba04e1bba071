"""``dralab cel``: a row for each device, and the position of compile errors."""

from pathlib import Path

import orjson
import pytest
from dra_cli import main

_DUMP = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "a"},
    "spec": {
        "driver": "d.example",
        "nodeName": "node-0",
        "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": "x", "attributes": {"model": {"string": "A"}}},
            {"name": "y", "attributes": {"model": {"string": "B"}}},
        ],
    },
}


def _run(tmp_path: Path, *words: str) -> int:
    file = tmp_path / "dump.json"
    file.write_bytes(orjson.dumps(_DUMP))
    with pytest.raises(SystemExit) as ended:
        main.main(["cel", *words, "--from", str(file)])
    return int(ended.value.code or 0)


def test_matching_devices_are_listed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expression = "device.driver == 'd.example' && device.attributes['d.example'].model == 'B'"
    assert _run(tmp_path, expression) == 0
    header, first, second, *rest = capsys.readouterr().out.splitlines()
    assert header.split() == ["DEVICE", "MATCH", "CLAUSE", "1", "CLAUSE", "2", "SAW"]
    assert first.split() == ["node-0/y", "yes", "yes", "yes", "model=B"]
    assert second.split() == ["node-0/x", "no", "yes", "no", "model=A"]
    assert rest[-1].startswith("1 of 2 devices match; cost at most")


def test_the_exit_code_tells_if_a_device_matches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, "false", "-o", "json") == 1
    assert orjson.loads(capsys.readouterr().out)["matches"] == 0


def test_a_compile_error_is_marked_under_its_character(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, "device.drivr == 'x'") == 1
    assert "undefined field 'drivr'\n  device.drivr == 'x'\n        ^\n" in capsys.readouterr().err
