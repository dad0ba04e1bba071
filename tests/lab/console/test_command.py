"""``dralab console`` without a running cluster."""

from pathlib import Path

import pytest
from dra_cli.main import main
from dra_kube.cluster import Cluster


@pytest.mark.parametrize("was_started", [False, True])
def test_the_console_needs_a_running_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], was_started: bool
) -> None:
    if was_started:
        Cluster(tmp_path).write_kubeconfig("http://127.0.0.1:1")
    with pytest.raises(SystemExit) as ended:
        main(["console", "--no-open", "--data", str(tmp_path)])
    assert ended.value.code == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no cluster is running in" in shown.err


def test_a_missing_kubeconfig_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["console", "--no-open", "--kubeconfig", str(tmp_path / "none")])
    assert ended.value.code == 1
    assert f"cannot read kubeconfig {tmp_path / 'none'}" in capsys.readouterr().err
