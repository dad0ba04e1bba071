"""``status`` as text, JSON and YAML."""

import json
from pathlib import Path

import pytest
import yaml
from dra_kube.cluster import Cluster
from dra_lab import status
from dra_lab.status import Process, Status
from dra_shared.errors import UserError

_STATUS = Status(
    server="http://127.0.0.1:1",
    pid=7,
    data="/data",
    services=[
        Process("apiserver", "http://127.0.0.1:1", 8, 0, True, ""),
        Process("scheduler", "http://127.0.0.1:2", 9, 1, False, "All connection attempts failed"),
    ],
    kubernetes="1.38 (a preview)",
    nodes={"Ready": 2, "NotReady": 1},
)


@pytest.fixture(autouse=True)
def fix_status(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(cluster: Cluster) -> Status:
        return _STATUS

    monkeypatch.setattr(status, "read_status", read)


async def _show(output: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(UserError, match=r"^not ready: scheduler$"):
        await status.show(Path("/data"), output)
    return capsys.readouterr().out


async def test_text_has_a_line_for_each_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert await _show("", capsys) == (
        "http://127.0.0.1:1  (pid 7, data /data)\n"
        "Kubernetes 1.38 (a preview)\n"
        "apiserver ready      http://127.0.0.1:1  pid 8\n"
        "scheduler not ready  http://127.0.0.1:2  pid 9, 1 restart  All connection attempts failed\n"
        "nodes     2 ready, 1 notready\n"
    )


async def test_json_and_yaml_have_the_same_fields(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(await _show("json", capsys))
    assert list(shown) == ["server", "pid", "data", "services", "kubernetes", "nodes"]
    assert shown["services"][1] == {
        "name": "scheduler",
        "url": "http://127.0.0.1:2",
        "pid": 9,
        "restarts": 1,
        "ready": False,
        "problem": "All connection attempts failed",
    }
    assert yaml.safe_load(await _show("yaml", capsys)) == shown
